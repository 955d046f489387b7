"""A disk that can be made full or slow from outside, through one byte of a shared file.

HEALTHY   the real file system
FULL      nothing new fits: creating, writing and replacing files fails with ENOSPC
SLOW      what waits for the disk takes long: syncs, new files, replaced files
"""

from __future__ import annotations

import errno
import mmap
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from skyrocket.store.files import Bytes, Disk, File

HEALTHY, FULL, SLOW = 0, 1, 2
SYNC_S: Final = 0.2
FILE_S: Final = 0.05


class DiskControl:
    """The byte that says how the disk is. The soak sets it, and the broker's process reads it."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.write_bytes(bytes(mmap.PAGESIZE))
        with path.open("r+b") as file:
            self._shared = mmap.mmap(file.fileno(), mmap.PAGESIZE)

    def set(self, mode: int) -> None:
        self._shared[0] = mode

    @property
    def mode(self) -> int:
        return self._shared[0]

    def take_space(self) -> None:
        if self._shared[0] == FULL:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def wait(self, seconds: float) -> None:
        if self._shared[0] == SLOW:
            time.sleep(seconds)


class FaultyFile:
    """A file of the faulty disk. Everything but writes and syncs is the real file's."""

    def __init__(self, file: File, control: DiskControl) -> None:
        self._file = file
        self._control = control

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def write(self, at: int, data: Bytes) -> None:
        self._control.take_space()
        self._file.write(at, data)

    def sync(self) -> None:
        self._control.wait(SYNC_S)
        self._file.sync()


class FaultyDisk(Disk):
    def __init__(self, control: DiskControl) -> None:
        super().__init__()
        self._control = control

    def create(self, path: str, size: int, allocated: int, *, durable: bool = True) -> File:
        self._control.take_space()
        if durable:
            self._control.wait(FILE_S)
        created = super().create(path, size, allocated, durable=durable)
        return FaultyFile(created, self._control)  # type: ignore[return-value]  # it has the attributes

    def open(self, path: str, *, writable: bool) -> File:
        return FaultyFile(super().open(path, writable=writable), self._control)  # type: ignore[return-value]

    def sync(self, path: str) -> None:
        self._control.wait(SYNC_S)
        super().sync(path)

    def sync_directory(self, path: str) -> None:
        self._control.wait(FILE_S)
        super().sync_directory(path)

    def replace_with_backup(self, path: str, pieces: Iterable[bytes], backup: str | None) -> None:
        """`replace` comes here, too."""
        self._control.take_space()
        self._control.wait(FILE_S)
        super().replace_with_backup(path, pieces, backup)
