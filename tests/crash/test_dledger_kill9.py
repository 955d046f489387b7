"""A DLedger group of three processes: its leader is killed with SIGKILL again and again, under load.

Producers of our client send numbered messages to all queues and note which were acknowledged. Everything acknowledged is consumed
in the end, in order per queue. SKYROCKET_DLEDGER_KILLS sets the number of kills (3); with 10 or
more, half of the fail-overs must take less than a second.
"""

from __future__ import annotations

import os
import random
import signal
import statistics
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from skyrocket.client import Message, SendStatus
from skyrocket.client.errors import ClientError
from skyrocket.client.sync import Producer
from tests.support.dledger_group import DLedgerGroup
from tests.support.skyrocket_process import SkyrocketNameserver
from tests.support.waiting import wait_until

KILLS = int(os.environ.get("SKYROCKET_DLEDGER_KILLS", "3"))
LONG = KILLS >= 10  # then the median of the fail-overs counts
IN_FLIGHT_S = 0.1  # an answer that comes so soon after a kill had left before it
SENDERS, QUEUES = 4, 4
TOPIC = "KilledLeaders"


@pytest.fixture
def nameserver(tmp_path: Path) -> Iterator[str]:
    with SkyrocketNameserver(tmp_path / "names") as started:
        yield started.nameserver


class NumberedLoad:
    """Threads that send numbered messages until `stop`. A message that was not acknowledged is not sent again."""

    def __init__(self, nameserver: str) -> None:
        self._nameserver = nameserver
        self._ended = threading.Event()
        self.acknowledged: dict[bytes, tuple[int, int]] = {}  # queue and queue offset
        self.times: list[float] = []
        self.errors: list[str] = []
        self._threads = [threading.Thread(target=self._send, args=(number,)) for number in range(SENDERS)]
        for thread in self._threads:
            thread.start()

    def _send(self, sender: int) -> None:
        with Producer(nameservers=self._nameserver, group=f"P{sender}") as producer:
            number = 0
            while not self._ended.is_set():
                number += 1
                body = b"%d/%d" % (sender, number)
                try:
                    receipt = producer.send(Message(TOPIC, body))
                except ClientError as error:
                    self.errors.append(str(error))
                    time.sleep(0.02)
                    continue
                if receipt.status is SendStatus.OK:
                    self.acknowledged[body] = (receipt.queue.queue_id, receipt.queue_offset)
                    self.times.append(time.monotonic())

    def wait_for(self, count: int, group: DLedgerGroup) -> None:
        """Wait until so many messages are acknowledged."""
        wait_until(lambda: len(self.acknowledged) > count, lambda: f"{self.errors[-3:]}\n{group.tails()}", 60)

    def wait_for_answer_after(self, after: float, group: DLedgerGroup) -> float:
        """Return when the first message was acknowledged after a moment."""
        wait_until(lambda: bool(self.times) and self.times[-1] > after, group.tails, 60, every_s=0.01)
        return min(at for at in list(self.times) if at > after)

    def stop(self) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()


def test_everything_acknowledged_is_consumed_although_leaders_are_killed(tmp_path: Path, nameserver: str):
    rng = random.Random(18)
    with DLedgerGroup(tmp_path / "group", nameserver, settings={"defaultTopicQueueNums": QUEUES}) as group:
        leader = group.wait_for_leader()
        load = NumberedLoad(nameserver)
        gaps: list[float] = []
        try:
            load.wait_for(100, group)
            for _ in range(KILLS):
                killed_at = time.monotonic()
                group.kill(leader)
                gaps.append(load.wait_for_answer_after(killed_at + IN_FLIGHT_S, group) - killed_at)
                old, leader = leader, group.wait_for_leader(other_than=leader)
                assert old != leader
                count = len(load.acknowledged)
                group.start(old)
                load.wait_for(count + 50, group)
                time.sleep(rng.random())
        finally:
            load.stop()
        found = f"{len(load.acknowledged)} acknowledged; seconds without one: median {statistics.median(gaps):.2f}, all {gaps}"
        (tmp_path / "fail_overs.txt").write_text(found)
        if LONG:
            assert statistics.median(gaps) < 1, found
        check(load, group)


def test_a_leader_that_was_frozen_acknowledges_nothing_and_follows(tmp_path: Path, nameserver: str):
    with DLedgerGroup(tmp_path / "group", nameserver, settings={"defaultTopicQueueNums": QUEUES}) as group:
        leader = group.wait_for_leader()
        load = NumberedLoad(nameserver)
        try:
            load.wait_for(50, group)
            frozen = group.running[leader].process
            assert frozen is not None
            frozen.send_signal(signal.SIGSTOP)
            try:
                other = group.wait_for_new_leader(leader)
                count = len(load.acknowledged)
                load.wait_for(count + 50, group)
            finally:
                frozen.send_signal(signal.SIGCONT)
            wait_until(lambda: group.leader_according_to(leader) == other, group.tails, 60)
            load.wait_for(len(load.acknowledged) + 50, group)
        finally:
            load.stop()
        check(load, group)


def check(load: NumberedLoad, group: DLedgerGroup) -> None:
    """Everything acknowledged is where its answer said, in order, and all ledgers are equal."""
    leader = group.wait_for_leader()
    stored = group.read_all(leader, TOPIC, QUEUES)
    for body, (queue_id, offset) in load.acknowledged.items():
        assert stored[queue_id][offset] == body, f"{body!r} was acknowledged at {offset} of queue {queue_id}"
    for queue_id, bodies in stored.items():
        for sender in range(SENDERS):
            numbers = [int(body.split(b"/")[1]) for body in bodies if body.startswith(b"%d/" % sender)]
            assert numbers == sorted(numbers), f"queue {queue_id} has messages of sender {sender} out of order"
    wait_until(group.is_level, group.describe_ledgers, 60)
    ledgers = [group.entries(node) for node in group.kinds]
    assert ledgers[0] == ledgers[1] == ledgers[2]
