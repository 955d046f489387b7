"""A file system whose changes stay in memory, for a store that is opened for reading while its disk is full.

    open the store     recovery reads the disk and changes files: here, in memory
    freeze()           from now on every change fails as on a full disk, except that files may be removed
    forget all of it   when the disk has room again, the store is opened anew, on the disk

An existing file is mapped privately when it is first written: pages that change are copied, the others are those of the disk.
What changes is bounded, in bytes and in files: with more, the store does not open, and the disk is full.
"""

from __future__ import annotations

import errno
import mmap
import os
from collections.abc import Callable, Iterable
from typing import Any, Final

from skyrocket.store.files import Bytes, File, Files

CHANGED_BYTES_MAX: Final = 256 * 1024 * 1024
CHANGED_FILES_MAX: Final = 1_000  # each holds a descriptor


class ChangesInMemory:
    """Implements `Files` over another one."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._changed: dict[str, ChangedFile] = {}
        self._removed: set[str] = set()  # files and directories
        self._is_frozen = False
        self._bytes = 0

    def freeze(self) -> None:
        self._is_frozen = True

    def take_space(self, size: int) -> None:
        """Account for bytes that change. Raise OSError when there are too many, or when nothing may change any more."""
        self._bytes += size
        if self._is_frozen or self._bytes > CHANGED_BYTES_MAX:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def adopt(self, path: str, file: ChangedFile) -> None:
        """Keep a file that is about to change: whoever opens it from now on gets this one."""
        if len(self._changed) >= CHANGED_FILES_MAX:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._changed[path] = file

    def _is_gone(self, path: str) -> bool:
        """Whether the disk's file counts no more. A file in memory may have taken its place."""
        while path and path not in self._removed:
            path = path.rpartition("/")[0]
        return path in self._removed

    # --- lookups

    def names(self, directory: str) -> list[str]:
        names = set() if self._is_gone(directory) else set(self._files.names(directory))
        within = f"{directory}/"
        names -= {path[len(within) :] for path in self._removed if path.startswith(within)}
        names |= {path[len(within) :].partition("/")[0] for path in self._changed if path.startswith(within)}
        return sorted(names)

    def exists(self, path: str) -> bool:
        if path in self._changed or any(each.startswith(f"{path}/") for each in self._changed):
            return True
        return not self._is_gone(path) and self._files.exists(path)

    def size(self, path: str) -> int:
        return self._changed[path].size if path in self._changed else self._on_disk(path, self._files.size)

    def modified_ms(self, path: str) -> int:
        return 0 if path in self._changed else self._on_disk(path, self._files.modified_ms)

    def read(self, path: str) -> bytes:
        changed = self._changed.get(path)
        return self._on_disk(path, self._files.read) if changed is None else changed.read(0, changed.size)

    def open(self, path: str, *, writable: bool) -> File:
        if path in self._changed:
            return self._changed[path]
        file = self._on_disk(path, lambda path: self._files.open(path, writable=False))
        return FileToChange(self, path, file) if writable else file

    def _on_disk(self, path: str, look: Callable[[str], Any]) -> Any:
        if self._is_gone(path):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return look(path)

    def used_percent(self, path: str) -> float:
        return self._files.used_percent(path)

    def lock(self, path: str) -> Callable[[], None] | None:
        return self._files.lock(path)

    # --- changes

    def create(self, path: str, size: int, allocated: int, *, durable: bool = True) -> File:  # noqa: ARG002 — of the port
        self.take_space(0)
        if self.exists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        created = ChangedFile(self, mmap.mmap(-1, max(1, size)), size)
        self.adopt(path, created)
        return created

    def replace(self, path: str, data: bytes) -> None:
        self.replace_with_backup(path, (data,), None)

    def replace_with_backup(self, path: str, pieces: Iterable[bytes], backup: str | None) -> None:
        data = b"".join(pieces)
        self.take_space(len(data))
        if backup is not None and self.exists(path):
            self.replace(backup, self.read(path))
        buffer = mmap.mmap(-1, max(1, len(data)))
        buffer[: len(data)] = data
        self.adopt(path, ChangedFile(self, buffer, len(data)))

    def move(self, path: str, to: str) -> None:  # noqa: ARG002 — of the port
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def remove(self, path: str) -> None:
        """Remove a file or a directory. Once the store is open, that frees space: retention may make room."""
        self._changed = {each: file for each, file in self._changed.items() if each != path and not each.startswith(f"{path}/")}
        if self._is_frozen and not self._is_gone(path):
            self._files.remove(path)
        else:
            self._removed.add(path)

    def sync_directory(self, path: str) -> None:
        """Nothing of this survives anyway."""

    def take_unsynced_directories(self) -> list[str]:
        return []

    def put_back_unsynced_directories(self, directories: list[str]) -> None:
        """There are none."""


class ChangedFile:
    """A file in memory."""

    def __init__(self, changes: ChangesInMemory, buffer: mmap.mmap, size: int) -> None:
        self._changes = changes
        self._buffer = buffer
        self._view = memoryview(buffer)[:size]
        self.size = size

    def write(self, at: int, data: Bytes) -> None:
        self._changes.take_space(len(data))
        self._view[at : at + len(data)] = data

    def read(self, at: int, size: int) -> bytes:
        return bytes(self._view[at : at + size])

    def read_into(self, at: int, buffer: memoryview) -> int:
        found = self._view[at : at + len(buffer)]
        buffer[: len(found)] = found
        return len(found)

    def read_into_now(self, at: int, buffer: memoryview) -> bool:
        return self.read_into(at, buffer) == len(buffer)

    read_from_disk = read

    def view(self) -> memoryview:
        return self._view.toreadonly()

    def window(self, size: int) -> memoryview:
        return self._view[:size]

    def data_end(self, at: int) -> int:  # noqa: ARG002 — of the port
        return self.size

    def prefetch(self, at: int, size: int) -> None:
        """It is in memory."""

    def sync(self) -> None:
        """It is in no need of that: it is forgotten with the process."""

    def close(self) -> None:
        """Others may have it open, too."""


class FileToChange:
    """A file of the disk, until it is first written."""

    def __init__(self, changes: ChangesInMemory, path: str, file: File) -> None:
        self._changes = changes
        self._path = path
        self._file: Any = file
        self.size = file.size

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def write(self, at: int, data: Bytes) -> None:
        self._make_changeable().write(at, data)

    def window(self, size: int) -> memoryview:
        return self._make_changeable().window(size)

    def sync(self) -> None:
        """See `ChangedFile.sync`."""

    def _make_changeable(self) -> ChangedFile:
        if not isinstance(self._file, ChangedFile):
            self._changes.take_space(0)
            descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                changed = ChangedFile(self._changes, mmap.mmap(descriptor, self.size, access=mmap.ACCESS_COPY), self.size)
            finally:
                os.close(descriptor)
            self._changes.adopt(self._path, changed)
            self._file = changed
        return self._file
