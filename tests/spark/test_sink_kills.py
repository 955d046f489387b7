"""Kills the process or the broker of a commit with SIGKILL at random moments: each row is delivered once.

No Spark runs here, so many moments are tried in a short time; `SKYROCKET_SPARK_CRASHES` is their number.
"""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.spark.sink_scenes import bodies, commit, exactly_once, options_for, send, stage, visible_bodies
from tests.support.apache.cluster import NO_TIMERS, ApacheCluster, JavaProcess
from tests.support.ports import free_port
from tests.support.processes.skyrocket_process import Skyrocket
from tests.support.spark.crash import CRASHES, REPOSITORY, SEED
from tests.support.waiting import wait_until

ROWS = 1_500
EVERY = sorted(str(number).encode() for number in range(ROWS))
COMMIT_S_MAX = 0.6  # from the end of staging to the kill: a commit takes about as long
SYNC_FLUSH = {"flushDiskType": "SYNC_FLUSH"}


class Broker:
    """A broker that can be killed and restarted."""

    def __init__(self, nameserver: str) -> None:
        self.nameserver = nameserver

    def kill(self) -> None: ...

    def start(self) -> None: ...


class Ours(Broker):
    def __init__(self, process: Skyrocket) -> None:
        super().__init__(process.nameserver)
        self.kill, self.start = process.kill, process.start  # type: ignore[method-assign]


class Apaches(Broker):
    def __init__(self, cluster: ApacheCluster, store: Path) -> None:
        super().__init__(cluster.nameserver)
        self._cluster, self._store = cluster, store
        self._settings = {"brokerName": "broker-a", "listenPort": free_port(-2, 1), "mappedFileSizeCommitLog": 16_777_216}
        self._process: JavaProcess | None = None
        self.start()

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()

    def start(self) -> None:
        """Start again with the same name and port."""
        self._process = self._cluster.broker(self._store, {**self._settings, **SYNC_FLUSH, **NO_TIMERS})


@pytest.fixture(params=["ours", pytest.param("apache", marks=pytest.mark.interop)])
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Broker]:
    if request.param == "ours":
        with Skyrocket(tmp_path, SYNC_FLUSH) as process:
            yield Ours(process)
    else:
        with ApacheCluster(tmp_path) as cluster:
            yield Apaches(cluster, tmp_path / "store")


def kill_during_commit(broker: Broker, topic: str, moment_s: float, seed: int) -> bool:
    """Kill a process that commits, this long after it has staged its rows. Return whether it was still running."""
    command = [sys.executable, "-m", "tests.support.spark.sink_committer", broker.nameserver, topic, topic, str(ROWS), str(seed)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=REPOSITORY) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"READY\n"
        time.sleep(moment_s)
        process.kill()
        return process.wait() != 0


def test_process_killed_during_a_commit_repeats_and_loses_nothing(broker: Broker, topic: str):
    chance = random.Random(SEED)
    killed = 0
    for number in range(CRASHES):
        name = f"{topic}-{number}"
        moments = [chance.uniform(0, COMMIT_S_MAX) for _ in range(chance.choice([1, 1, 2]))]
        for moment_s in moments:
            killed += kill_during_commit(broker, name, moment_s, number)

        async def replay(name: str) -> list[bytes]:
            # A broker may still have the requests of the killed process in its socket: on a busy machine for more than a moment.
            options = exactly_once(broker.nameserver, name, settleTime="3s")
            await commit(options, await stage(options, bodies(*map(str, range(ROWS))), query=name), query=name)
            return sorted(await visible_bodies(broker.nameserver, name))

        found = asyncio.run(replay(name))
        assert found == EVERY, f"killed after {moments}: {len(found)} rows, {len(set(found))} of them different"
    assert killed, "every commit ended before its kill"


def test_broker_killed_during_a_commit_repeats_and_loses_nothing(broker: Broker, topic: str):
    chance = random.Random(SEED)
    for number in range(CRASHES):
        name, moment_s = f"{topic}-{number}", chance.uniform(0, COMMIT_S_MAX)
        options = exactly_once(broker.nameserver, name, settleTime="300ms", sendTimeout="2s", retryTimeout="60s")
        staged = asyncio.run(stage(options, bodies(*map(str, range(ROWS))), query=name))
        with ThreadPoolExecutor(max_workers=1) as thread:  # a broker dies with the thread that started it, so it is not that one
            committed = thread.submit(asyncio.run, commit(options, staged, query=name))
            time.sleep(moment_s)
            broker.kill()
            broker.start()
            committed.result()
        found = sorted(asyncio.run(visible_bodies(broker.nameserver, name)))
        assert found == EVERY, f"killed after {moment_s} s: {len(found)} rows, {len(set(found))} of them different"


def test_broker_killed_while_rows_are_sent_loses_none(broker: Broker, topic: str):
    """With at-least-once, some rows may come twice."""
    chance = random.Random(SEED)
    for number in range(CRASHES):
        name, moment_s = f"{topic}-{number}", chance.uniform(0, COMMIT_S_MAX)
        options = options_for(broker.nameserver, name, batchMessages="20", sendTimeout="2s", retryTimeout="60s")
        rows = [bodies(*(f"{piece}-{row}" for row in range(500))) for piece in range(40)]
        asyncio.run(send(options, bodies("first")))
        with ThreadPoolExecutor(max_workers=1) as thread:
            sent = thread.submit(asyncio.run, send(options, *rows))
            time.sleep(moment_s)
            broker.kill()
            broker.start()
            assert sent.result() == 20_000
        # Apache's broker shows messages a while after it has acknowledged them, and longer after a crash.
        wait_until(
            lambda name=name: len(set(asyncio.run(visible_bodies(broker.nameserver, name)))) == 20_001,
            f"all rows, when the broker was killed after {moment_s} s",
        )
