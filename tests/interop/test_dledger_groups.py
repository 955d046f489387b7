"""DLedger groups of our nodes and Apache's: they elect, replicate, fail over, and have equal ledgers.

The leader is killed with SIGKILL, whichever it is. SKYROCKET_MIXED_KILLS sets how often (1).
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from skyrocket.client import Message, SendStatus
from skyrocket.client.errors import ClientError
from skyrocket.client.sync import Producer
from skyrocket.protocol.bodies.dledger import LeadershipTransferRequest, LeadershipTransferResponse, LedgerCode
from skyrocket.protocol.command import Command
from skyrocket.protocol.fastjson.codec import decode, encode
from skyrocket.protocol.requests import RequestCode
from tests.support.apache_cluster import ApacheCluster, send_request
from tests.support.dledger_group import BROKER, DLedgerGroup, Kind
from tests.support.waiting import wait_until

pytestmark = pytest.mark.interop

KILLS = int(os.environ.get("SKYROCKET_MIXED_KILLS", "1"))
TOPIC = "Mixed"
QUEUES = 4
SETTINGS = {"timerWheelEnable": "false", "defaultTopicQueueNums": QUEUES}


@pytest.fixture
def apache(tmp_path: Path) -> Iterator[ApacheCluster]:
    with ApacheCluster(tmp_path / "apache") as started:
        yield started


def send_some(producer: Producer, group: DLedgerGroup, name: str, count: int, acknowledged: dict[bytes, tuple[int, int]]) -> None:
    """Send messages until so many are acknowledged."""
    number, until = 0, time.monotonic() + 120
    while count:
        number += 1
        body = f"{name}/{number}".encode()
        try:
            receipt = producer.send(Message(TOPIC, body))
        except ClientError as error:
            if time.monotonic() > until:
                raise AssertionError(group.tails()) from error
            time.sleep(0.1)
            continue
        if receipt.status is SendStatus.OK:
            acknowledged[body] = (receipt.queue.queue_id, receipt.queue_offset)
            count -= 1


def transfer(group: DLedgerGroup, leader: str, to: str) -> None:
    """Move the leadership, as a tool does."""
    request = LeadershipTransferRequest(
        group=BROKER, local_id=leader, remote_id=leader, term=group.term_of(leader), transfer_id=leader, transferee_id=to
    )
    command = Command(RequestCode.DLEDGER_LEADERSHIP_TRANSFER, opaque=1, body=encode(request))
    answer = send_request(("127.0.0.1", group.node_ports[leader]), command)
    assert answer is not None
    assert decode(answer.body, LeadershipTransferResponse).code == LedgerCode.SUCCESS, answer.body


@pytest.mark.parametrize("kinds", [("apache", "apache", "ours"), ("apache", "ours", "ours")], ids="-".join)
def test_a_mixed_group_fails_over_and_its_ledgers_are_equal(tmp_path: Path, apache: ApacheCluster, kinds: tuple[Kind, ...]):
    acknowledged: dict[bytes, tuple[int, int]] = {}
    with (
        DLedgerGroup(tmp_path / "group", apache.nameserver, kinds, apache, SETTINGS) as group,
        Producer(nameservers=apache.nameserver, group="P") as producer,
    ):
        leader = group.wait_for_leader()
        send_some(producer, group, "first", 50, acknowledged)
        for number in range(KILLS):
            group.kill(leader)
            killed, leader = leader, group.wait_for_leader(other_than=leader)
            send_some(producer, group, f"kill{number}", 50, acknowledged)
            group.start(killed)
            wait_until(group.is_level, group.describe_ledgers)
        for node, kind in group.kinds.items():
            if node != leader and kind != group.kinds[leader]:
                transfer(group, leader, node)
                leader = group.wait_for_leader(other_than=leader)
                assert leader == node
                send_some(producer, group, f"transfer to {node}", 50, acknowledged)
                break
        wait_until(group.is_level, group.describe_ledgers)
        ledgers = [group.entries(node) for node in group.kinds]
        assert ledgers[0] == ledgers[1] == ledgers[2]
        stored = group.read_all(leader, TOPIC, QUEUES)
        for body, (queue_id, offset) in acknowledged.items():
            assert stored[queue_id][offset] == body, f"{body!r} was acknowledged at {offset} of queue {queue_id}"
