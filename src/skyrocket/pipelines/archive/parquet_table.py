"""An archive as a folder of Parquet files, which any reader of Parquet can read.

    tasks stage files  ─►  write the batch's record  ─►  rename its files into place  ─►  delete what it replaces
                             the batch is published        killed before this ends: the next run, or reader, finishes it

The record is one file that is replaced as a whole: after a crash it is there or not. Files come into view after it, so plain
readers see published files only. They may see a part of the newest batch for the moment in which its files are renamed.
`files` does not: it reads the record, too.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePath

from skyrocket.pipelines.archive.archive_folder import ArchiveFolder
from skyrocket.pipelines.archive.batch_record import BatchRecord
from skyrocket.pipelines.archive.layout import SUFFIX


class ParquetTable:
    def __init__(self, folder: ArchiveFolder) -> None:
        self.folder = folder

    def last(self) -> BatchRecord | None:
        """Return the record of the newest published batch."""
        numbers = self.folder.record_numbers()
        return self.folder.read_record(numbers[-1]) if numbers else None

    def recover(self) -> None:
        """Finish a batch whose publication was interrupted, and remove what killed tasks have left. Needs the lock."""
        last = self.last()
        if last is not None:
            self._finish(last)
        self.folder.prepare_staging()

    def publish(self, record: BatchRecord) -> None:
        self.folder.settle_staged(record.added)
        self.folder.write_record(record)
        self._finish(record)
        self.folder.delete_old_records()

    def _finish(self, record: BatchRecord) -> None:
        self.folder.move_into_place(record.added)
        self.folder.delete(record.removed)

    def files(self) -> list[str]:
        """Return the paths of all published files, as of one batch."""
        last = self.last()
        root = self.folder.root
        listed = [str(PurePath(path).relative_to(root)) for path in root.glob(f"topic=*/hour=*/*{SUFFIX}")]
        staged = {path.name for path in self.folder.staged.glob(f"*{SUFFIX}")} if self.folder.staged.is_dir() else set()
        return [str(root / path) for path in visible_files(listed, last, staged)]


def visible_files(listed: Iterable[str], last: BatchRecord | None, staged: Iterable[str]) -> list[str]:
    """Return which files make up the archive. Pure.

    `listed` are the files in place. While a file of the newest batch is still staged, none of that batch counts, and all that it
    replaces are there. Then all of it counts, and what it replaces does not, whether it is deleted yet or not.
    """
    found = set(listed)
    if last is not None:
        waiting = set(staged)
        if any(file.staged in waiting for file in last.added):
            found.difference_update(file.path for file in last.added)
        else:
            found.difference_update(last.removed)
    return sorted(found)
