"""The disk for a repair: what is cut from a log is kept in a directory, and the lock of the store is already taken.

    zeros over bytes of the log      the bytes are copied first:     log-tail-<position>-<size>
    a file of the log is removed     it is moved, if it has bytes:   log-tail-<position>-<size>

Recovery decides what it cuts, and a repair need not know it beforehand.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import PurePath
from typing import Final

from skyrocket.store.descriptor_reserve import DescriptorReserve
from skyrocket.store.files import Bytes, Disk, DiskFile, File
from skyrocket.store.log.readable import read_readable, readable_view
from skyrocket.store.log.scan import last_byte_set

TAIL_PREFIX: Final = "log-tail-"
_COPY_BYTES: Final = 1024 * 1024

Keep = Callable[[DiskFile, int, int], None]
"""Keeps the bytes of a file from a position up to another one."""


class _LogFile(DiskFile):
    """A file of the log. Bytes that zeros are written over are kept."""

    def __init__(self, descriptor: int, size: int, reserve: DescriptorReserve, keep: Keep) -> None:
        super().__init__(descriptor, size, reserve)
        self._keep: Keep = keep

    def write(self, at: int, data: Bytes) -> None:
        if not last_byte_set(memoryview(data), 0):
            stop = last_byte_set(memoryview(read_readable(self, at, len(data))), 0)
            if stop:
                self._keep(self, at, at + stop)
        super().write(at, data)


def _release_nothing() -> None:
    """The repair releases the lock itself."""


class KeepingDisk(Disk):
    def __init__(self, log_directory: str, aside: str) -> None:
        """What is cut from files in `log_directory` is kept in the directory `aside`."""
        super().__init__()
        self._log_directory = str(PurePath(log_directory))
        self._aside = aside
        self.kept: list[str] = []  # the names of what was cut

    def lock(self, path: str) -> Callable[[], None] | None:  # noqa: ARG002 — of the port
        """Take nothing: the repair has the lock until it is done, and nobody gets in between its steps."""
        return _release_nothing

    def open(self, path: str, *, writable: bool) -> File:
        if not writable or not self._is_segment(path):
            return super().open(path, writable=writable)
        start = int(PurePath(path).name)

        def keep(file: DiskFile, begin: int, stop: int) -> None:
            pieces = (read_readable(file, at, min(_COPY_BYTES, stop - at)) for at in range(begin, stop, _COPY_BYTES))
            self.replace_with_backup(f"{self._aside}/{self._name(start + begin, stop - begin)}", pieces, None)

        descriptor = self._open(path, os.O_RDWR)
        return _LogFile(descriptor, os.fstat(descriptor).st_size, self._reserve, keep)

    def remove(self, path: str) -> None:
        if self._is_segment(path) and self.exists(path):
            file = super().open(path, writable=False)
            stop = last_byte_set(readable_view(file, 0), 0)
            file.close()
            if stop:
                self.move(path, f"{self._aside}/{self._name(int(PurePath(path).name), stop)}")
                for directory in (self._aside, self._log_directory):
                    self.sync_directory(directory)
                return
        super().remove(path)

    def _name(self, position: int, size: int) -> str:
        self.kept.append(f"{TAIL_PREFIX}{position:020d}-{size}")
        return self.kept[-1]

    def _is_segment(self, path: str) -> bool:
        found = PurePath(path)
        return str(found.parent) == self._log_directory and found.name.isdigit()
