"""Names of folders and files in an archive, and the record of a batch."""

from __future__ import annotations

import pytest

from skyrocket.client.queues import Queue
from skyrocket.pipelines.archive.batch_record import (
    LostMessages,
    StagedFile,
    append_record,
    compact_record,
    decode_record,
    encode_record,
    read_row,
)
from skyrocket.pipelines.archive.compaction import SizedFile, plan_merges
from skyrocket.pipelines.archive.delta_table import file_statistics
from skyrocket.pipelines.archive.layout import file_path, hour_text, parse_partition, partition_folder
from skyrocket.pipelines.archive.parquet_table import visible_files
from skyrocket.pipelines.errors import ArchiveError

FILE = StagedFile(
    name="0123456789abcdef.parquet",
    topic="orders",
    hour="2026-11-18-09",
    broker="broker-a",
    queue_id=3,
    start=10,
    stop=20,
    rows=10,
    size_bytes=99,
    first_ms=1_700_000_000_001,
    last_ms=1_700_000_000_999,
)
QUEUE = Queue("orders", "broker-a", 3)


def test_an_hour_sorts_as_text_and_impossible_ones_are_kept_in_range():
    assert [hour_text(hours) for hours in (-5, 0, 498_537, 2**60)] == [
        "1970-01-01-00",
        "1970-01-01-00",
        "2026-11-15-09",
        "9955-07-25-16",
    ]


@pytest.mark.parametrize("topic", ["orders", "%RETRY%group", "%DLQ%a-b_c", "a|b"])
def test_a_topic_is_found_again_in_its_folder(topic: str):
    assert parse_partition(f"{partition_folder(topic, '2026-11-18-09')}/x.parquet") == (topic, "2026-11-18-09")
    assert partition_folder(topic, "h").count("/") == 1


def test_other_paths_have_no_partition():
    assert parse_partition("_skyrocket/staged/x.parquet") is None
    assert parse_partition("x.parquet") is None


def test_a_file_is_named_by_batch_broker_queue_and_offset():
    path = file_path("orders", "2026-11-18-09", 7, "broker-a", 3, 10, FILE.name)
    assert path == "topic=orders/hour=2026-11-18-09/00000007-broker-a-3-00000000000000000010-01234567.parquet"


def test_a_record_is_read_back_with_files_offsets_and_losses():
    lost = LostMessages(topic="orders", broker="broker-a", queue_id=3, start=5, stop=10)
    record = append_record("id", 7, {QUEUE: 20}, [FILE], [lost])
    assert decode_record(encode_record(record), "x") == record
    assert record.progress == {QUEUE: 20}
    assert (record.added[0].rows, record.added[0].staged) == (10, FILE.name)


def test_a_damaged_record_is_an_error_that_names_it():
    with pytest.raises(ArchiveError, match=r"^batches/7\.json is not the record of an archive's batch"):
        decode_record(b'{"batch": ', "batches/7.json")


def test_a_row_of_spark_is_a_staged_file():
    assert read_row([getattr(FILE, name) for name in FILE.__struct_fields__]) == FILE


def test_statistics_contain_every_store_time():
    found = file_statistics(append_record("id", 1, {}, [FILE]).added[0])
    assert found["numRecords"] == 10
    assert found["minValues"]["storeTimestamp"] == "2023-11-14T22:13:20.001Z"
    assert found["maxValues"]["storeTimestamp"] == "2023-11-14T22:13:21.000Z"


# --- which files make up an archive


def test_while_a_file_of_the_newest_batch_is_staged_none_of_it_counts():
    record = append_record("id", 2, {}, [FILE, StagedFile(**{**_fields(), "name": "ffffffffffff.parquet", "start": 30})])
    first, second = (file.path for file in record.added)
    assert visible_files(["old", first], record, ["ffffffffffff.parquet"]) == ["old"]
    assert visible_files(["old", first, second], record, []) == sorted(["old", first, second])


def test_a_compaction_counts_from_its_last_rename_on_even_before_the_old_files_are_gone():
    record = compact_record("id", 3, {}, [FILE], ["small-1", "small-2"])
    merged = record.added[0].path
    assert visible_files(["small-1", "small-2"], record, [FILE.name]) == ["small-1", "small-2"]
    assert visible_files(["small-1", "small-2", merged], record, []) == [merged]
    assert visible_files(["small-2", merged], record, []) == [merged]


def _fields() -> dict[str, object]:
    return {name: getattr(FILE, name) for name in FILE.__struct_fields__}


# --- which files are merged


def test_small_files_of_one_folder_are_merged_up_to_the_target():
    sized = [SizedFile(f"topic=a/hour=1/{number}.parquet", 40) for number in range(5)]
    assert plan_merges(sized, small=50, target=100) == [
        ["topic=a/hour=1/0.parquet", "topic=a/hour=1/1.parquet"],
        ["topic=a/hour=1/2.parquet", "topic=a/hour=1/3.parquet"],
    ]


def test_large_files_single_files_and_files_of_others_stay():
    sized = [
        SizedFile("topic=a/hour=1/x.parquet", 60),
        SizedFile("topic=a/hour=1/y.parquet", 10),
        SizedFile("topic=a/hour=2/y.parquet", 10),
        SizedFile("stray.parquet", 1),
        SizedFile("stray-2.parquet", 1),
    ]
    assert plan_merges(sized, small=50, target=100) == []
