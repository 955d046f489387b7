"""Files that tasks write: their names, their content, and that a failed or repeated task leaves no half and no second file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
from pyspark.sql.types import StructType

from skyrocket.client.queues import Queue
from skyrocket.spark.columns import arrow_schema, spark_schema
from skyrocket.spark.errors import ColumnError, OptionError
from skyrocket.spark.options.source_options import source_options
from skyrocket.spark.source import parquet_files
from skyrocket.spark.source.parquet_files import FILE_SCHEMA, ParquetFile, check_file_schema
from skyrocket.spark.source.partitions import QueuePartition

PART = QueuePartition(Queue("%RETRY%orders", "broker/a", 3), 7, 1_000)
COLUMNS = ("queueOffset", "tags", "keys", "body")


def a_batch(first: int, count: int) -> Any:
    offsets = list(range(first, first + count))
    columns = [offsets, ["web"] * count, [["a", "b"]] * count, [b"x" * 100 for _ in offsets]]
    return pa.RecordBatch.from_arrays(
        [pa.array(values, kind) for values, kind in zip(columns, arrow_schema(COLUMNS).types, strict=True)],
        schema=arrow_schema(COLUMNS),
    )


def rows_of(batches: Iterator[Any]) -> list[dict[str, Any]]:
    return [row for batch in batches for row in batch.to_pylist()]


@pytest.mark.parametrize("compression", ["snappy", "lz4", "zstd", "none"])
def test_file_has_the_messages_and_its_row_describes_it(tmp_path: Path, compression: str):
    file = ParquetFile(str(tmp_path / "new" / "folder"), compression, PART)
    (row,) = rows_of(file.write([a_batch(7, 3), a_batch(10, 2)]))
    name = "%RETRY%orders+broker%2Fa+3+00000000000000000007+00000000000000001000.parquet"
    path = tmp_path / "new" / "folder" / name
    assert list(path.parent.iterdir()) == [path]
    assert row == {
        "file": str(path),
        "topic": "%RETRY%orders",
        "broker": "broker/a",
        "queueId": 3,
        "startOffset": 7,
        "stopOffset": 1_000,
        "rows": 5,
        "sizeBytes": path.stat().st_size,
    }
    assert list(row) == FILE_SCHEMA.names
    assert pq.read_table(path).equals(pa.Table.from_batches([a_batch(7, 3), a_batch(10, 2)]))


def test_file_is_written_in_row_groups_of_bounded_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(parquet_files, "ROW_GROUP_BYTES", 2 * a_batch(0, 10).nbytes)
    (row,) = rows_of(ParquetFile(str(tmp_path), "lz4", PART).write(a_batch(10 * number, 10) for number in range(5)))
    assert [pq.ParquetFile(row["file"]).metadata.row_group(number).num_rows for number in range(3)] == [20, 20, 10]


def test_repeated_task_replaces_its_file(tmp_path: Path):
    for count in (3, 5):
        (row,) = rows_of(ParquetFile(str(tmp_path), "snappy", PART).write([a_batch(0, count)]))
    assert [path.name for path in tmp_path.iterdir()] == [Path(row["file"]).name]
    assert pq.read_table(row["file"]).num_rows == 5


def test_failed_task_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(parquet_files, "ROW_GROUP_BYTES", 1)

    def failing() -> Iterator[Any]:
        yield a_batch(0, 3)
        raise ConnectionError("the broker is gone")

    with pytest.raises(ConnectionError):
        rows_of(ParquetFile(str(tmp_path), "snappy", PART).write(failing()))
    assert list(tmp_path.iterdir()) == []


def test_no_message_is_no_file(tmp_path: Path):
    assert rows_of(ParquetFile(str(tmp_path / "folder"), "snappy", PART).write([])) == []
    assert not (tmp_path / "folder").exists()


def test_read_with_files_has_the_columns_of_files():
    check_file_schema(FILE_SCHEMA)
    for schema in (spark_schema(["body"]), StructType(FILE_SCHEMA.fields[1:])):
        with pytest.raises(ColumnError, match="option 'columns' chooses the columns of the files"):
            check_file_schema(schema)


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ("/mnt/x", "/mnt/x"),
        ("file:///mnt/a%20b", "/mnt/a b"),
        ("relative", None),
        ("s3://bucket/x", None),
        ("file://host/x", None),
    ],
)
def test_folder_is_an_absolute_path(given: str, path: str | None):
    options = {"nameserver": "a:1", "subscribe": "orders", "parquetPath": given}
    if path is not None:
        assert source_options(options).parquet_path == path
        return
    with pytest.raises(OptionError, match="absolute path that every task can write to"):
        source_options(options)
