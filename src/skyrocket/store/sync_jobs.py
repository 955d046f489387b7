"""Jobs that wait for the disk. The store's thread creates one, any thread runs it, and the store's thread reports the result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from skyrocket.store.files import Files, UnsyncedFiles
from skyrocket.store.recovery.checkpoint import Checkpoint


class FlushJob(NamedTuple):
    """Syncs the log to disk up to `position`."""

    position: int
    timestamp: int  # store time of the last message before `position`
    unsynced: UnsyncedFiles

    def run(self) -> None:
        """Raise NotOpenedError when a file could not be opened, and any other OSError when a sync failed."""
        self.unsynced.sync()


@dataclass(slots=True)
class CheckpointJob:
    """Syncs queues, index and checksums to disk, then writes the checkpoint that says so."""

    checkpoint: Checkpoint
    _files: Files
    queues: UnsyncedFiles
    checksums: UnsyncedFiles
    directories: list[str]  # that got new files
    index: Sequence[Callable[[], None]]  # jobs that sync a file each
    _write: Callable[[Checkpoint], None]
    uncounted: list[str]  # directories of deleted queues that this checkpoint does not count any more
    is_synced: bool = False

    def run(self) -> None:
        """Raise NotOpenedError when a file could not be opened, and any other OSError when a sync or the write failed."""
        for sync in self.index:  # first: these files are open, so that nothing is left to sync again if another one is not
            sync()
        self.queues.sync()
        self.checksums.sync()
        for directory in self.directories:
            with suppress(FileNotFoundError):  # its topic may have been deleted in the meantime
                self._files.sync_directory(directory)
        self.is_synced = True
        self._write(self.checkpoint)
