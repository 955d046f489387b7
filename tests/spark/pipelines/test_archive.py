"""`archive_topics` in a real Spark, with our broker and with Apache's: each message once, in each format."""

from __future__ import annotations

import threading
from datetime import UTC
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyspark.sql import SparkSession

from skyrocket.pipelines import archive_topics, replay_messages
from skyrocket.pipelines.archive.archive_folder import TableFormat, archive_lock, keep_files
from skyrocket.pipelines.archive.batch_record import append_record
from skyrocket.pipelines.archive.job import open_table, plan_archive
from skyrocket.pipelines.archive.layout import hour_text
from skyrocket.pipelines.archive.reading import archive_files, read_archive
from skyrocket.pipelines.errors import ArchiveError, ArgumentError, MissingMessagesError
from skyrocket.pipelines.iceberg_catalog import close_catalog
from skyrocket.pipelines.progress import JobProgress
from skyrocket.pipelines.replay.job import ReplaySource
from skyrocket.spark.columns import COLUMNS
from tests.spark.conftest import Cluster
from tests.support.pipelines.archives import await_ends, create, create_again, fill, places, rows
from tests.support.processes.skyrocket_process import Skyrocket
from tests.support.waiting import wait_until


@pytest.fixture(scope="module", params=["ours", "apache"])
def cluster(request: pytest.FixtureRequest) -> Cluster:
    found: Cluster = request.getfixturevalue(request.param)
    return found


@pytest.fixture(params=["parquet", "delta", "iceberg"])
def table_format(request: pytest.FixtureRequest) -> TableFormat:
    return request.param


def named(cluster: Cluster) -> dict[str, str]:
    return {"nameserver": cluster.nameserver}


def source_rows(spark: SparkSession, cluster: Cluster, topic: str) -> list[dict[str, Any]]:
    """Return what the Spark source reads, with the types that pyarrow has."""
    options = {"subscribe": topic, "includeProperties": "true"}
    read = spark.read.format("rocketmq").options(**named(cluster), **options).load().collect()
    found = []
    for row in sorted(read, key=lambda row: (row.queueId, row.queueOffset)):
        values = row.asDict()
        values["body"] = bytes(values["body"])
        values["properties"] = sorted(values["properties"].items())
        for name in ("storeTimestamp", "bornTimestamp"):
            values[name] = values[name].astimezone(UTC).timestamp()
        found.append(values)
    return found


