"""The job `table` while its driver is killed with its JVM and tasks: the table is that of the reference.

`SKYROCKET_PIPELINE_KILLS` is the number of kills: one by default, of a job that writes to PostgreSQL; twenty for each target with
`make pipeline-crash`. `tests/unit/pipelines/table` tests without Spark what every target does if it is killed between two steps.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from skyrocket.client.sync import Admin, Message, Producer
from skyrocket.pipelines.table.fold import EXPECTED_VERSION, LAST_WRITER
from tests.support.change_histories import Change, digest, reference_fold, reference_waiting
from tests.support.postgres_server import postgres_server
from tests.support.skyrocket_process import Skyrocket
from tests.support.spark_crash import READY, SEED, SparkDriver
from tests.support.table_targets import Place, delta_place, iceberg_place, postgresql_place

KILLS = int(os.environ.get("SKYROCKET_PIPELINE_KILLS", "0"))
CASES = [("postgresql", EXPECTED_VERSION), *([("delta", LAST_WRITER), ("iceberg", EXPECTED_VERSION)] if KILLS else [])]
MOMENT_S_MAX = 2.0


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Skyrocket]:
    with Skyrocket(tmp_path / "broker", {"flushDiskType": "SYNC_FLUSH"}) as made:
        yield made


class ChangeSender:
    """Sends random changes of few keys, some of them again, with gaps and late ones, until it is stopped."""

    def __init__(self, nameserver: str, topic: str, seed: int) -> None:
        self.sent: list[Change] = []
        self._nameserver, self._topic = nameserver, topic
        self._chance = random.Random(f"changes {seed}")
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._send, name="change-sender", daemon=True)
        self._thread.start()

    def _send(self) -> None:
        newest: dict[str, int] = {}
        with Producer(self._nameserver, group="changes") as producer:
            while not self._stopped.wait(0.005):
                if self.sent and self._chance.random() < 0.2:
                    change = self._chance.choice(self.sent)
                else:
                    key = f"k{self._chance.randrange(40)}"
                    version = newest[key] = newest.get(key, 0) + self._chance.choice([1, 1, 1, 1, 1, 1, 1, 1, 1, 2])
                    name = None if self._chance.random() < 0.1 else f"n{self._chance.randrange(1000)}"
                    change = Change(key, version, name)
                producer.send(Message(self._topic, change.encode()))
                self.sent.append(change)

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()


@pytest.mark.parametrize(("kind", "mode"), CASES)
def test_a_killed_table_job_gives_the_table_of_the_reference(tmp_path: Path, broker: Skyrocket, kind: str, mode: str):
    with Admin(broker.nameserver) as admin:
        admin.topics.create("killed", queues=4)
    chance = random.Random(SEED)
    with postgres_server() as address:
        places: dict[str, Place] = {
            "postgresql": postgresql_place(address, "killed"),
            "delta": delta_place(tmp_path / "table"),
            "iceberg": iceberg_place(tmp_path / "catalog", "killed"),
        }
        place = places[kind]
        arguments = {
            "job": "table",
            "nameserver": broker.nameserver,
            "topic": "killed",
            "to": place.to,
            "table": place.table,
            "mode": mode,
        }
        sender = ChangeSender(broker.nameserver, "killed", SEED)
        try:
            with SparkDriver("tests.support.pipeline_driver", arguments, tmp_path / "driver.log") as driver:
                for _ in range(KILLS or 1):
                    driver.await_word(READY)
                    time.sleep(chance.uniform(0, MOMENT_S_MAX))
                    driver.kill()
                    driver.start()
                driver.await_word(READY)
                sender.stop()
                driver.finish()
        finally:
            sender.stop()
        assert place.state() == reference_fold(sender.sent, mode, digest)
        assert place.waiting() == (reference_waiting(sender.sent) if mode == EXPECTED_VERSION else set())
