"""An archive of Parquet files that is killed at every step of a publication: the next run has the batch or not, whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from skyrocket.client.queues import Queue
from skyrocket.pipelines.archive import archive_folder
from skyrocket.pipelines.archive.archive_folder import RECORDS_KEPT, ArchiveFolder, archive_lock, keep_files, keep_readers_out
from skyrocket.pipelines.archive.batch_record import BatchRecord, StagedFile, append_record, compact_record
from skyrocket.pipelines.archive.job import open_table
from skyrocket.pipelines.archive.parquet_table import ParquetTable
from skyrocket.pipelines.errors import ArchiveError, ArgumentError

QUEUE = Queue("orders", "broker-a", 0)


class Killed(BaseException):
    """The process ends here."""


def stage(table: ParquetTable, number: int) -> StagedFile:
    name = f"{number:032x}.parquet"
    (table.folder.staged / name).write_text(str(number))
    return StagedFile(
        name=name,
        topic="orders",
        hour=f"2026-11-18-{number % 24:02}",
        broker="broker-a",
        queue_id=0,
        start=number,
        stop=number + 1,
        rows=1,
        size_bytes=1,
        first_ms=0,
        last_ms=0,
    )


def content(table: ParquetTable) -> list[int]:
    return sorted(int(Path(path).read_text()) for path in table.files())


def fresh(folder: Path) -> ParquetTable:
    table = ParquetTable(ArchiveFolder.create(folder, "parquet"))
    table.recover()
    table.publish(append_record(table.folder.id, 1, {QUEUE: 2}, [stage(table, 0), stage(table, 1)]))
    return table


def append_of(table: ParquetTable) -> BatchRecord:
    return append_record(table.folder.id, 2, {QUEUE: 4}, [stage(table, 2), stage(table, 3)])


def compact_of(table: ParquetTable) -> BatchRecord:
    merged = [stage(table, 10), stage(table, 11)]
    removed = [str(Path(path).relative_to(table.folder.root)) for path in table.files()]
    return compact_record(table.folder.id, 2, {QUEUE: 2}, merged, removed)


STEPS = ("replace_file", "make_directory", "sync_directory", "rename", "unlink")


def kill_at(step: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Let the process end before its `step`-th change of the file system. Return the list of changes that it makes."""
    made: list[str] = []

    def counted(name, change):
        def call(*arguments, **given):
            if len(made) == step:
                raise Killed
            made.append(name)
            return change(*arguments, **given)

        return call

    for name in STEPS[:3]:
        monkeypatch.setattr(archive_folder, name, counted(name, getattr(archive_folder, name)))
    for name in STEPS[3:]:
        monkeypatch.setattr(Path, name, counted(name, getattr(Path, name)))
    return made


@pytest.mark.parametrize("step", range(14))
@pytest.mark.parametrize(("record_of", "after"), [(append_of, [0, 1, 2, 3]), (compact_of, [10, 11])])
def test_a_killed_publication_is_done_or_not_begun(tmp_path: Path, record_of, after, step: int, monkeypatch: pytest.MonkeyPatch):
    table = fresh(tmp_path)
    record = record_of(table)
    with monkeypatch.context() as patch:
        made = kill_at(step, patch)
        try:
            table.publish(record)
        except Killed:
            is_killed = True
        else:
            is_killed = False
    again = open_table(tmp_path)
    assert isinstance(again, ParquetTable)
    last = again.last()
    assert last is not None
    assert content(again) in ([0, 1], after), "a reader sees the archive as of one batch, at any moment"
    again.recover()
    assert content(again) == (after if last.batch == 2 else [0, 1])
    assert last.progress == ({QUEUE: 4} if last.batch == 2 and record_of is append_of else {QUEUE: 2})
    assert list(again.folder.staged.iterdir()) == []
    assert is_killed or "rename" in made


