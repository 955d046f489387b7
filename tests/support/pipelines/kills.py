"""Kills of jobs, of Spark's workers and of brokers at random moments from a seed.

    with SparkDriver(DRIVER, {"job": "archive", "master": victim.master, …}, log) as driver:
        for _ in range(KILLS):
            victim.kill(driver, chance, MOMENT_S_MAX)
        await_end(driver)                     # of a job that ends by itself

`SKYROCKET_PIPELINE_KILLS` is the number of kills of each test: one by default, twenty with `make pipeline-crash`,
which also kills executors of a standalone cluster.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.support.processes.skyrocket_process import Skyrocket
from tests.support.spark.crash import READY, START_S_MAX, SparkDriver, descendants
from tests.support.waiting import wait_until

IS_LONG = "SKYROCKET_PIPELINE_KILLS" in os.environ
KILLS = int(os.environ.get("SKYROCKET_PIPELINE_KILLS", "1"))
DRIVER = "tests.support.pipelines.driver"
DONE = "DONE"  # said by a job that ends by itself
MOMENT_S_MAX = 2.0
TRIES_MAX = 100
BUSY_S_MAX = 2.0  # until a worker is seen at work
BEGUN_S_MAX = 20.0  # until an executor has a Python worker
_LOST_TASK, _LOST_EXECUTOR = "Lost task ", "Lost executor "  # in Spark's log
_WORKER = b"pyspark.daemon\0pyspark.worker"  # of tasks; their daemon has the same name
_EXECUTOR = b"CoarseGrainedExecutorBackend"
_LOG_LINES = 1_000_000


@dataclass(frozen=True)
class Victim:
    """What is killed, and the master on which its job runs."""

    name: str
    master: str
    kill: Callable[[SparkDriver, random.Random, float], bool]  # the longest wait before it; False: the job had ended before


def driver_victim() -> Victim:
    """The driver, with its JVM and all tasks."""
    return Victim("driver", "local[2]", kill_driver)


def worker_victim() -> Victim:
    """A Python worker of a task. Spark repeats the task up to three times, as it does by default on a cluster."""
    return Victim("worker", "local[2,4]", kill_worker)


def executor_victim(master: str) -> Victim:
    """An executor of a standalone cluster that this process has started, with its Python workers."""
    return Victim("executor", master, kill_executor)


def kill_driver(driver: SparkDriver, chance: random.Random, moment_s: float = MOMENT_S_MAX) -> bool:
    driver.await_word(READY)
    time.sleep(chance.uniform(0, moment_s))
    driver.kill()
    driver.start()
    return True


def kill_worker(driver: SparkDriver, chance: random.Random, moment_s: float = MOMENT_S_MAX) -> bool:
    """Kill a worker that is at work: tasks of a small batch take milliseconds, and between them all workers wait."""

    def kill() -> None:
        assert driver.process is not None
        pids = _find(driver.process.pid, _WORKER)
        until_s = time.monotonic() + BUSY_S_MAX
        while time.monotonic() < until_s:
            busy = [pid for pid in pids if _is_running(pid)]
            if busy:
                _kill(chance.choice(busy))
                return
            time.sleep(0.001)

    return _kill_until_lost(driver, kill, _LOST_TASK, lambda: chance.uniform(0, moment_s))


def kill_executor(driver: SparkDriver, chance: random.Random, moment_s: float = MOMENT_S_MAX) -> bool:
    """Kill an executor that has run a task. Spark gives up a job whose executors fail ten times before they have begun."""

    def kill() -> None:
        until_s = time.monotonic() + BEGUN_S_MAX
        while time.monotonic() < until_s:
            begun = [pid for pid in _find(os.getpid(), _EXECUTOR) if _find(pid, _WORKER)]
            if begun:
                _kill(chance.choice(begun))
                return
            time.sleep(0.05)

    return _kill_until_lost(driver, kill, _LOST_EXECUTOR, lambda: chance.uniform(0, moment_s))


def _kill_until_lost(driver: SparkDriver, kill: Callable[[], None], lost: str, draw_s: Callable[[], float]) -> bool:
    """Kill such processes at random moments, until Spark has lost by it what it says in its log."""
    before = _count(driver, lost)
    for _ in range(TRIES_MAX):
        start_again(driver)
        driver.await_word(READY)
        time.sleep(draw_s())
        if _count(driver, lost) > before:
            return True
        if DONE in driver.words():
            return False
        kill()
    raise AssertionError(f"{TRIES_MAX} kills, and Spark does not say '{lost}':\n{driver.read_log()}")


def _count(driver: SparkDriver, words: str) -> int:
    return driver.read_log(_LOG_LINES).count(words)


def start_again(driver: SparkDriver) -> None:
    """Start a job again that has ended with an error, as an operator does: Spark gives up a task that is lost four times."""
    if driver.is_over and DONE not in driver.words():
        driver.kill()  # closes its pipe
        driver.start()


def await_end(driver: SparkDriver) -> None:
    """Wait until a job has said DONE, and start it again if it ends with an error."""

    def is_done() -> bool:
        start_again(driver)
        return DONE in driver.words()

    wait_until(is_done, "the end of the job", START_S_MAX)


def kill_and_start_broker(broker: Skyrocket, chance: random.Random) -> None:
    time.sleep(chance.uniform(0, MOMENT_S_MAX))
    broker.kill()
    time.sleep(chance.uniform(0, 1.0))
    broker.start()


# --- processes


def _find(above: int, what: bytes) -> list[int]:
    """Return the descendants of a process whose command line has these words."""
    return [pid for pid in descendants(above) if what in _read(pid, "cmdline")]


def _is_running(pid: int) -> bool:
    return _read(pid, "stat").rpartition(b") ")[2].startswith(b"R")


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:  # it has ended
        return b""


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):  # it has just ended
        os.kill(pid, signal.SIGKILL)
