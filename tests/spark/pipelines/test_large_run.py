"""Archive, replay, drain, verify and audit many messages, make a table of them, and look at them as backlog and dead letters.

`SKYROCKET_PIPELINE_MESSAGES` is their number: a million with `make pipeline-large`.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from skyrocket import client
from skyrocket.client.queues import Queue
from skyrocket.client.sync import Admin, Message, Producer
from skyrocket.pipelines import (
    ChangeSpec,
    TableOptions,
    archive_topics,
    drain_group,
    export_selection,
    maintain_table,
    prove_drain,
    replay_messages,
    resend_letters,
    triage_letters,
    verify_archive,
    verify_stores,
    watch_backlog,
)
from skyrocket.pipelines.archive.reading import archive_files
from skyrocket.pipelines.audit.job import TopicAudit
from skyrocket.pipelines.backlog.presentation import BacklogReport
from skyrocket.pipelines.deadletters.selection import LetterSelection
from skyrocket.pipelines.replay.job import ReplaySource
from tests.support.pipelines.archives import create
from tests.support.pipelines.table_targets import delta_place
from tests.support.processes.skyrocket_process import Skyrocket

MESSAGES = int(os.environ.get("SKYROCKET_PIPELINE_MESSAGES", "20000"))
QUEUES, BATCH = 4, 1_000
BODY = b"x" * 200


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Skyrocket]:
    with Skyrocket(tmp_path / "broker", {"mappedFileSizeCommitLog": 268_435_456}) as made:
        yield made


def fill(broker: Skyrocket, topic: str) -> None:
    with Producer(broker.nameserver) as producer:
        for first in range(0, MESSAGES, BATCH):
            queue = Queue(topic, "broker-a", first // BATCH % QUEUES)
            producer.send_batch([Message(topic, b"%d " % number + BODY) for number in range(first, first + BATCH)], queue=queue)


def numbers(root: Path) -> list[list[int]]:
    """Return the number of each message, queue by queue, in the order of offsets."""
    found: list[list[tuple[int, int]]] = [[] for _ in range(QUEUES)]
    for path in archive_files(root):
        table = pq.ParquetFile(path).read(["queueId", "queueOffset", "body"])
        text = pc.list_element(pc.split_pattern(table["body"].cast("string"), " "), 0).cast("int64")
        for queue, offset, number in zip(
            *(column.to_pylist() for column in (table["queueId"], table["queueOffset"], text)), strict=True
        ):
            found[queue].append((offset, number))
    return [[number for _, number in sorted(pairs)] for pairs in found]


def test_a_large_topic_is_the_same_after_archive_replay_and_archive(spark: SparkSession, broker: Skyrocket, tmp_path: Path):
    cluster = {"nameserver": broker.nameserver}
    for topic in ("large", "again"):
        create(broker.nameserver, topic, QUEUES)
    fill(broker, "large")
    began = time.monotonic()
    assert archive_topics(spark, ["large"], tmp_path / "a", cluster=cluster, batch_messages=400_000).messages == MESSAGES
    archived = time.monotonic()
    assert replay_messages(spark, ReplaySource("archive", str(tmp_path / "a")), to="again", cluster=cluster).sent == MESSAGES
    replayed = time.monotonic()
    assert archive_topics(spark, ["again"], tmp_path / "b", cluster=cluster).messages == MESSAGES
    print(f"{MESSAGES:,} messages: archived in {archived - began:.1f} s, replayed in {replayed - archived:.1f} s")  # noqa: T201 make pipeline-large shows it
    verified = verify_archive(spark, tmp_path / "a", cluster=cluster)
    assert (verified.problems, verified.counts["compared with the topic"]) == ([], MESSAGES)
    before = numbers(tmp_path / "a")
    assert sorted(number for queue in before for number in queue) == list(range(MESSAGES))
    assert numbers(tmp_path / "b") == before


def test_a_large_backlog_is_drained_and_its_store_is_sound(spark: SparkSession, broker: Skyrocket, tmp_path: Path):
    cluster = {"nameserver": broker.nameserver}
    create(broker.nameserver, "large", QUEUES)
    fill(broker, "large")
    with Admin(broker.nameserver) as admin:
        admin.groups.create("late")
        admin.offsets.set("late", {Queue("large", "broker-a", 0): 0})
    began = time.monotonic()
    record = drain_group(spark, "late", ["large"], tmp_path / "d", cluster=cluster, subscribed="true")
    drained = time.monotonic()
    assert (record.state, record.total("archived")) == ("moved", MESSAGES)
    assert prove_drain(spark, tmp_path / "d", cluster=cluster).is_sound
    proven = time.monotonic()
    (store,) = verify_stores(spark, [broker.data / "store"])
    ended = time.monotonic()
    assert (store.problems, store.counts["messages"] >= MESSAGES) == ([], True)
    print(  # noqa: T201 make pipeline-large shows it
        f"{MESSAGES:,} messages: drained in {drained - began:.1f} s, proven in {proven - drained:.1f} s, "
        f"store verified in {ended - proven:.1f} s"
    )


def test_many_waiting_messages_and_dead_letters_are_counted_exported_and_resent(broker: Skyrocket, tmp_path: Path):
    cluster, letters, chosen = {"nameserver": broker.nameserver}, "%DLQ%late", 1_000
    create(broker.nameserver, "large", QUEUES)
    create(broker.nameserver, letters, QUEUES)
    with Producer(broker.nameserver) as producer:
        for first in range(0, MESSAGES, BATCH):
            queue = Queue("large", "broker-a", first // BATCH % QUEUES)
            batch = [Message("large", b"%d " % number + BODY) for number in range(first, first + BATCH)]
            producer.send_batch(batch, queue=queue)
            dead = [Message(letters, one.body, tag="paid" if first < chosen else "") for one in batch]
            for one in dead:
                one.properties = {"DLQ_ORIGIN_TOPIC": "large", "exception": "no stock"}  # as a broker does
            producer.send_batch(dead, queue=queue._replace(topic=letters))
    with Admin(broker.nameserver) as admin:
        admin.groups.create("late")
        admin.offsets.set("late", {Queue("large", "broker-a", number): 0 for number in range(QUEUES)})

    async def look() -> BacklogReport:
        async with client.Admin(broker.nameserver) as admin:
            (report,) = [one async for one in watch_backlog(admin, ["late"], ["large"], every_s=0.1)]
        return report

    began = time.monotonic()
    assert asyncio.run(look()).lag == MESSAGES
    looked = time.monotonic()
    triage = triage_letters(cluster, ["late"]).triage
    assert (triage.count, triage.by_topic[letters, "large"]) == (MESSAGES, MESSAGES)
    triaged = time.monotonic()
    assert export_selection(cluster, tmp_path / "letters.parquet", ["late"]) == MESSAGES
    assert pq.ParquetFile(tmp_path / "letters.parquet").metadata.num_rows == MESSAGES
    exported = time.monotonic()
    paid, record = LetterSelection(tags=frozenset({"paid"})), tmp_path / "record.jsonl"
    assert [resend_letters(cluster, ["late"], paid, record).sent for _ in range(2)] == [chosen, 0]
    ended = time.monotonic()
    print(  # noqa: T201 make pipeline-large shows it
        f"{MESSAGES:,} messages: looked in {looked - began:.1f} s, triaged in {triaged - looked:.1f} s, "
        f"exported in {exported - triaged:.1f} s, {chosen:,} resent in {ended - exported:.1f} s"
    )


def test_many_changes_become_a_table_and_their_audit_is_clean(spark: SparkSession, broker: Skyrocket, tmp_path: Path):
    """Each key has its changes in one queue, in order, so the newest version is the last one."""
    cluster, keys = {"nameserver": broker.nameserver}, 5_000
    create(broker.nameserver, "changes", QUEUES)
    with Producer(broker.nameserver) as producer:
        for first in range(0, MESSAGES, BATCH):
            queue = Queue("changes", "broker-a", first // BATCH % QUEUES)
            sequence = first // BATCH // QUEUES * BATCH + 1
            batch = [
                Message(
                    "changes",
                    b'{"id": "%d-%d", "v": %d, "text": "%s"}' % (queue.queue_id, number % keys, number, BODY),
                    properties={"SR_PID": "p1", "SR_SEQ": str(sequence + number - first)},
                )
                for number in range(first, first + BATCH)
            ]
            producer.send_batch(batch, queue=queue)
    began = time.monotonic()
    place = delta_place(tmp_path / "table")
    done = maintain_table(spark, TableOptions("changes", ChangeSpec(["id"], "v")), place.to, cluster=cluster)
    applied = time.monotonic()
    assert (done.messages, done.counts.applied, done.rejected) == (MESSAGES, MESSAGES, 0)
    newest: dict[str, int] = {}
    for number in range(MESSAGES):
        newest[f"{number // BATCH % QUEUES}-{number % keys}"] = number
    assert {row["_key"]: row["_version"] for row in place.read("")} == newest
    with Admin(broker.nameserver) as admin:
        report = TopicAudit(spark, admin, cluster, ["changes"]).once()
    audited = time.monotonic()
    assert (report.messages, report.is_clean) == (MESSAGES, True)
    print(f"{MESSAGES:,} messages: applied in {applied - began:.1f} s, audited in {audited - applied:.1f} s")  # noqa: T201 make pipeline-large shows it