def test_a_file_that_the_driver_does_not_find_is_not_published(tmp_path: Path):
    """As on a cluster whose workers have a local folder of the same name."""
    table = fresh(tmp_path)
    record = append_of(table)
    (table.folder.staged / record.added[1].staged).unlink()
    with pytest.raises(ArchiveError, match="must be a folder that the driver and all workers share"):
        table.publish(record)
    assert content(table) == [0, 1]


def test_records_of_old_batches_go(tmp_path: Path):
    table = fresh(tmp_path)
    for batch in range(2, 9):
        table.publish(append_record(table.folder.id, batch, {QUEUE: batch}, []))
    assert table.folder.record_numbers() == [6, 7, 8]
    assert len(table.folder.record_numbers()) == RECORDS_KEPT
    last = table.last()
    assert last is not None
    assert last.progress == {QUEUE: 8}


# --- readers and compactions


def test_readers_share_and_keep_a_compaction_out_until_all_have_ended(tmp_path: Path):
    fresh(tmp_path)
    with keep_files(tmp_path):
        with keep_files(tmp_path), keep_readers_out(tmp_path) as is_unread:
            assert not is_unread
        with keep_readers_out(tmp_path) as is_unread:
            assert not is_unread
    with keep_readers_out(tmp_path) as is_unread:
        assert is_unread


def test_a_reader_waits_for_a_compaction_and_refuses_one_that_does_not_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(archive_folder, "READERS_WAIT_S", 0.0)
    fresh(tmp_path)
    refused = pytest.raises(ArchiveError, match=r"A compaction of the archive .* does not end")
    with keep_readers_out(tmp_path), refused, keep_files(tmp_path):
        pass


def test_a_folder_without_an_archive_is_left_alone_by_its_readers(tmp_path: Path):
    with keep_files(tmp_path / "none"):
        pass
    assert list(tmp_path.iterdir()) == []


# --- folders


def test_a_folder_of_something_else_is_refused_and_left_alone(tmp_path: Path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ArchiveError, match="is not empty and not an archive"):
        open_table(tmp_path, create=True)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_file_is_refused(tmp_path: Path):
    (tmp_path / "x").write_text("")
    with pytest.raises(ArchiveError, match="is a file, not a folder"):
        open_table(tmp_path / "x", create=True)


def test_a_folder_that_is_no_archive_cannot_be_read(tmp_path: Path):
    with pytest.raises(ArchiveError, match=r"is not an archive\. Make one with: skyrocket pipeline archive"):
        open_table(tmp_path / "none")


def test_an_archive_keeps_its_format(tmp_path: Path):
    fresh(tmp_path)
    with pytest.raises(ArgumentError, match=r"is an archive of format parquet, not delta\. Leave --format out"):
        open_table(tmp_path, "delta")


def test_one_job_writes_at_a_time(tmp_path: Path):
    refused = pytest.raises(ArchiveError, match="Another job is writing to the archive")
    with archive_lock(tmp_path), refused, archive_lock(tmp_path):
        pass
    with archive_lock(tmp_path):
        pass


@pytest.mark.parametrize("text", ["{", '{"id": "x", "format": "csv"}'])
def test_a_damaged_description_is_an_error(tmp_path: Path, text: str):
    fresh(tmp_path)
    (tmp_path / "_skyrocket" / "archive.json").write_text(text)
    with pytest.raises(ArchiveError, match="does not describe an archive"):
        open_table(tmp_path)


def test_an_archive_of_a_later_version_is_refused(tmp_path: Path):
    fresh(tmp_path)
    (tmp_path / "_skyrocket" / "archive.json").write_text('{"id": "x", "format": "parquet", "version": 9}')
    with pytest.raises(ArchiveError, match="is an archive of version 9"):
        open_table(tmp_path)


def test_a_record_of_another_archive_is_refused(tmp_path: Path):
    table = fresh(tmp_path)
    table.folder.write_record(append_record("other", 2, {}, []))
    with pytest.raises(ArchiveError, match="of another archive"):
        table.last()
