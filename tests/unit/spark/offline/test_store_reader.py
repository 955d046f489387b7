"""The offline reader returns the same messages as a plain scan, however a store is divided and read."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from skyrocket.protocol.message.compression import compress
from skyrocket.protocol.sysflag import COMPRESSED, COMPRESSION_ZSTD, TRANSACTION_MASK
from skyrocket.spark.errors import ColumnError, OptionError
from skyrocket.spark.offline.partitions import LogPartition, StoreQueuePartition
from skyrocket.spark.offline.store_reader import StoreReader
from skyrocket.spark.options.store_options import store_options
from skyrocket.store.config import StoreConfig
from skyrocket.store.ledger.ledger_store import LedgerStore
from skyrocket.store.message import append_request_of
from skyrocket.store.offline.offline_store import OfflineStore
from tests.support.stores.ledgers import golden_ledger
from tests.support.stores.sample_stores import NOW_MS, flip, golden_store, sample_record, sample_store, write_store

COUNT = 400
MIB = 1024 * 1024
BIG = StoreConfig(segment_bytes=4 * MIB, queue_entries_per_file=300, index_slots=100, index_entries=4000)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sample_store(tmp_path_factory.mktemp("small") / "store", COUNT)


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with segments larger than a partition. topic-0 is rare, and ends early."""
    directory = tmp_path_factory.mktemp("big") / "store"
    topics = ["topic-0" if number % 100 == 0 and number < 5000 else "topic-1" for number in range(6000)]
    write_store(
        directory, [replace(sample_record(number), topic=topics[number], body=bytes(1500)) for number in range(6000)], BIG
    )
    return directory


def read(directory: Path | str, **options: str) -> list[dict[str, Any]]:
    """Plan and read as Spark does, partition by partition."""
    return rows_of(reader(directory, **options))


def reader(directory: Path | str, **options: str) -> StoreReader:
    given = {"path": str(directory), **options}
    return StoreReader(given, store_options(given).schema)


def rows_of(made: StoreReader) -> list[dict[str, Any]]:
    return list(itertools.chain.from_iterable(batch.to_pylist() for part in made.partitions() for batch in made.read(part)))


def offsets(rows: Iterable[dict[str, Any]]) -> list[int]:
    return [row["physicalOffset"] for row in rows]


def expected(directory: Path, *topics: str, begin_ms: int = 0, end_ms: int = 2**63) -> list[int]:
    with OfflineStore(directory) as store:
        return [
            found.offset
            for found in store.records()
            if (not topics or found.record.topic in topics)
            and begin_ms <= found.record.store_timestamp < end_ms
            and found.record.sys_flag & TRANSACTION_MASK in (0, 8)
        ]


def test_every_message_comes_once_and_in_order(small: Path):
    assert offsets(read(small)) == expected(small)


def test_segment_is_divided_at_records(big: Path):
    made = reader(big, maxPartitionBytes=str(MIB), columns="physicalOffset,queueOffset")
    parts = made.partitions()
    assert len(parts) > 9, "about nine megabytes, in partitions of one"
    assert all(isinstance(part, LogPartition) for part in parts)
    assert offsets(rows_of(made)) == expected(big)


def test_rare_topic_is_read_through_its_queues(big: Path):
    made = reader(big, topic="topic-0")
    assert all(isinstance(part, StoreQueuePartition) for part in made.partitions())
    found = rows_of(made)
    assert sorted(offsets(found)) == expected(big, "topic-0")
    assert {row["topic"] for row in found} == {"topic-0"}


def test_frequent_topic_is_read_from_the_log(big: Path):
    made = reader(big, topic="topic-1")
    assert all(isinstance(part, LogPartition) for part in made.partitions())
    assert offsets(rows_of(made)) == expected(big, "topic-1")


def test_log_is_read_after_the_checkpoint_of_a_crashed_store(tmp_path: Path):
    directory = tmp_path / "store"
    store = write_store(directory, [replace(sample_record(n), topic=f"topic-{n % 50}") for n in range(2000)], BIG, close=False)
    copied = shutil.copytree(directory, tmp_path / "crashed")
    store.close()
    assert not (copied / "consumequeue" / "topic-7").exists(), "the queue has not reached the disk"
    (copied / "consumequeue" / "topic-7" / "0").mkdir(parents=True)
    assert sorted(offsets(read(copied, topics="topic-7"))) == expected(copied, "topic-7")


