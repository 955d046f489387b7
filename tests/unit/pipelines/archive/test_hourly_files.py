"""A task's Parquet files: one for each hour, whole, and none left behind by a task that fails."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from skyrocket.pipelines.archive import hourly_files
from skyrocket.pipelines.archive.compaction import merge
from skyrocket.pipelines.archive.hourly_files import HourlyFiles, split_by_hour

HOUR_US = 3_600_000_000
NINE = 498_537  # 2026-11-15-09


def batch(*rows: tuple[int, int]) -> pa.RecordBatch:
    """Rows of (offset, store time in hours × 1,000)."""
    offsets = pa.array([offset for offset, _ in rows], pa.int64())
    times = pa.array([hour * HOUR_US // 1000 for _, hour in rows], pa.timestamp("us", "UTC"))
    bodies = pa.array([b"%d" % offset for offset, _ in rows], pa.binary())
    ids = pa.array([f"id-{offset}" for offset, _ in rows], pa.string())
    return pa.record_batch([offsets, times, bodies, ids], names=["queueOffset", "storeTimestamp", "body", "msgId"])


def files(folder: Path, *batches: pa.RecordBatch) -> list:
    return list(HourlyFiles(folder, "orders", "broker-a", 3, "lz4").write(batches))


def offsets(folder: Path, name: str) -> list[int]:
    return pq.read_table(folder / name)["queueOffset"].to_pylist()


def test_each_hour_has_a_file_with_its_messages_in_order(tmp_path: Path):
    rows = [(offset, NINE * 1000 + offset * 100) for offset in range(25)]
    found = files(tmp_path, batch(*rows[:13]), batch(*rows[13:]))
    assert [(file.hour, file.start, file.stop, file.rows) for file in found] == [
        ("2026-11-15-09", 0, 10, 10),
        ("2026-11-15-10", 10, 20, 10),
        ("2026-11-15-11", 20, 25, 5),
    ]
    assert [file.last_id for file in found] == ["id-9", "id-19", "id-24"]
    assert [offsets(tmp_path, file.name) for file in found] == [list(range(10)), list(range(10, 20)), list(range(20, 25))]
    assert {path.name for path in tmp_path.iterdir()} == {file.name for file in found}
    assert [file.size_bytes for file in found] == [(tmp_path / file.name).stat().st_size for file in found]
    assert (found[0].first_ms, found[0].last_ms) == (NINE * 3_600_000, NINE * 3_600_000 + 3_240_000)


def test_store_times_that_jump_make_few_open_files_and_lose_nothing(tmp_path: Path):
    rows = [(offset, (NINE + offset % 7) * 1000) for offset in range(70)]
    found = files(tmp_path, *(batch(*rows[at : at + 10]) for at in range(0, 70, 10)))
    assert sorted(offset for file in found for offset in offsets(tmp_path, file.name)) == list(range(70))
    assert {file.hour for file in found} == {f"2026-11-15-{hour:02}" for hour in range(9, 16)}


def test_a_task_that_fails_leaves_no_open_file(tmp_path: Path):
    def broken():
        yield batch((0, NINE * 1000))
        raise OSError("the broker is gone")

    with pytest.raises(OSError, match="the broker is gone"):
        list(HourlyFiles(tmp_path, "orders", "broker-a", 3, "lz4").write(broken()))
    assert list(tmp_path.iterdir()) == []


def test_no_message_makes_no_file(tmp_path: Path):
    assert files(tmp_path, batch()) == []
    assert list(split_by_hour(batch())) == []


def test_row_groups_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(hourly_files, "ROW_GROUP_BYTES", 1_000)
    rows = [(offset, NINE * 1000) for offset in range(200)]
    (file,) = files(tmp_path, *(batch(*rows[at : at + 20]) for at in range(0, 200, 20)))
    assert pq.ParquetFile(tmp_path / file.name).metadata.num_row_groups > 3
    assert offsets(tmp_path, file.name) == list(range(200))


def test_a_merge_has_the_rows_of_all_files_in_their_order(tmp_path: Path):
    found = [files(tmp_path, batch(*((offset, NINE * 1000) for offset in range(at, at + 5))))[0] for at in (0, 5, 10)]
    place = tmp_path / "topic=orders" / "hour=2026-11-15-09"
    place.mkdir(parents=True)
    paths = []
    for number, file in enumerate(found):
        (tmp_path / file.name).rename(place / f"{number}.parquet")
        paths.append(f"topic=orders/hour=2026-11-15-09/{number}.parquet")
    merged = merge(tmp_path, paths, tmp_path, "zstd")
    assert offsets(tmp_path, merged.name) == list(range(15))
    assert (merged.topic, merged.hour, merged.rows) == ("orders", "2026-11-15-09", 15)