def comparable(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    made = []
    for row in found:
        values = {name: row[name] for name in COLUMNS}
        values["properties"] = sorted(dict(values["properties"]).items())
        for name in ("storeTimestamp", "bornTimestamp"):
            values[name] = values[name].timestamp()
        made.append(values)
    return made


def test_an_archive_has_every_column_of_every_message(
    spark: SparkSession, cluster: Cluster, topic: str, tmp_path: Path, table_format: TableFormat
):
    create(cluster.nameserver, topic)
    fill(cluster.nameserver, topic, cluster.broker_name, 700)
    done = archive_topics(spark, [topic], tmp_path / "a", cluster=named(cluster), table_format=table_format)
    assert (done.messages, done.batches, done.last_batch) == (700, 1, 1)
    assert done.waited_ms == 0, "what a new queue has does not count"
    assert done.reserved_ms in (72 * 3_600_000, 720 * 3_600_000), "our default, and what tests give Apache's broker"
    found = rows(tmp_path / "a")
    assert comparable(found) == source_rows(spark, cluster, topic)
    assert {row["hour"] for row in found} == {f"{row['storeTimestamp']:%Y-%m-%d-%H}" for row in found}


def test_a_second_run_adds_what_is_new_and_a_third_nothing(
    spark: SparkSession, cluster: Cluster, topic: str, tmp_path: Path, table_format: TableFormat
):
    create(cluster.nameserver, topic)
    counts = []
    for first in (0, 300, 600):
        if first < 600:
            fill(cluster.nameserver, topic, cluster.broker_name, 300, first=first)
        done = archive_topics(spark, [topic], tmp_path / "a", cluster=named(cluster), table_format=table_format)
        counts.append((done.messages, done.batches, done.last_batch))
        assert (done.waited_ms > 0) == (first == 300), "the second run finds messages that have waited"
    assert counts == [(300, 1, 1), (300, 1, 2), (0, 0, 2)]
    assert places(rows(tmp_path / "a")) == [(topic, queue, offset) for queue in (0, 1) for offset in range(300)]


def test_an_empty_topic_is_archived_without_a_batch(
    spark: SparkSession, cluster: Cluster, topic: str, tmp_path: Path, table_format: TableFormat
):
    create(cluster.nameserver, topic)
    done = archive_topics(spark, [topic], tmp_path / "a", cluster=named(cluster), table_format=table_format)
    assert (done.messages, done.batches) == (0, 0)
    assert rows(tmp_path / "a") == []
    assert read_archive(spark, tmp_path / "a").count() == 0


def test_a_topic_that_grows_meanwhile_is_archived_up_to_where_it_ended_and_then_on(
    spark: SparkSession, cluster: Cluster, topic: str, tmp_path: Path
):
    create(cluster.nameserver, topic)
    fill(cluster.nameserver, topic, cluster.broker_name, 400)
    grown: list[int] = []

    def grow(progress: JobProgress) -> None:
        if progress.what == "archiving":
            fill(cluster.nameserver, topic, cluster.broker_name, 100, first=400 + 100 * len(grown))
            grown.append(progress.done)

    done = archive_topics(spark, [topic], tmp_path / "a", cluster=named(cluster), batch_messages=150, on_progress=grow)
    assert (done.messages, len(grown)) == (400, done.batches)
    assert done.batches > 1
    again = archive_topics(spark, [topic], tmp_path / "a", cluster=named(cluster))
    assert again.messages == 100 * len(grown)
    ends = (400 + 100 * len(grown)) // 2
    assert places(rows(tmp_path / "a")) == [(topic, queue, offset) for queue in (0, 1) for offset in range(ends)]


def test_patterns_select_topics_and_each_has_its_folder(spark: SparkSession, cluster: Cluster, topic: str, tmp_path: Path):
    for name in ("-a", "-b"):
        create(cluster.nameserver, topic + name)
        fill(cluster.nameserver, topic + name, cluster.broker_name, 50)
    done = archive_topics(spark, [f"{topic}-*"], tmp_path / "a", cluster=named(cluster))
    assert {name: counts.messages for name, counts in done.topics.items()} == {f"{topic}-a": 50, f"{topic}-b": 50}
    assert sorted(path.name for path in (tmp_path / "a").glob("topic=*")) == [f"topic={topic}-a", f"topic={topic}-b"]


def test_plain_readers_see_the_published_rows_with_topic_and_hour(spark: SparkSession, ours: Cluster, topic: str, tmp_path: Path):
    create(ours.nameserver, topic)
    fill(ours.nameserver, topic, ours.broker_name, 120)
    root = tmp_path / "a"
    archive_topics(spark, [topic], root, cluster=named(ours))
    (root / "_skyrocket" / "staged" / "left.parquet").write_bytes(b"of a task that was killed")
    read = spark.read.parquet(str(root)).collect()
    assert (len(read), {row.topic for row in read}) == (120, {topic})
    table = ds.dataset(root, format="parquet", partitioning="hive").to_table()
    assert (table.num_rows, set(table["topic"].to_pylist())) == (120, {topic})
    assert sorted(table["body"].to_pylist()) == sorted(row["body"] for row in rows(root))


def test_delta_readers_see_the_published_rows(spark: SparkSession, ours: Cluster, topic: str, tmp_path: Path):
    deltalake = pytest.importorskip("deltalake")
    create(ours.nameserver, topic)
    fill(ours.nameserver, topic, ours.broker_name, 120)
    archive_topics(spark, [topic], tmp_path / "a", cluster=named(ours), table_format="delta")
    table = deltalake.DeltaTable(str(tmp_path / "a"))
    found = table.to_pyarrow_dataset().to_table()
    assert (found.num_rows, set(found["topic"].to_pylist())) == (120, {topic})
    assert sorted(found["body"].to_pylist()) == sorted(row["body"] for row in rows(tmp_path / "a"))
    assert read_archive(spark, tmp_path / "a").where(f"topic = '{topic}'").count() == 120


def test_iceberg_readers_see_the_published_rows(spark: SparkSession, ours: Cluster, topic: str, tmp_path: Path):
    create(ours.nameserver, topic)
    fill(ours.nameserver, topic, ours.broker_name, 120)
    root = tmp_path / "a"
    archive_topics(spark, [topic], root, cluster=named(ours), table_format="iceberg")
    catalog = SqlCatalog("skyrocket", uri=f"sqlite:///{root / 'catalog.db'}", warehouse=f"file://{root}")
    table = catalog.load_table("skyrocket.messages")
    found = table.scan(row_filter=f"topic = '{topic}' and queueId = 1").to_arrow()
    assert (found.num_rows, set(found["hour"].to_pylist())) == (60, {row["hour"] for row in rows(root)})
    assert sorted(table.scan().to_arrow()["body"].to_pylist()) == sorted(row["body"] for row in rows(root))
    assert [field.name for field in table.spec().fields] == ["topic", "hour"]
    assert read_archive(spark, root).where(f"topic = '{topic}'").count() == 120
    close_catalog(catalog)
    with pytest.raises(ArgumentError, match="is an Iceberg table, and files of those are not merged"):
        archive_topics(spark, [topic], root, cluster=named(ours), compact=True)


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_a_batch_that_another_job_has_committed_is_not_committed_twice(
    spark: SparkSession, ours: Cluster, topic: str, tmp_path: Path, kind: TableFormat
):
    """Where the lock does not hold: two jobs have the same batch ready."""
    create(ours.nameserver, topic)
    fill(ours.nameserver, topic, ours.broker_name, 20)
    root = tmp_path / "a"
    archive_topics(spark, [topic], root, cluster=named(ours), table_format=kind)
    first, second = open_table(root), open_table(root)
    last = first.last()
    assert last is not None
    record = append_record(first.folder.id, 2, last.progress, [])
    first.publish(record)
    with pytest.raises(ArchiveError, match=r"has batch 2 of this archive, not 1: another job writes to it\."):
        second.publish(record)
    assert len(rows(root)) == 20


def test_a_topic_with_a_reserved_name_is_archived(
    spark: SparkSession, ours: Cluster, topic: str, tmp_path: Path, table_format: TableFormat
):
    name = f"%RETRY%{topic}"
    create(ours.nameserver, name)
    fill_retry_topic(ours, name)
    archive_topics(spark, [name], tmp_path / "a", cluster=named(ours), table_format=table_format)
    assert {row["topic"] for row in rows(tmp_path / "a")} == {name}
    assert [row.topic for row in read_archive(spark, tmp_path / "a").collect()] == [name] * 5


def fill_retry_topic(cluster: Cluster, name: str) -> None:
    from skyrocket.client.sync import Message, Producer

    with Producer(cluster.nameserver) as producer:
        for number in range(5):
            producer.send(Message(name, b"%d" % number))


@pytest.mark.parametrize("table_format", ["parquet", "delta"])
def test_small_files_are_merged_and_no_row_changes(
    spark: SparkSession, ours: Cluster, topic: str, tmp_path: Path, table_format: TableFormat
):
    create(ours.nameserver, topic)
    root, cluster = tmp_path / "a", named(ours)
    for first in (0, 100, 200):
        fill(ours.nameserver, topic, ours.broker_name, 100, first=first)
        archive_topics(spark, [topic], root, cluster=cluster, table_format=table_format)
    before, files = rows(root), archive_files(root)
    done = archive_topics(spark, [topic], root, cluster=cluster, compact=True)
    assert done.merged == len(files) >= 6
    assert len(archive_files(root)) == len({row["hour"] for row in before})
    assert rows(root) == before
    fill(ours.nameserver, topic, ours.broker_name, 100, first=300)
    assert archive_topics(spark, [topic], root, cluster=cluster, compact=True).messages == 100
    assert places(rows(root)) == [(topic, queue, offset) for queue in (0, 1) for offset in range(200)]


def test_files_that_a_job_reads_are_not_merged_until_it_has_ended(spark: SparkSession, ours: Cluster, topic: str, tmp_path: Path):
    create(ours.nameserver, topic)
    root, cluster = tmp_path / "a", named(ours)
    for first in (0, 100):
        fill(ours.nameserver, topic, ours.broker_name, 100, first=first)
        archive_topics(spark, [topic], root, cluster=cluster)
    with keep_files(root):
        frame, files = read_archive(spark, root), archive_files(root)
        done = archive_topics(spark, [topic], root, cluster=cluster, compact=True)
        assert (done.merged, done.is_put_off, archive_files(root)) == (0, True, files)
        assert frame.count() == 200
    done = archive_topics(spark, [topic], root, cluster=cluster, compact=True)
    assert (done.merged, done.is_put_off, len(rows(root))) == (len(files), False, 200)


def test_a_replay_keeps_the_files_that_it_reads(spark: SparkSession, ours: Cluster, topic: str, tmp_path: Path):
    for name in (topic, f"{topic}-again"):
        create(ours.nameserver, name)
    root, cluster, put_off = tmp_path / "a", named(ours), []
    for first in (0, 100):
        fill(ours.nameserver, topic, ours.broker_name, 100, first=first)
        archive_topics(spark, [topic], root, cluster=cluster)

    def compact(progress: JobProgress) -> None:
        if progress.what == "reading the source":
            put_off.append(archive_topics(spark, [topic], root, cluster=cluster, compact=True).is_put_off)

    source = ReplaySource("archive", str(root))
    done = replay_messages(spark, source, to=f"{topic}-again", cluster=cluster, on_progress=compact)
    assert (done.sent, put_off) == (200, [True])


@pytest.mark.parametrize("table_format", ["parquet", "delta"])
def test_a_job_that_follows_merges_files_of_past_hours_and_leaves_the_current_one(
    spark: SparkSession, ours: Cluster, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table_format: TableFormat
):
    create(ours.nameserver, topic)
    root, stop = tmp_path / "a", threading.Event()
    now = [-1]  # hours from now: an hour that ends during the test changes nothing
    monkeypatch.setattr("skyrocket.pipelines.archive.job.hour_text", lambda hours: hour_text(hours + now[0]))
    seen: list[int] = []

    def look(progress: JobProgress) -> None:
        """After the third compaction the current hour is over: the next one merges its files, and ends the job."""
        if progress.what == "compacting":
            seen.append(len(archive_files(root)))
            if len(seen) == 3:
                now[0] = 2
            if len(seen) == 4:
                stop.set()
        elif progress.what == "archived" and len(seen) < 3:
            fill(ours.nameserver, topic, ours.broker_name, 20, first=20 * len(seen))

    given = {"cluster": named(ours), "table_format": table_format, "on_progress": look}
    done = archive_topics(spark, [topic], root, follow=True, every_s=0.05, compact_every_s=0.0, stop=stop, **given)
    assert seen[0] < seen[1] < seen[2] <= seen[3] == done.merged
    assert len(archive_files(root)) < seen[3]
    assert places(rows(root)) == [(topic, queue, offset) for queue in (0, 1) for offset in range(40)]


def test_a_job_that_follows_takes_new_messages_until_it_is_stopped(
    spark: SparkSession, ours: Cluster, topic: str, tmp_path: Path
):
    create(ours.nameserver, topic)
    root, stop, done = tmp_path / "a", threading.Event(), []

    def follow() -> None:
        done.append(archive_topics(spark, [topic], root, cluster=named(ours), follow=True, every_s=0.05, stop=stop))

    thread = threading.Thread(target=follow)
    thread.start()
    try:
        for first in (0, 50):
            fill(ours.nameserver, topic, ours.broker_name, 50, first=first)
            wait_until((root / "_skyrocket" / "archive.json").exists, "the archive")
            wait_until(lambda wanted=first + 50: len(rows(root)) == wanted, f"{first + 50} rows", every_s=0.2)
    finally:
        stop.set()
        thread.join()
    assert done[0].messages == 100
    assert places(rows(root)) == [(topic, queue, offset) for queue in (0, 1) for offset in range(50)]


def test_a_dry_run_says_what_it_would_do_and_writes_nothing(spark: SparkSession, ours: Cluster, topic: str, tmp_path: Path):
    create(ours.nameserver, topic)
    fill(ours.nameserver, topic, ours.broker_name, 30)
    summary, _ = plan_archive([topic], tmp_path / "a", cluster=named(ours))
    assert (summary.planned, summary.batches, list(tmp_path.iterdir())) == (30, 0, [])
    assert (summary.reserved_ms, summary.is_late) == (72 * 3_600_000, False)
    assert summary.waited_ms == 0, "what a new queue has does not count"
    archive_topics(spark, [topic], tmp_path / "a", cluster=named(ours))
    summary, _ = plan_archive([topic], tmp_path / "a", cluster=named(ours))
    assert (summary.planned, summary.last_batch) == (0, 1)
    fill(ours.nameserver, topic, ours.broker_name, 10, first=30)
    summary, _ = plan_archive([topic], tmp_path / "a", cluster=named(ours))
    assert (summary.planned, summary.waited_ms > 0) == (10, True)


def test_a_topic_that_was_created_again_and_has_grown_past_the_archive_is_refused(
    spark: SparkSession, cluster: Cluster, topic: str, tmp_path: Path
):
    """Its offsets mean other messages now, and the first of them would be passed over."""
    root = tmp_path / "a"
    create(cluster.nameserver, topic)
    fill(cluster.nameserver, topic, cluster.broker_name, 20)
    archive_topics(spark, [topic], root, cluster=named(cluster))
    before = rows(root)
    create_again(cluster.nameserver, topic)
    fill(cluster.nameserver, topic, cluster.broker_name, 40)
    await_ends(cluster.nameserver, topic, 40)
    refused = pytest.raises(MissingMessagesError, match="the topic was deleted and created again, or this is another cluster")
    with refused:
        archive_topics(spark, [topic], root, cluster=named(cluster), skip_missing=True)
    with refused:
        plan_archive([topic], root, cluster=named(cluster))
    assert rows(root) == before


def test_the_topic_of_another_cluster_whose_broker_has_the_same_name_is_refused(
    spark: SparkSession, ours: Cluster, broker: Skyrocket, topic: str, tmp_path: Path
):
    root = tmp_path / "a"
    for nameserver, count in ((ours.nameserver, 20), (broker.nameserver, 40)):
        create(nameserver, topic)
        fill(nameserver, topic, ours.broker_name, count)
    archive_topics(spark, [topic], root, cluster=named(ours))
    with pytest.raises(MissingMessagesError, match="or this is another cluster"):
        archive_topics(spark, [topic], root, cluster={"nameserver": broker.nameserver})
    assert len(rows(root)) == 20


def test_a_topic_that_does_not_exist_is_one_sentence(spark: SparkSession, ours: Cluster, tmp_path: Path):
    with pytest.raises(
        ArgumentError, match=r"^Topic 'absent' does not exist at .*\. Create it with: skyrocket topic create absent$"
    ):
        archive_topics(spark, ["absent"], tmp_path / "a", cluster=named(ours))


def test_two_jobs_do_not_write_to_one_archive(
    spark: SparkSession, ours: Cluster, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("skyrocket.pipelines.archive.job.LOCK_WAIT_S", 0.0)
    create(ours.nameserver, topic)
    archive_topics(spark, [topic], tmp_path / "a", cluster=named(ours))
    with archive_lock(tmp_path / "a"), pytest.raises(ArchiveError, match="Another job is writing to the archive"):
        archive_topics(spark, [topic], tmp_path / "a", cluster=named(ours))