@pytest.mark.parametrize("topics", ["topic-0", "topic-1", "topic-0,topic-1", "", "topic-9"])
def test_time_limits_apply_to_log_and_queues(big: Path, topics: str):
    begin_ms, end_ms = NOW_MS + 300 * 700, NOW_MS + 1100 * 700
    selection = {"topics": topics} if topics else {}
    times = {"startingTimestamp": str(begin_ms), "endingTimestamp": str(end_ms), "maxPartitionBytes": str(MIB)}
    found = read(big, **selection, **times)
    assert sorted(offsets(found)) == expected(big, *(topics.split(",") if topics else ()), begin_ms=begin_ms, end_ms=end_ms)


def test_segments_outside_the_time_are_not_planned(big: Path):
    late = reader(big, startingTimestamp=str(NOW_MS + 1499 * 700), maxPartitionBytes=str(MIB)).partitions()
    early = reader(big, endingTimestamp=str(NOW_MS + 1), maxPartitionBytes=str(MIB)).partitions()
    assert (len(late), len(early)) == (1, 1)


def test_columns_are_those_of_the_source(small: Path):
    row = read(small, includeProperties="true", broker="b7")[0]
    assert row["broker"] == "b7"
    assert row["storeTimestamp"].timestamp() * 1000 == NOW_MS
    assert dict(row["properties"])["naïve"] == "größe 中 😀"
    assert row["keys"] == ["key-0", "shared-0"]
    assert row["msgId"] == f"7F000001{0:024X}"


def test_bodies_are_decompressed(tmp_path: Path):
    body = b"again and again " * 100
    packed = replace(sample_record(0), body=compress(body, COMPRESSION_ZSTD), sys_flag=COMPRESSED | COMPRESSION_ZSTD)
    write_store(tmp_path / "store", [packed])
    assert [row["body"] for row in read(tmp_path / "store", columns="body")] == [body]


def test_system_topics_are_left_out_unless_requested(tmp_path: Path):
    topics = ["orders", "SCHEDULE_TOPIC_XXXX", "rmq_sys_wheel_timer", "RMQ_SYS_TRANS_HALF_TOPIC", "%RETRY%g"]
    write_store(tmp_path / "store", [replace(sample_record(n), topic=topic) for n, topic in enumerate(topics)])
    assert {row["topic"] for row in read(tmp_path / "store")} == {"orders", "%RETRY%g"}
    assert {row["topic"] for row in read(tmp_path / "store", systemTopics="true")} == set(topics)
    assert {row["topic"] for row in read(tmp_path / "store", topics="rmq_sys_wheel_timer,orders")} == {
        "rmq_sys_wheel_timer",
        "orders",
    }


def test_store_of_apache_and_the_name_of_its_broker(tmp_path: Path):
    golden = golden_store(tmp_path / "golden")
    found = read(golden, systemTopics="true")
    assert offsets(found) == expected(golden)
    assert {row["broker"] for row in found} == {"broker-a"}
    rare = read(golden, topic="GoldenOrderJ")
    assert sorted(offsets(rare)) == expected(golden, "GoldenOrderJ")


def test_damage_is_logged_and_skipped(small: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture):
    copy = shutil.copytree(small, tmp_path / "copy")
    whole = expected(copy)
    victim = whole[50]
    flip(copy / "commitlog" / f"{victim - victim % 16384:020d}", victim % 16384 + 95)
    assert offsets(read(copy)) == [offset for offset in whole if offset != victim]
    assert f"bytes at offset {victim} of the commit log cannot be read" in caplog.text
    (row,) = read(copy, mode="damage")
    assert (row["offset"], row["path"]) == (victim, str(copy / "commitlog" / f"{victim - victim % 16384:020d}"))
    assert row["size"] > 95
    assert read(small, mode="damage") == []


def test_damage_is_logged_when_reading_through_a_queue(big: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture):
    copy = shutil.copytree(big, tmp_path / "copy")
    whole = expected(copy, "topic-0")
    victim = whole[3]
    flip(copy / "commitlog" / f"{victim - victim % BIG.segment_bytes:020d}", victim % BIG.segment_bytes + 95)
    assert sorted(offsets(read(copy, topic="topic-0"))) == [offset for offset in whole if offset != victim]
    assert f"bytes at offset {victim} of the commit log cannot be read" in caplog.text


def test_without_the_check_damaged_bodies_are_returned(small: Path, tmp_path: Path):
    copy = shutil.copytree(small, tmp_path / "copy")
    whole = expected(copy)
    flip(copy / "commitlog" / f"{whole[50] - whole[50] % 16384:020d}", whole[50] % 16384 + 95)
    assert offsets(read(copy, check="false")) == whole


