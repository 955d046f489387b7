"""A node comes back with an empty directory while the group works under load, and another is killed as soon as it is a member.

The node gets everything from the leader before its vote and its copies count. So the group does not forget: what was acknowledged
with the help of the node before it lost its disk is still there, also when one of the two others is gone for good.
"""

from __future__ import annotations

from pathlib import Path

from tests.failover.limits import ROUNDS
from tests.support import failover_report as report
from tests.support.processes.dledger_group import DLedgerGroup
from tests.support.processes.numbered_load import NumberedLoad, check_acknowledged, check_ledgers
from tests.support.waiting import wait_until

QUEUES = 4
TOPIC = "LostDisks"


def is_member(group: DLedgerGroup, node: str) -> bool:
    """Whether a node has a term on disk, and is no learner any more: its vote counts."""
    path = group.home / node / "store" / f"dledger-{node}" / "currterm"
    return path.exists() and "currTerm" in (text := path.read_text()) and "learner=true" not in text


def test_a_node_that_lost_its_disk_gets_everything_and_the_group_forgets_nothing(tmp_path: Path, nameserver: str):
    with DLedgerGroup(tmp_path / "group", nameserver, settings={"defaultTopicQueueNums": QUEUES}) as group:
        group.wait_for_leader()
        load = NumberedLoad(nameserver, TOPIC, pause_s=0.002)
        try:
            load.wait_for(200, group)
            for kills_leader in (True, False) * ROUNDS:
                leader = group.wait_for_leader()
                wiped, other = (node for node in group.kinds if node != leader)
                group.kill(wiped)
                group.wipe(wiped)
                load.wait_for_more(50, group)  # two of three are a majority
                group.start(wiped)
                wait_until(lambda wiped=wiped: is_member(group, wiped), group.tails, every_s=0.005)
                victim = leader if kills_leader else other
                group.kill(victim)
                load.wait_for_more(50, group)  # with the node that was wiped
                group.start(victim)
                load.wait_for_more(50, group)
        finally:
            load.stop()
        check_acknowledged(load.acknowledged, group, TOPIC, QUEUES)
        check_ledgers(group)
    text = f"{2 * ROUNDS} times, then the leader or the other follower killed; {len(load.acknowledged)} acknowledged, none lost"
    report.add("a node that lost its disk", text)
