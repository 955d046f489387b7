"""Our node repairs damaged entries from Apache's, which answers GET only while it leads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from skyrocket.client.sync import Producer
from skyrocket.protocol.bodies.dledger import GetEntriesRequest, GetEntriesResponse, LedgerCode
from skyrocket.protocol.command import Command
from skyrocket.protocol.fastjson.codec import decode, encode
from skyrocket.protocol.requests import RequestCode
from tests.interop.test_dledger_groups import QUEUES, SETTINGS, TOPIC, send_some
from tests.support.apache.cluster import ApacheCluster, send_request
from tests.support.processes.dledger_group import BROKER, DLedgerGroup
from tests.support.processes.skyrocket_process import SkyrocketBroker
from tests.support.waiting import wait_until

pytestmark = pytest.mark.interop

APACHE, OURS = "n0", "n1"


@pytest.fixture
def apache(tmp_path: Path) -> Iterator[ApacheCluster]:
    with ApacheCluster(tmp_path / "apache") as started:
        yield started


def get_entry(group: DLedgerGroup, node: str, index: int) -> GetEntriesResponse:
    request = GetEntriesRequest(group=BROKER, local_id="tool", remote_id=node, begin_index=index, max_size=1 << 20)
    answer = send_request(("127.0.0.1", group.node_ports[node]), Command(RequestCode.DLEDGER_GET, opaque=1, body=encode(request)))
    assert answer is not None
    return decode(answer.body, GetEntriesResponse)


def data_of(group: DLedgerGroup, node: str) -> Path:
    return group.home / node / "store" / f"dledger-{node}" / "data" / ("0" * 20)


def test_apaches_node_as_the_only_other_one_is_the_source_also_if_ours_led(tmp_path: Path, apache: ApacheCluster):
    with DLedgerGroup(tmp_path / "group", apache.nameserver, ("apache", "ours"), apache, SETTINGS) as group:
        with Producer(nameservers=apache.nameserver, group="P") as producer:
            leader = group.wait_for_leader()
            acknowledged: dict[bytes, tuple[int, int]] = {}
            send_some(producer, group, "some", 60, acknowledged)
            wait_until(group.is_level, group.describe_ledgers, every_s=0.2)
        if leader == APACHE:
            assert group.transfer(APACHE, OURS), group.tails()
            group.wait_for_leader(other_than=APACHE)
        wait_until(group.is_level, group.describe_ledgers, every_s=0.2)
        stored: dict[int, list[bytes]] = {}

        def is_served(node: str) -> bool:
            stored.update(group.read_all(node, TOPIC, QUEUES))
            return all(stored[queue_id][offset : offset + 1] == [body] for body, (queue_id, offset) in acknowledged.items())

        # A node of Apache's copies topics from its master, now and then. If it leads before, the group does not have the topic.
        wait_until(lambda: is_served(APACHE), lambda: f"{stored}", every_s=0.5)
        assert get_entry(group, APACHE, 5).code == LedgerCode.NOT_LEADER, "a follower of Apache's does not answer"
        entries = group.entries(OURS)
        ours = group.running[OURS]
        assert isinstance(ours, SkyrocketBroker)
        ours.stop()
        with data_of(group, OURS).open("r+b") as file:
            for index in (5, 6, 30):
                file.seek(entries[index].pos + 48 + 40)
                file.write(b"damage")
        group.start(OURS)
        wait_until(lambda: group.entries(OURS)[:60] == entries[:60], group.tails, 120)
        wait_until(lambda: "Repaired: entries" in ours.log_tail(200), ours.log_tail, 60)
        wait_until(lambda: is_served(OURS), lambda: f"{stored}\n{ours.log_tail()}", 60)