def test_several_directories_are_read(small: Path, big: Path):
    both = len(expected(small)) + len(expected(big))
    assert len(read(f"{small},{big}", columns="queueId")) == both
    assert len(read(f'["{small}", "file://{big}/"]', columns="queueId")) == both
    assert len(read(str(small.parent / "sto?e"), columns="queueId", paths=str(big))) == both


def test_growing_log_is_read_up_to_its_end_at_planning(tmp_path: Path):
    store = write_store(tmp_path / "store", map(sample_record, range(100)), close=False)
    whole = expected(tmp_path / "store")
    made = reader(tmp_path / "store", columns="physicalOffset")
    parts = made.partitions()
    store.append([append_request_of(sample_record(number)) for number in range(100, 300)], NOW_MS * 2)
    found = [batch.to_pylist() for part in parts for batch in made.read(part)]
    assert offsets(itertools.chain.from_iterable(found)) == whole
    assert len(read(tmp_path / "store")) > 2 * len(whole)
    store.close()


def test_end_of_the_log_is_found_after_the_last_queue_entry_and_without_queues(tmp_path: Path):
    directory = sample_store(tmp_path / "store", 300)
    whole = expected(directory)
    for queue_file in sorted(directory.glob("consumequeue/*/*/*"))[3::2]:
        queue_file.unlink()
    assert offsets(read(directory)) == whole
    shutil.rmtree(directory / "consumequeue")
    assert offsets(read(directory)) == whole
    last = whole[-1] - whole[-1] % 16384  # the last segment
    victim = next(offset for offset in whole if offset >= last)
    flip(directory / "commitlog" / f"{last:020d}", victim - last + 2)  # its size
    assert offsets(read(directory)) == [offset for offset in whole if offset != victim]


def test_empty_store_has_no_messages(tmp_path: Path):
    write_store(tmp_path / "store", [])
    assert read(tmp_path / "store") == []


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"path": "nowhere"},
            (
                "Option 'path' names a directory that cannot be read: "
                "nowhere is not a store: it has neither 'commitlog' nor 'checkpoint'."
            ),
        ),
        ({}, "Option 'path' is missing. Pass the store directory to load()."),
        ({"path": "/nowhere/*"}, "Option 'path' is '/nowhere/*', which matches no directory."),
        ({"path": "x", "topick": "a"}, "Option 'topick' does not exist for the source rocketmq-store. Did you mean 'topic'?"),
        (
            {"path": "x", "topic": "a", "topics": "b"},
            "Options 'topic' and 'topics' are two names of one option. Give only one of them.",
        ),
        ({"path": "x", "mode": "all"}, "Option 'mode' is 'all'. It must be messages or damage."),
        (
            {"path": "x", "columns": "topic,bdy"},
            "Option 'columns' names bdy, which no message has. The columns are: topic, broker",
        ),
    ],
)
def test_invalid_option_is_refused_with_a_clear_message(options: dict[str, str], sentence: str):
    with pytest.raises((OptionError, ColumnError)) as caught:
        StoreReader(options, store_options(options).schema).partitions()
    assert str(caught.value).startswith(sentence)


def test_log_of_a_dledger_group_is_divided_and_read_like_a_commit_log(tmp_path: Path):
    store = LedgerStore(tmp_path / "store", BIG, node_id="n1")
    store.open()
    for first in range(0, 6000, 100):
        records = (replace(sample_record(number), topic="topic-1", body=bytes(1500)) for number in range(first, first + 100))
        store.append([append_request_of(record) for record in records], NOW_MS + first)
    store.commit(store.end_index)
    store.close()
    made = reader(tmp_path / "store", maxPartitionBytes=str(MIB), columns="physicalOffset,queueOffset")
    assert len(made.partitions()) > 8
    assert offsets(rows_of(made)) == expected(tmp_path / "store")
    begin_ms, end_ms = NOW_MS + 2000, NOW_MS + 4000
    times = {"startingTimestamp": str(begin_ms), "endingTimestamp": str(end_ms), "maxPartitionBytes": str(MIB)}
    assert sorted(offsets(read(tmp_path / "store", **times))) == expected(tmp_path / "store", begin_ms=begin_ms, end_ms=end_ms)
    golden = golden_ledger(tmp_path)
    assert offsets(read(golden)) == expected(golden)
    assert sorted(offsets(read(golden, topic="TD"))) == expected(golden)
