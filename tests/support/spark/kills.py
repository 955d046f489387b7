"""Kills parts of a running Spark job at random moments from a seed: driver, workers and broker, `CRASHES` times each.

A job defines its output, and `check` verifies it.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.processes.skyrocket_process import Skyrocket
from tests.support.spark.crash import CRASHES, READY, SEED, START_S_MAX, Sender, SparkDriver
from tests.support.waiting import wait_until

MOMENT_S_MAX = 3.0  # from a working query to the kill
EARLY = 0.15  # share of the drivers' kills that come while the driver is still starting
EARLY_S_MAX = 12.0
BROKER_AWAY_S_MAX = 1.0
LOAD_MIN = 100


class KilledJob:
    """The broker, the sender and the driver. A subclass defines the output."""

    def __init__(self, broker: Skyrocket, sender: Sender, driver: SparkDriver) -> None:
        self.broker, self.sender, self.driver = broker, sender, driver

    def rows(self) -> int:
        """Return the number of messages in the output so far."""
        raise NotImplementedError

    def check_rows(self) -> None:
        """Check the whole output of the finished job."""
        raise NotImplementedError

    def await_progress(self) -> None:
        """Wait until the job writes again."""
        before = self.rows()
        wait_until(lambda: self.rows() > before, f"a batch after {before} rows", START_S_MAX, every_s=0.5)

    def check(self) -> None:
        self.sender.stop()
        self.driver.finish()
        assert len(self.sender.acknowledged) > LOAD_MIN, "that was no load"
        self.check_rows()


@contextmanager
def running(folder: Path, make: Callable[[Path, Skyrocket], KilledJob]) -> Iterator[KilledJob]:
    """Run a job with its own broker, which flushes before it acknowledges."""
    with Skyrocket(folder / "broker", {"flushDiskType": "SYNC_FLUSH"}) as broker:
        job = make(folder, broker)
        with job.driver:
            try:
                yield job
            finally:
                job.sender.stop()


def kill_drivers(job: KilledJob) -> None:
    chance = random.Random(SEED)
    for _ in range(CRASHES):
        if chance.random() < EARLY:
            time.sleep(chance.uniform(0, EARLY_S_MAX))
        else:
            job.driver.await_word(READY)
            time.sleep(chance.uniform(0, MOMENT_S_MAX))
        job.driver.kill()
        job.driver.start()
    job.driver.await_word(READY)
    job.check()


def kill_workers(job: KilledJob) -> None:
    """Kill a task's worker, or the process that plans or commits for the stream."""
    chance = random.Random(SEED)
    job.driver.await_word(READY)
    killed = 0
    while killed < CRASHES:
        time.sleep(chance.uniform(0, MOMENT_S_MAX))
        if job.driver.kill_worker(chance) is not None:
            killed += 1
            job.await_progress()
    job.check()


def kill_brokers(job: KilledJob) -> None:
    chance = random.Random(SEED)
    job.driver.await_word(READY)
    for _ in range(CRASHES):
        time.sleep(chance.uniform(0, MOMENT_S_MAX))
        job.broker.kill()
        time.sleep(chance.uniform(0, BROKER_AWAY_S_MAX))
        job.broker.start()
        job.await_progress()
    job.check()
