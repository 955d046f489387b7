"""The job `table` while its driver (with JVM and tasks), a worker of Spark or the broker is killed: the table is that of the
reference.

`SKYROCKET_PIPELINE_KILLS` is the number of kills: one by default, of a job that writes to PostgreSQL; twenty for each target with
`make pipeline-crash`. `tests/unit/pipelines/table` tests without Spark what every target does if it is killed between two steps.
"""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from skyrocket.client.errors import ClientError
from skyrocket.client.sync import Admin, Message, Producer
from skyrocket.pipelines import maintain_table
from skyrocket.pipelines.table.fold import EXPECTED_VERSION, LAST_WRITER
from tests.support.pipelines.change_histories import Change, digest, options, reference_fold, reference_waiting
from tests.support.pipelines.kills import DRIVER, IS_LONG, KILLS, MOMENT_S_MAX, Victim, kill_and_start_broker, start_again
from tests.support.pipelines.table_targets import Place, delta_place, iceberg_place, postgresql_place
from tests.support.processes.postgres_server import postgres_server
from tests.support.processes.skyrocket_process import Skyrocket
from tests.support.spark.crash import READY, SEED, SparkDriver, topic_content

TARGETS = [("postgresql", EXPECTED_VERSION), *([("delta", LAST_WRITER), ("iceberg", EXPECTED_VERSION)] if IS_LONG else [])]
TOPIC = "killed"


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
            while not self._stopped.wait(0.02):
                if self.sent and self._chance.random() < 0.2:
                    change = self._chance.choice(self.sent)
                else:
                    key = f"k{self._chance.randrange(40)}"
                    version = newest[key] = newest.get(key, 0) + self._chance.choice([1, 1, 1, 1, 1, 1, 1, 1, 1, 2])
                    name = None if self._chance.random() < 0.1 else f"n{self._chance.randrange(1000)}"
                    change = Change(key, version, name)
                try:
                    producer.send(Message(self._topic, change.encode()))
                except ClientError:
                    continue  # the broker was killed: the topic may have the change, or not
                self.sent.append(change)

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()


@contextmanager
def open_place(kind: str, folder: Path) -> Iterator[Place]:
    if kind == "postgresql":
        with postgres_server() as address:
            yield postgresql_place(address, TOPIC)
    else:
        yield delta_place(folder / "table") if kind == "delta" else iceberg_place(folder / "catalog", TOPIC)


def stored_changes(nameserver: str) -> list[Change]:
    """Return every change that the topic has."""
    found = [json.loads(row.body) for row in topic_content(nameserver, TOPIC).elements()]
    return [Change(one["id"], one["v"], None if one.get("op") == "delete" else one["name"]) for one in found]


def check_table(place: Place, mode: str, nameserver: str, acknowledged: list[Change]) -> None:
    stored = stored_changes(nameserver)
    assert set(acknowledged) <= set(stored)
    assert place.state() == reference_fold(stored, mode, digest)
    assert place.waiting() == (reference_waiting(stored) if mode == EXPECTED_VERSION else set())


@pytest.mark.parametrize(("kind", "mode"), TARGETS)
def test_a_killed_table_job_gives_the_table_of_the_reference(
    tmp_path: Path, broker: Skyrocket, kind: str, mode: str, victim: Victim
):
    with Admin(broker.nameserver) as admin:
        admin.topics.create(TOPIC, queues=4)
    chance = random.Random(SEED)
    with open_place(kind, tmp_path) as place:
        arguments = {
            "job": "table",
            "master": victim.master,
            "nameserver": broker.nameserver,
            "topic": TOPIC,
            "to": place.to,
            "table": place.table,
            "mode": mode,
        }
        sender = ChangeSender(broker.nameserver, TOPIC, SEED)
        try:
            with SparkDriver(DRIVER, arguments, tmp_path / "driver.log") as driver:
                for _ in range(KILLS):
                    victim.kill(driver, chance, MOMENT_S_MAX)
                start_again(driver)
                driver.await_word(READY)
                sender.stop()
                driver.finish()
        finally:
            sender.stop()
        check_table(place, mode, broker.nameserver, sender.sent)


@pytest.mark.parametrize(("kind", "mode"), TARGETS)
def test_a_killed_broker_costs_a_table_no_change(tmp_path: Path, spark: SparkSession, broker: Skyrocket, kind: str, mode: str):
    """The job waits for the broker, and goes on."""
    with Admin(broker.nameserver) as admin:
        admin.topics.create(TOPIC, queues=4)
    chance, stop = random.Random(SEED), threading.Event()
    wanted, cluster = options(mode, topic=TOPIC, batch_messages=50), {"nameserver": broker.nameserver}
    with open_place(kind, tmp_path) as place, ThreadPoolExecutor(1) as pool:
        given = {"cluster": cluster, "table": place.table}
        sender = ChangeSender(broker.nameserver, TOPIC, SEED)
        job = pool.submit(maintain_table, spark, wanted, place.to, follow=True, every_s=0.05, stop=stop, **given)
        try:
            for _ in range(KILLS):
                kill_and_start_broker(broker, chance)
        finally:
            sender.stop()
            stop.set()
        job.result()
        maintain_table(spark, wanted, place.to, **given)
        check_table(place, mode, broker.nameserver, sender.sent)
