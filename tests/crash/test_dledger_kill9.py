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
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.processes.dledger_group import DLedgerGroup
from tests.support.processes.numbered_load import SENDERS, NumberedLoad, check_acknowledged, check_ledgers
from tests.support.processes.skyrocket_process import SkyrocketNameserver
from tests.support.waiting import wait_until

KILLS = int(os.environ.get("SKYROCKET_DLEDGER_KILLS", "3"))
LONG = KILLS >= 10  # then the median of the fail-overs counts
IN_FLIGHT_S = 0.1  # an answer that comes so soon after a kill had left before it
QUEUES = 4
TOPIC = "KilledLeaders"


@pytest.fixture
def nameserver(tmp_path: Path) -> Iterator[str]:
    with SkyrocketNameserver(tmp_path / "names") as started:
        yield started.nameserver


def test_everything_acknowledged_is_consumed_although_leaders_are_killed(tmp_path: Path, nameserver: str):
    rng = random.Random(18)
    with DLedgerGroup(tmp_path / "group", nameserver, settings={"defaultTopicQueueNums": QUEUES}) as group:
        leader = group.wait_for_leader()
        load = NumberedLoad(nameserver, TOPIC, pause_s=0.002)
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
        load = NumberedLoad(nameserver, TOPIC, pause_s=0.002)
        try:
            load.wait_for(50, group)
            frozen = group.running[leader].process
            assert frozen is not None
            frozen.send_signal(signal.SIGSTOP)
            try:
                term = group.term_of(group.wait_for_new_leader(leader))
                count = len(load.acknowledged)
                load.wait_for(count + 50, group)
            finally:
                frozen.send_signal(signal.SIGCONT)
            wait_until(lambda: group.term_of(leader) >= term, group.tails, 60)
            load.wait_for(len(load.acknowledged) + 50, group)
        finally:
            load.stop()
        check(load, group)


def check(load: NumberedLoad, group: DLedgerGroup) -> None:
    """Everything acknowledged is where its answer said, all messages are in order, and all ledgers are equal."""
    stored = check_acknowledged(load.acknowledged, group, TOPIC, QUEUES)
    for queue_id, bodies in stored.items():
        for sender in range(SENDERS):
            numbers = [int(body.split(b"/")[1]) for body in bodies if body.startswith(b"%d/" % sender)]
            assert numbers == sorted(numbers), f"queue {queue_id} has messages of sender {sender} out of order"
    check_ledgers(group)
