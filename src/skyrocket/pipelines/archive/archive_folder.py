"""An archive's folder: its description, its lock, the records of its batches, and the files that tasks have staged.

`parquet_table` and `delta_table` decide when a batch is published. This module has what both need of the file system.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal, Self

import msgspec

from skyrocket.durable_file import make_directory, read_file, replace_file, sync_directory
from skyrocket.pipelines.archive.batch_record import AddedFile, BatchRecord, decode_record, encode_record
from skyrocket.pipelines.archive.layout import BATCHES, DESCRIPTION, LOCK, OWN_FOLDER, READERS, STAGED, batch_file
from skyrocket.pipelines.errors import ArchiveError
from skyrocket.pipelines.file_lock import take_lock
from skyrocket.pipelines.json_columns.json_schema import JsonColumns

TableFormat = Literal["parquet", "delta", "iceberg"]
FORMATS: Final = ("parquet", "delta", "iceberg")
VERSION: Final = 1  # of the layout
RECORD_BYTES_MAX: Final = 256 * 1024 * 1024
RECORDS_KEPT: Final = 3
READERS_WAIT_S: Final = 60.0  # for a compaction to delete its files: that takes a moment


class ArchiveDescription(msgspec.Struct, frozen=True, kw_only=True):
    id: str  # also the name of the transactions in a Delta log
    format: TableFormat
    version: int = VERSION
    json_columns: JsonColumns | None = None  # of bodies; None: bodies are binary only


@contextmanager
def archive_lock(root: Path, wait_s: float = 0.0) -> Iterator[None]:
    """Hold the lock of an archive, which ends with the process. Raise ArchiveError if another job writes to the archive.

    A reader holds it for a moment, too, so a job waits a little.
    """
    path = root / LOCK
    make_directory(path.parent)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        if not take_lock(descriptor, wait_s):
            raise ArchiveError(f"Another job is writing to the archive {root}. Wait until it has ended.")
        yield
    finally:
        os.close(descriptor)


@contextmanager
def keep_files(root: Path) -> Iterator[None]:
    """Keep the files that are published now from being deleted by a compaction. Spark reads them later than it lists them.

    Any number of readers do so at the same time. A folder that cannot be written to is read without.
    """
    try:
        descriptor = os.open(root / READERS, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError:
        yield
        return
    try:
        if not take_lock(descriptor, READERS_WAIT_S, shared=True):
            raise ArchiveError(f"A compaction of the archive {root} does not end. Start the job again.")
        yield
    finally:
        os.close(descriptor)


@contextmanager
def keep_readers_out(root: Path) -> Iterator[bool]:
    """Yield whether no job reads the archive. If so, none begins to until this ends."""
    descriptor = os.open(root / READERS, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        yield take_lock(descriptor)
    finally:
        os.close(descriptor)


class ArchiveFolder:
    """The folder of an existing archive."""

    def __init__(self, root: Path, description: ArchiveDescription) -> None:
        self.root = root
        self.id = description.id
        self.format: TableFormat = description.format
        self.json_columns = description.json_columns

    @classmethod
    def open(cls, root: Path) -> Self | None:
        """Open an archive. Return None if there is none; raise ArchiveError if the folder is something else."""
        if root.exists() and not root.is_dir():
            raise ArchiveError(f"{root} is a file, not a folder.")
        found = read_file(root / DESCRIPTION, 1 << 20)
        if found is None:
            if root.is_dir() and any(root.iterdir()) and not (root / OWN_FOLDER).exists():
                raise ArchiveError(f"{root} is not empty and not an archive. Choose an empty or a new folder.")
            return None
        try:
            description = msgspec.json.decode(found, type=ArchiveDescription)
        except msgspec.DecodeError as error:
            raise ArchiveError(f"{root / DESCRIPTION} does not describe an archive: {error}") from error
        if description.version != VERSION:
            raise ArchiveError(f"{root} is an archive of version {description.version}. This program knows version {VERSION}.")
        return cls(root, description)

    @classmethod
    def create(cls, root: Path, table_format: TableFormat, json_columns: JsonColumns | None = None) -> Self:
        description = ArchiveDescription(id=str(uuid.uuid4()), format=table_format, json_columns=json_columns)
        replace_file(root / DESCRIPTION, msgspec.json.encode(description))
        return cls(root, description)

    @property
    def staged(self) -> Path:
        return self.root / STAGED

    # --- records of batches

    def record_numbers(self) -> list[int]:
        folder = self.root / BATCHES
        found = [path.stem for path in folder.glob("*.json")] if folder.is_dir() else []
        return sorted(int(stem) for stem in found if stem.isdecimal())

    def read_record(self, batch: int) -> BatchRecord:
        path = self.root / batch_file(batch)
        found = read_file(path, RECORD_BYTES_MAX)
        if found is None:
            raise ArchiveError(f"{path} is missing. It says which offsets the archive has; restore it from a backup.")
        record = decode_record(found, path)
        if record.archive_id != self.id or record.batch != batch:
            raise ArchiveError(f"{path} is the record of batch {record.batch} of another archive.")
        return record

    def write_record(self, record: BatchRecord) -> None:
        replace_file(self.root / batch_file(record.batch), encode_record(record))

    def delete_record(self, batch: int) -> None:
        (self.root / batch_file(batch)).unlink(missing_ok=True)

    def delete_old_records(self) -> None:
        for batch in self.record_numbers()[:-RECORDS_KEPT]:
            self.delete_record(batch)

    # --- files

    def prepare_staging(self) -> None:
        """Make the folder of staged files, and empty it: what is in it belongs to batches that were not published."""
        make_directory(self.staged)
        for path in self.staged.iterdir():
            path.unlink(missing_ok=True)

    def settle_staged(self, added: Iterable[AddedFile]) -> None:
        """Make the names of staged files durable, before a record names them. Raise ArchiveError if one is not there."""
        for file in added:
            if not (self.staged / file.staged).exists():
                raise ArchiveError(
                    f"A task has written {self.staged / file.staged}, but the driver does not find it. An archive must be "
                    "a folder that the driver and all workers share."
                )
        sync_directory(self.staged)

    def move_into_place(self, added: Iterable[AddedFile]) -> None:
        """Rename staged files to their published paths. A file that is no longer staged has been renamed before."""
        folders: set[Path] = set()
        for file in added:
            path = self.root / file.path
            if path.parent not in folders:
                make_directory(path.parent)
                folders.add(path.parent)
            try:
                (self.staged / file.staged).rename(path)
            except FileNotFoundError:
                continue
        for folder in folders:
            sync_directory(folder)

    def delete(self, paths: Iterable[str]) -> None:
        for path in paths:
            (self.root / path).unlink(missing_ok=True)
