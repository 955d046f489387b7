"""The leader of a group is killed with SIGKILL again and again, whichever node it is, under load of our client and of Java's.

Everything acknowledged is consumed by both clients' consumers, in order per queue, and lies where its answer said. All ledgers
are equal, entry by entry. How long each client had no acknowledgement is measured from the kill. With FAST timings and ten kills
or more, that is less than a second for half of our client's fail-overs. Java's client learns of the new leader when it asks the
nameserver; it does so every half a second here, and every 30 s by default.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple

import pytest

from tests.failover.consumption import OrderlyConsumer
from tests.failover.java_load import JavaLoad
from tests.failover.limits import IS_LONG, SECONDS
from tests.support import failover_report as report
from tests.support.apache.cluster import ApacheCluster
from tests.support.processes.dledger_group import DLedgerGroup, Kind
from tests.support.processes.numbered_load import NumberedLoad, check_acknowledged, check_ledgers, first_after
from tests.support.processes.skyrocket_process import SkyrocketNameserver

pytestmark = pytest.mark.interop

TOPIC = "Failovers"
QUEUES = 4
KILLS_LEAST = 2
KILLS_THAT_COUNT = 10  # from here on, the median of the fail-overs is a promise
IN_FLIGHT_S = 0.1  # an answer that comes so soon after a kill had left before it
PAUSE_S = 0.005  # of each of our senders, between two messages


class Scene(NamedTuple):
    kinds: tuple[Kind, ...]
    timings: str = "DLEDGER"
    share: float = 1.0  # of SECONDS


SCENES = {
    "three of ours, FAST": Scene(("ours", "ours", "ours"), "FAST"),
    "three of ours, DLEDGER": Scene(("ours", "ours", "ours")),
    "1 of Apache's and 2 of ours": Scene(("apache", "ours", "ours"), share=0.5),
    "2 of Apache's and 1 of ours": Scene(("apache", "apache", "ours"), share=0.5),
}
RUN = list(SCENES) if IS_LONG else list(SCENES)[:1]


@contextmanager
def started(home: Path, scene: Scene) -> Iterator[DLedgerGroup]:
    """Start a nameserver and a group: Apache's nameserver where nodes are Apache's."""
    settings = {"defaultTopicQueueNums": QUEUES, "timerWheelEnable": "false", "dLedgerTimings": scene.timings}
    if "apache" in scene.kinds:
        with (
            ApacheCluster(home / "apache") as cluster,
            DLedgerGroup(home / "group", cluster.nameserver, scene.kinds, cluster, settings) as group,
        ):
            yield group
    else:
        with (
            SkyrocketNameserver(home / "names") as names,
            DLedgerGroup(home / "group", names.nameserver, settings=settings) as group,
        ):
            yield group


@pytest.mark.parametrize("name", RUN)
def test_everything_acknowledged_is_consumed_by_our_client_and_by_javas(tmp_path: Path, name: str):
    scene = SCENES[name]
    with started(tmp_path, scene) as group:
        group.wait_for_leader()
        load = NumberedLoad(group.nameserver, TOPIC, pause_s=PAUSE_S)
        try:
            load.wait_for(20, group)
            with JavaLoad(tmp_path / "java", group.nameserver, TOPIC) as java, OrderlyConsumer(group.nameserver, TOPIC) as ours:
                java.wait_for_more(20, group)
                gaps = kill_leaders(group, load, java, SECONDS * scene.share)
                load.stop()
                java.stop_sending()
                acknowledged = {**load.acknowledged, **java.acknowledged}
                check_acknowledged(acknowledged, group, TOPIC, QUEUES)
                for consumed in (ours.consumed, java.consumed):
                    consumed.check(acknowledged)
                describe(name, gaps, load, java, ours)
        finally:
            load.stop()
        check_ledgers(group)
        if scene.timings == "FAST" and len(gaps) >= KILLS_THAT_COUNT:
            assert median(gap for gap, _ in gaps) < 1, gaps


def kill_leaders(group: DLedgerGroup, load: NumberedLoad, java: JavaLoad, seconds: float) -> list[tuple[float, float]]:
    """Return for each kill how long our client and Java's had no acknowledgement."""
    chance, until = random.Random(18), time.monotonic() + seconds
    gaps: list[tuple[float, float]] = []
    while time.monotonic() < until or len(gaps) < KILLS_LEAST:
        leader = group.wait_for_leader()
        killed_at = time.monotonic()
        group.kill(leader)
        after = killed_at + IN_FLIGHT_S
        gaps.append((first_after(load.times, after, group) - killed_at, first_after(java.times, after, group) - killed_at))
        group.start(leader)
        load.wait_for_more(50, group)
        java.wait_for_more(10, group)
        time.sleep(chance.random())
    return gaps


def describe(name: str, gaps: list[tuple[float, float]], load: NumberedLoad, java: JavaLoad, ours: OrderlyConsumer) -> None:
    report.add(f"{name}: our client", f"{report.describe_gaps([gap for gap, _ in gaps])}; {len(load.acknowledged)} acknowledged")
    report.add(f"{name}: Java's", f"{report.describe_gaps([gap for _, gap in gaps])}; {len(java.acknowledged)} acknowledged")
    text = f"all of it consumed in order; came again: ours {ours.consumed.repeated}, Java's {java.consumed.repeated}"
    report.add(f"{name}: consumers", text)
