"""The power fails, and each sector that was not synced is kept or lost at random.

Every acknowledged message is found, and everything found was sent: in order, by queue, key and physical offset. Recovering twice
gives the same files as recovering once, and the store can go on. Queues, index and checksums are written late: all of them, a
part of a round, because one of their bounds is reached, or not at all before the power fails.
"""

from __future__ import annotations

import os
from dataclasses import replace
from itertools import count
from random import Random
from unittest.mock import patch

import pytest

from skyrocket.store import late_writes
from skyrocket.store.config import StoreConfig
from skyrocket.store.message_store import MessageStore
from tests.support.stores.simulated_disk import PowerCut, SimulatedDisk
from tests.support.stores.store_messages import ROOT, SMALL, START_MS, Ledger, an_open_store, expire_oldest, random_messages

DRAWS = int(os.environ.get("SKYROCKET_CRASH_DRAWS", "200"))
PARTS = 20


class Run:
    """One seeded life of a store up to a power failure, and the recovery."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.serial = count()
        self.ledger = Ledger()
        self.now_ms = START_MS
        self.config = _random_config(self.rng)
        self.bounds = _random_bounds(self.rng)
        self.disk = SimulatedDisk(self.rng.randrange(2**32))

    def live(self, steps: int, power_cut: bool) -> None:
        """Open and use the store. With `power_cut`, the power fails in the middle of an operation."""
        if power_cut:
            self.disk.cut_power_at(self.rng.randrange(1, self.rng.choice((2, 8)) * steps + 10))
        try:
            store = an_open_store(self.disk, self.config)
            self.ledger.reopened(store)
            for _ in range(steps):
                self._step(store)
                self.ledger.note_promise(store)
            if self.rng.random() < 0.1:
                store.close()
        except PowerCut:
            pass

    def _step(self, store: MessageStore) -> None:
        rng = self.rng
        self.now_ms += rng.choice((0, 1, 900, 5000))
        choice = rng.random()
        if choice < 0.65:
            self.ledger.append(store, random_messages(rng, self.serial, rng.randrange(1, 21)), self.now_ms)
        elif choice < 0.78:
            store.flush()
        elif choice < 0.84:
            store.checkpoint()
        elif choice < 0.92:
            self._write_late(store)
        elif choice < 0.97:
            self.disk.writeback(rng)
        else:
            expire_oldest(store)

    def _write_late(self, store: MessageStore) -> None:
        """Write some queues. When that ends a round, a checkpoint may follow, as in the flusher."""
        if store.write_late() and self.rng.random() < 0.8:
            job = store.begin_checkpoint()
            if self.rng.random() < 0.3:  # appended while the job runs in its thread
                self.ledger.append(store, random_messages(self.rng, self.serial, 3), self.now_ms)
            job.run()
            store.finish_checkpoint(job)

    def crash(self) -> None:
        self.disk = self.disk.kill() if self.rng.random() < 0.1 else self.disk.crash(self.rng)


def _random_config(rng: Random) -> StoreConfig:
    return replace(
        SMALL,
        segment_bytes=rng.choice((8192, 16384)),
        queue_entries_per_file=rng.choice((3, 10, 50)),
        index_slots=rng.choice((3, 50)),
        index_entries=rng.choice((10, 60)),
        sync_flush=rng.random() < 0.5,
        undispatched_max=rng.choice((3, 1000)),
    )


def _random_bounds(rng: Random) -> dict[str, int]:
    """Return bounds of late writes: the usual ones are never reached here."""
    if rng.random() < 0.4:
        return {"QUEUES_AT_ONCE": rng.choice((1, 2, 64))}
    return {
        "QUEUES_AT_ONCE": rng.choice((1, 2, 64)),
        "QUEUES_LATE_BYTES_MAX": rng.choice((20, 200, 2000)),
        "INDEX_LATE_BYTES_MAX": rng.choice((20, 200, 2000)),
        "CHECKSUMS_LATE_BYTES_MAX": rng.choice((8, 80, 800)),
    }


def draw(seed: int) -> None:
    run = Run(seed)
    with patch.multiple(late_writes, **run.bounds):
        play(run)


def play(run: Run) -> None:
    for _ in range(run.rng.choice((1, 1, 2))):
        run.live(run.rng.randrange(1, 14), power_cut=run.rng.random() < 0.7)
        run.crash()
    if run.rng.random() < 0.3:  # the power goes again, while the store recovers
        run.live(0, power_cut=True)
        run.crash()

    store = an_open_store(run.disk, run.config)
    found = run.ledger.reopened(store)
    store.close()
    once = run.disk.contents()

    again = an_open_store(run.disk, run.config)
    assert run.ledger.check(again) == found
    again.close()
    assert run.disk.contents() == once, "recovering twice is not recovering once"

    # What was recovered and closed is safe, and the store goes on.
    run.disk = run.disk.crash(run.rng)
    going_on = an_open_store(run.disk, run.config)
    assert run.ledger.check(going_on) == found
    run.ledger.append(going_on, random_messages(run.rng, run.serial, 10), run.now_ms)
    going_on.flush()
    run.ledger.note_promise(going_on)
    run.ledger.check(going_on)
    going_on.close()


@pytest.mark.parametrize("part", range(PARTS))
def test_acknowledged_messages_survive_and_nothing_else_appears(part: int):
    for seed in range(part, DRAWS, PARTS):
        try:
            draw(seed)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}") from error


def test_same_seed_gives_the_same_disk():
    def story() -> dict[str, bytes]:
        run = Run(7)
        run.live(10, power_cut=False)
        run.crash()
        return run.disk.contents()

    assert story() == story()


def test_empty_store_survives_a_power_failure_at_every_operation_of_its_first_start():
    for change in range(1, 40):
        disk = SimulatedDisk(change)
        disk.cut_power_at(change)
        try:
            MessageStore(ROOT, SMALL, files=disk).open()
        except PowerCut:
            store = an_open_store(disk.crash(Random(change)), SMALL)
            store.close()
        else:
            return
    pytest.fail("opening an empty store took more than 40 changes")
