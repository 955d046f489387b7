"""Files that the store has given up: no longer in any table, still on disk.

Deleting a file of a gigabyte takes a second on some file systems, and unmapping it as long again. So the store's thread only
takes expired files out of its tables, and another thread deletes them:

    store's thread    take files out of the tables → `add`
    any thread        `remove_all`: unlink, then close and unmap

Files are deleted in the order in which they were added. When one cannot be deleted, it and those behind it wait for the next
call: a segment of the log that stays while later ones go would be a gap.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from threading import Lock
from typing import NamedTuple

from skyrocket.store.errors import store_error
from skyrocket.store.files import File, Files


class ExpiredFile(NamedTuple):
    path: str
    open_file: File | None  # let go of after the file is deleted, so that the space is freed in the same thread


class ExpiredFiles:
    """`add` is for the store's thread, `remove_all` for any thread."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._waiting: deque[ExpiredFile] = deque()
        self._one_at_a_time = Lock()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, expired: Iterable[ExpiredFile]) -> None:
        self._waiting.extend(expired)

    def remove_all(self) -> None:
        """Delete the files. Raise StoreError when one cannot be deleted; the next call tries again."""
        with self._one_at_a_time:
            while self._waiting:
                path, open_file = self._waiting[0]
                try:
                    self._files.remove(path)
                except OSError as error:
                    raise store_error(f"removing the expired file {path}", error) from error
                self._waiting.popleft()
                del open_file  # closes here, unless a job syncs the file at the moment: then when the job ends
