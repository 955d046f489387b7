"""Opening the timer index when a slave becomes master. The event loop waits for that, so it must not wait for the disk."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

import pytest

from skyrocket.store.files import Disk
from skyrocket.store.paths import StorePaths
from skyrocket.store.timers.timer_checkpoint import TimerCheckpoint
from skyrocket.store.timers.timer_index import TimerIndex, TimerSizes, TimerTopic
from tests.support.stores.simulated_disk import SimulatedDisk

NOW_MS = 1_700_000_000_000
SIZES = TimerSizes(1_000, 1_000, 4_096)
TOPIC = TimerTopic(0, 5, lambda _: None)


def an_index(disk: SimulatedDisk) -> TimerIndex:
    return TimerIndex(disk, StorePaths("/store"), SIZES)


def test_a_slave_that_becomes_master_opens_its_timers_without_waiting_for_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    index = TimerIndex(Disk(), StorePaths(tmp_path), SIZES)
    syncs: list[int] = []
    for term in range(3):
        monkeypatch.undo()
        index.follow(TimerCheckpoint(read_ms=NOW_MS, master_queue_offset=3), NOW_MS).run()
        for name in ("fsync", "fdatasync"):
            monkeypatch.setattr(os, name, syncs.append)
        index.open(NOW_MS, TOPIC)
        assert syncs == [], f"in term {term}"
        monkeypatch.undo()
        index.begin_checkpoint(NOW_MS, 0, 0).run()  # in a thread, a second later
        index.close()
    assert [path.name for path in tmp_path.glob("timerwheel*")] == ["timerwheel"]


def test_a_wheel_is_durable_before_a_checkpoint_says_that_the_stop_was_clean():
    disk = SimulatedDisk()
    index = an_index(disk)
    index.open(NOW_MS, TOPIC)
    index.add([(NOW_MS + 2_000, 1, 0, 100, 0)], NOW_MS)
    index.begin_checkpoint(NOW_MS, 0, 0, is_clean=True).run()
    for seed in range(20):
        again = an_index(disk.crash(Random(seed)))
        assert again.open(NOW_MS, TOPIC) == []
        assert again.slot(NOW_MS + 2_000).units == 1
