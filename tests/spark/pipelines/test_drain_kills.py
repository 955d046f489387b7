"""A drain while its driver (with JVM and tasks), a worker of Spark or the broker is killed: nothing is lost or resent twice."""

from __future__ import annotations

import random
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from skyrocket.client.errors import ClientError
from skyrocket.client.queues import Queue
from skyrocket.client.sync import Admin
from skyrocket.pipelines import archive_topics, drain_group, prove_drain
from skyrocket.pipelines.drain.drain_record import RECORD, DrainRecord
from tests.support.pipelines.archives import create, fill, rows
from tests.support.pipelines.kills import DONE, DRIVER, IS_LONG, KILLS, Victim, await_end, kill_and_start_broker
from tests.support.processes.skyrocket_process import Skyrocket
from tests.support.spark.crash import SEED, START_S_MAX, SparkDriver, topic_content
from tests.support.waiting import wait_until

QUEUES, GROUP, TOPIC = 4, "drained", "original"
STEPS = ("archiving", "counting", "reading the source", "replaying", "moving the group")  # of a drain, as it tells its progress
STEPS_OF_TASKS = ("archiving", "replaying")
WORKERS = ["worker", *(["executor"] if IS_LONG else [])]


def test_a_killed_drain_loses_nothing_and_resends_nothing_twice(spark: SparkSession, tmp_path: Path, broker: Skyrocket):
    """Kills come in every second step, or the moment after it; the next drain, into a new folder, is killed in the others."""
    chance, cluster = random.Random(SEED), {"nameserver": broker.nameserver}
    make_group(broker)
    folders: list[Path] = []
    sent = killed = 0
    wanted = max(KILLS, 3)  # one in each of some steps
    while killed < wanted:
        root = tmp_path / f"drain-{len(folders)}"
        fill(broker.nameserver, TOPIC, "broker-a", 300, QUEUES, first=sent)
        sent += 300
        arguments = {"job": "drain", "nameserver": broker.nameserver, "topic": TOPIC, "to": str(root), "tag": "paid"}
        with SparkDriver(DRIVER, {**arguments, "group": GROUP}, tmp_path / f"drain-{len(folders)}.log") as driver:
            for step in STEPS[len(folders) % 2 :: 2]:
                if killed == wanted or not await_step(driver, step):
                    break
                time.sleep(chance.uniform(0, 1.0))
                driver.kill()
                killed += 1
                driver.start()
            driver.await_word(DONE)
        folders.append(root)
        assert prove_drain(spark, root, cluster=cluster).is_sound
    check_nothing_lost(spark, broker, folders, tmp_path / "retried")
    with Admin(broker.nameserver) as admin:
        assert [row.offset for row in admin.offsets.get(GROUP, TOPIC)] == [sent // QUEUES] * QUEUES


@pytest.mark.parametrize("victim", WORKERS, indirect=True)
def test_a_drain_with_killed_workers_loses_nothing_and_resends_nothing_twice(
    spark: SparkSession, tmp_path: Path, broker: Skyrocket, victim: Victim
):
    """Tasks write files and resend messages: kills come while they do. Each drain goes into a new folder."""
    chance, cluster = random.Random(SEED), {"nameserver": broker.nameserver}
    make_group(broker)
    folders: list[Path] = []
    killed, wanted = 0, max(2, KILLS)
    while killed < wanted:
        assert len(folders) < 3 * wanted, "drains end before a task of theirs is killed"
        root = tmp_path / f"drain-{len(folders)}"
        fill(broker.nameserver, TOPIC, "broker-a", 1_500, QUEUES, first=1_500 * len(folders))
        given = {"job": "drain", "master": victim.master, "nameserver": broker.nameserver, "group": GROUP, "topic": TOPIC}
        with SparkDriver(DRIVER, {**given, "to": str(root), "tag": "paid"}, tmp_path / f"drain-{len(folders)}.log") as driver:
            for step in STEPS_OF_TASKS:
                if killed < wanted and await_step(driver, step):
                    killed += victim.kill(driver, chance, 0.5)
            await_end(driver)
        folders.append(root)
        assert prove_drain(spark, root, cluster=cluster).is_sound
    check_nothing_lost(spark, broker, folders, tmp_path / "retried")


def await_step(driver: SparkDriver, step: str) -> bool:
    """Wait until the drain is at this step. Return False if it has ended before."""
    wait_until(lambda: driver.is_over or bool(driver.words() & {step, DONE}), f"the step {step}", START_S_MAX)
    assert not driver.is_over or DONE in driver.words(), driver.read_log()
    return step in driver.words()


def test_a_killed_broker_costs_a_drain_no_message(spark: SparkSession, tmp_path: Path, broker: Skyrocket):
    """The job waits for the broker, or ends with an error and is run again."""
    chance, cluster, root = random.Random(SEED), {"nameserver": broker.nameserver}, tmp_path / "drain"
    make_group(broker)
    fill(broker.nameserver, TOPIC, "broker-a", 300 * (KILLS + 2), QUEUES)

    def drain() -> DrainRecord:
        given = {"tags": ["paid"], "subscribed": "true", "batch_messages": 100}
        while True:
            try:
                return drain_group(spark, GROUP, [TOPIC], root, cluster=cluster, **given)
            except ClientError:
                time.sleep(0.2)

    with ThreadPoolExecutor(1) as pool:
        job = pool.submit(drain)
        wait_until(lambda: job.done() or (root / RECORD).exists(), "the plan", START_S_MAX)
        while_at_work = 0
        for _ in range(KILLS):
            while_at_work += not job.done()
            kill_and_start_broker(broker, chance)
        assert while_at_work > 0
        assert job.result().state == "moved"
    # A broker that was killed right after the move may have lost the new offsets: then the group stands before what is archived.
    assert all(check.is_sound for check in prove_drain(spark, root, cluster=cluster).checks if "passed" not in check.what)
    check_nothing_lost(spark, broker, [root], tmp_path / "retried")


def make_group(broker: Skyrocket) -> None:
    create(broker.nameserver, TOPIC, QUEUES)
    with Admin(broker.nameserver) as admin:
        admin.groups.create(GROUP)
        admin.offsets.set(GROUP, {Queue(TOPIC, "broker-a", 0): 0})


def check_nothing_lost(spark: SparkSession, broker: Skyrocket, folders: list[Path], folder: Path) -> None:
    """Each message of the topic is in one archive, once; others than the selected are in the retry topic, once."""
    drained = [row for root in folders for row in rows(root)]
    assert Counter(row["body"] for row in drained) == Counter({row.body: 1 for row in topic_content(broker.nameserver, TOPIC)})
    retried = archive_topics(spark, [f"%RETRY%{GROUP}"], folder, cluster={"nameserver": broker.nameserver})
    others = Counter(row["body"] for row in drained if row["tags"] != "paid")
    assert (retried.messages, Counter(row["body"] for row in rows(folder))) == (others.total(), others)
