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
from tests.support.apache.cluster import ApacheCluster
from tests.support.processes.dledger_group import DLedgerGroup, Kind
from tests.support.waiting import wait_until

pytestmark = pytest.mark.interop

KILLS = int(os.environ.get("SKYROCKET_MIXED_KILLS", "1"))
TOPIC = "Mixed"
QUEUES = 4
# Nodes of one kind more often than of the other, and pushes with one entry and with many. More kills run all four.
GROUPS: list[tuple[tuple[Kind, ...], str]] = [(("apache", "apache", "ours"), ""), (("apache", "ours", "ours"), "batches")]
if KILLS > 1:
    GROUPS += [(("apache", "apache", "ours"), "batches"), (("apache", "ours", "ours"), "")]
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


@pytest.mark.parametrize(("kinds", "batches"), GROUPS, ids=lambda value: value if isinstance(value, str) else "-".join(value))
def test_a_mixed_group_fails_over_and_its_ledgers_are_equal(
    tmp_path: Path, apache: ApacheCluster, kinds: tuple[Kind, ...], batches: str
):
    settings = {**SETTINGS, "enableBatchPush": "true" if batches else "false"}
    acknowledged: dict[bytes, tuple[int, int]] = {}
    with (
        DLedgerGroup(tmp_path / "group", apache.nameserver, kinds, apache, settings) as group,
        Producer(nameservers=apache.nameserver, group="P") as producer,
    ):
        leader = group.wait_for_leader()
        send_some(producer, group, "first", 50, acknowledged)
        for number in range(KILLS):
            group.kill(leader)
            killed, leader = leader, group.wait_for_leader(other_than=leader)
            send_some(producer, group, f"kill{number}", 50, acknowledged)
            group.start(killed)
            wait_until(group.is_level, group.describe_ledgers, every_s=0.2)
        for node, kind in group.kinds.items():
            if node != leader and kind != group.kinds[leader]:
                assert group.transfer(leader, node), group.tails()
                leader = group.wait_for_leader(other_than=leader)
                assert leader == node
                send_some(producer, group, f"transfer to {node}", 50, acknowledged)
                break
        wait_until(group.is_level, group.describe_ledgers, every_s=0.2)
        ledgers = [group.entries(node) for node in group.kinds]
        assert ledgers[0] == ledgers[1] == ledgers[2]
        stored = group.read_all(leader, TOPIC, QUEUES)
        for body, (queue_id, offset) in acknowledged.items():
            assert stored[queue_id][offset] == body, f"{body!r} was acknowledged at {offset} of queue {queue_id}"
