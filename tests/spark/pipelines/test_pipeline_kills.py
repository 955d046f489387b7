"""Archive and replay while their driver (with JVM and tasks), a worker of Spark or the broker is killed: nothing is missing,
nothing comes twice.

`SKYROCKET_PIPELINE_KILLS` is the number of kills of each test: one by default, twenty with `make pipeline-crash`,
which also kills executors of a standalone cluster, and an archive as an Iceberg table.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from skyrocket.pipelines import archive_topics, replay_messages
from skyrocket.pipelines.replay.job import ReplaySource
from skyrocket.pipelines.replay.progress_file import read_sent
from tests.spark.conftest import Cluster
from tests.support.pipelines.archives import contents, create, fill, origin_ids, rows
from tests.support.pipelines.kills import (
    DONE,
    DRIVER,
    IS_LONG,
    KILLS,
    MOMENT_S_MAX,
    Victim,
    await_end,
    driver_victim,
    kill_and_start_broker,
    start_again,
)
from tests.support.processes.skyrocket_process import Skyrocket
from tests.support.spark.crash import READY, SEED, START_S_MAX, Sender, SparkDriver, check_once, topic_content
from tests.support.spark.streams import Row
from tests.support.waiting import wait_until

QUEUES = 4
# Formats differ in what the driver publishes. A lost task is the same for all of them.
CASES = [
    ("parquet", "driver"),
    ("delta", "driver"),
    ("parquet", "worker"),
    *([("iceberg", "driver"), ("delta", "worker"), ("iceberg", "worker"), ("parquet", "executor")] if IS_LONG else []),
]


@pytest.mark.parametrize(("table_format", "victim"), CASES, indirect=["victim"])
def test_a_killed_archive_loses_and_repeats_nothing(tmp_path: Path, broker: Skyrocket, table_format: str, victim: Victim):
    create(broker.nameserver, "killed", QUEUES)
    check_killed_archive(tmp_path, broker.nameserver, table_format, victim)


def check_killed_archive(tmp_path: Path, nameserver: str, table_format: str, victim: Victim) -> None:
    """Archive the topic `killed` while messages are sent, kill the job meanwhile, and compare what it has archived."""
    root, chance = tmp_path / "archive", random.Random(SEED)
    arguments = {
        "job": "archive",
        "master": victim.master,
        "nameserver": nameserver,
        "topic": "killed",
        "to": str(root),
        "format": table_format,
    }
    sender = Sender(nameserver, "killed", SEED, per_s=100)
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
    found = rows(root)
    output = Counter(Row(row["topic"], row["broker"], row["queueId"], row["queueOffset"], row["body"]) for row in found)
    check_once(output, sender, topic_content(nameserver, "killed"))


def test_a_killed_archive_of_a_topic_at_apaches_broker_loses_and_repeats_nothing(tmp_path: Path, apache: Cluster):
    create(apache.nameserver, "killed", QUEUES)
    check_killed_archive(tmp_path, apache.nameserver, "parquet", driver_victim())


def test_a_killed_broker_costs_an_archive_no_message(tmp_path: Path, spark: SparkSession, broker: Skyrocket):
    """The job waits for the broker, and goes on."""
    create(broker.nameserver, "killed", QUEUES)
    root, chance, stop = tmp_path / "archive", random.Random(SEED), threading.Event()
    sender = Sender(broker.nameserver, "killed", SEED)
    given = {"cluster": {"nameserver": broker.nameserver}, "batch_messages": 200, "every_s": 0.05}
    with ThreadPoolExecutor(1) as pool:
        job = pool.submit(archive_topics, spark, ["killed"], root, follow=True, stop=stop, **given)
        try:
            for _ in range(KILLS):
                kill_and_start_broker(broker, chance)
        finally:
            sender.stop()
            stop.set()
        job.result()
    archive_topics(spark, ["killed"], root, cluster=given["cluster"])
    found = rows(root)
    output = Counter(Row(row["topic"], row["broker"], row["queueId"], row["queueOffset"], row["body"]) for row in found)
    check_once(output, sender, topic_content(broker.nameserver, "killed"))


def test_a_killed_broker_costs_a_replay_no_message_and_repeats_none(tmp_path: Path, spark: SparkSession, broker: Skyrocket):
    count, chance, cluster = 400 * (KILLS + 2), random.Random(SEED), {"nameserver": broker.nameserver}
    for topic in ("original", "again"):
        create(broker.nameserver, topic, QUEUES)
    fill(broker.nameserver, "original", "broker-a", count, QUEUES)
    archive_topics(spark, ["original"], tmp_path / "archive", cluster=cluster)
    source, progress = ReplaySource("archive", str(tmp_path / "archive")), tmp_path / "progress"
    with ThreadPoolExecutor(1) as pool:
        job = pool.submit(replay_messages, spark, source, to="again", cluster=cluster, rate=200, progress=progress)
        for _ in range(KILLS):
            before = read_sent(progress) if progress.exists() else 0
            wait_until(
                lambda before=before: job.done() or (progress.exists() and read_sent(progress) > before), "progress", START_S_MAX
            )
            assert not job.done(), "the replay had ended before the broker was killed"
            kill_and_start_broker(broker, chance)
        assert job.result().sent == count
    archive_topics(spark, ["again"], tmp_path / "after", cluster=cluster)
    original, after = rows(tmp_path / "archive"), rows(tmp_path / "after")
    assert Counter(origin_ids(after)) == Counter(row["msgId"] for row in original)
    assert contents(after) == contents(original)


def test_a_killed_replay_loses_and_repeats_nothing_and_keeps_the_order(
    spark: SparkSession, tmp_path: Path, broker: Skyrocket, victim: Victim
):
    each = 400 if victim.name == "driver" else 1_000  # it takes several tries to meet a worker at work
    count, chance, cluster = each * (KILLS + 2), random.Random(SEED), {"nameserver": broker.nameserver}
    for topic in ("original", "again"):
        create(broker.nameserver, topic, QUEUES)
    fill(broker.nameserver, "original", "broker-a", count, QUEUES)
    archive_topics(spark, ["original"], tmp_path / "archive", cluster=cluster)
    progress = tmp_path / "progress"
    arguments = {
        "job": "replay",
        "master": victim.master,
        "nameserver": broker.nameserver,
        "archive": str(tmp_path / "archive"),
        "to": "again",
        "progress": str(progress),
        "rate": 200,
    }
    with SparkDriver(DRIVER, arguments, tmp_path / "driver.log") as driver:

        def has_sent_more_than(before: int) -> bool:
            start_again(driver)
            return progress.exists() and read_sent(progress) > before

        for _ in range(KILLS):
            before = read_sent(progress) if progress.exists() else 0
            wait_until(lambda before=before: has_sent_more_than(before), "progress", START_S_MAX)
            victim.kill(driver, chance, MOMENT_S_MAX)
            assert DONE not in driver.read_log(), "the replay had ended before it was killed"
        await_end(driver)
    archive_topics(spark, ["again"], tmp_path / "after", cluster=cluster)
    original, after = rows(tmp_path / "archive"), rows(tmp_path / "after")
    assert Counter(origin_ids(after)) == Counter(row["msgId"] for row in original)
    assert contents(after) == contents(original)
