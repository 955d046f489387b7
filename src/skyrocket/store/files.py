"""The port between the store and the file system.

Every file operation of the store goes through `Files` and `File`, so that a test can make any of them fail or tear. Operations
raise OSError; `errors.store_error` turns it into a StoreError.

Paths are plain strings: they are dictionary keys on the hot path, where a Path costs ten times as much.

The store writes with `pwrite` and reads the log through a memory mapping. Both use the same page cache. A failing `pwrite` raises
an error, where a write through a mapping would end the process with SIGBUS. Once messages are grouped, both cost the same:
0.2–0.5 µs a KiB for `pwrite`, 0.3 for a populated mapping.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import shutil
import struct
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

Bytes = bytes | bytearray | memoryview
_FLOCK = struct.Struct("hhqqi4x")  # Linux's struct flock: type, whence, start, length, process


class File(Protocol):
    """One open file of a fixed size."""

    @property
    def size(self) -> int: ...

    def write(self, at: int, data: Bytes) -> None:
        """Write all of `data` at offset `at`. After an error, any part of it may be in the file."""

    def read(self, at: int, size: int) -> bytes: ...

    def view(self) -> memoryview:
        """Return the whole file, read-only and live.

        The view stays valid while it is referenced, even after the file is removed.
        """

    def window(self, size: int) -> memoryview:
        """Return the first `size` bytes, writable.

        They must be allocated on disk, or a full disk ends the process with SIGBUS.
        """

    def prefetch(self, at: int, size: int) -> None:
        """Hint that these pages are needed in memory soon."""

    def sync(self) -> None:
        """Make everything written so far survive a power failure. May run in another thread than the writes."""

    def close(self) -> None: ...


class Files(Protocol):
    """A file system."""

    def names(self, directory: str) -> list[str]:
        """Return the names in a directory, sorted; an empty list when the directory does not exist."""

    def exists(self, path: str) -> bool: ...

    def size(self, path: str) -> int: ...

    def modified_ms(self, path: str) -> int:
        """Return when the file was last written, by the wall clock."""

    def create(self, path: str, size: int, allocated: int, *, durable: bool = True) -> File:
        """Create a file of zeros, with space on disk for the first `allocated` bytes.

        The file is durable on return. With `durable=False` it is so once it and `take_unsynced_directories` are synced.
        """

    def take_unsynced_directories(self) -> list[str]:
        """Return the directories that got files with `durable=False` since the last call. The caller syncs them."""

    def open(self, path: str, *, writable: bool) -> File: ...

    def read(self, path: str) -> bytes: ...

    def sync(self, path: str) -> None:
        """Make a file's content survive a power failure, also if it is open elsewhere.

        May run in another thread than the writes.
        """

    def replace(self, path: str, data: bytes) -> None:
        """Replace the content of a small file, all or nothing. The new content is durable on return."""

    def move(self, path: str, to: str) -> None:
        """Rename a file or a directory, all or nothing. It is durable once both parent directories are synced."""

    def sync_directory(self, path: str) -> None:
        """Make the names in a directory survive a power failure."""

    def remove(self, path: str) -> None:
        """Remove a file, or a directory with everything in it. A missing path is no error."""

    def used_percent(self, path: str) -> float:
        """Return how full the disk that holds `path` is."""

    def lock(self, path: str) -> Callable[[], None] | None:
        """Take the lock file. Return a function that releases it; None when the lock is held elsewhere."""


class DiskFile:
    def __init__(self, descriptor: int, size: int) -> None:
        self._descriptor = descriptor
        self._map: mmap.mmap | None = None
        self._view: memoryview | None = None
        self.size = size

    def write(self, at: int, data: Bytes) -> None:
        assert at >= 0
        assert at + len(data) <= self.size, f"{len(data)} bytes at {at} do not fit in a file of {self.size}"
        written = os.pwrite(self._descriptor, data, at)
        while written < len(data):  # the kernel may write less than asked; a full disk fails on the next call
            written += os.pwrite(self._descriptor, memoryview(data)[written:], at + written)

    def read(self, at: int, size: int) -> bytes:
        return os.pread(self._descriptor, size, at)

    def view(self) -> memoryview:
        if self._view is None:
            self._map = mmap.mmap(self._descriptor, self.size, prot=mmap.PROT_READ)
            self._view = memoryview(self._map)
        return self._view

    def window(self, size: int) -> memoryview:
        return memoryview(mmap.mmap(self._descriptor, size, prot=mmap.PROT_READ | mmap.PROT_WRITE))

    def prefetch(self, at: int, size: int) -> None:
        os.posix_fadvise(self._descriptor, at, size, os.POSIX_FADV_WILLNEED)

    def sync(self) -> None:
        # Not mmap.flush: that holds the GIL while the disk works. fdatasync flushes mapped pages too.
        os.fdatasync(self._descriptor)

    def close(self) -> None:
        """Close the descriptor. The mapping lives on until the last view of it is gone: memory in use is never unmapped."""
        self._view = self._map = None
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __del__(self) -> None:
        self.close()


class Disk:
    """The real file system."""

    def __init__(self) -> None:
        self._unsynced: dict[str, None] = {}  # directories with names that may not survive a power failure; an ordered set

    def names(self, directory: str) -> list[str]:
        try:
            return sorted(os.listdir(directory))
        except FileNotFoundError:
            return []

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def size(self, path: str) -> int:
        return os.stat(path).st_size

    def modified_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000

    def create(self, path: str, size: int, allocated: int, *, durable: bool = True) -> File:
        directory = os.path.dirname(path)
        if durable:
            self._make_directories(directory)
        else:
            self._unsynced.update(dict.fromkeys(_make_directories_unsynced(directory)))
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        try:
            os.ftruncate(descriptor, size)
            if allocated:
                os.posix_fallocate(descriptor, 0, allocated)
            if durable:
                os.fsync(descriptor)
                _sync_directory(directory)
        except OSError:
            os.close(descriptor)
            with suppress(OSError):
                os.unlink(path)
            raise
        return DiskFile(descriptor, size)

    def take_unsynced_directories(self) -> list[str]:
        unsynced, self._unsynced = self._unsynced, {}
        return list(unsynced)

    def open(self, path: str, *, writable: bool) -> File:
        descriptor = os.open(path, (os.O_RDWR if writable else os.O_RDONLY) | os.O_CLOEXEC)
        try:
            return DiskFile(descriptor, os.fstat(descriptor).st_size)
        except OSError:
            os.close(descriptor)
            raise

    def read(self, path: str) -> bytes:
        with open(path, "rb") as file:
            return file.read()

    def sync(self, path: str) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fdatasync(descriptor)
        finally:
            os.close(descriptor)

    def replace(self, path: str, data: bytes) -> None:
        self._make_directories(os.path.dirname(path))
        temporary = f"{path}.tmp"
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        try:
            written = 0
            while written < len(data):
                written += os.write(descriptor, memoryview(data)[written:])
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(temporary, path)
        _sync_directory(os.path.dirname(path))

    def move(self, path: str, to: str) -> None:
        os.makedirs(os.path.dirname(to), exist_ok=True)
        os.rename(path, to)

    def sync_directory(self, path: str) -> None:
        _sync_directory(path)

    def remove(self, path: str) -> None:
        if os.path.isdir(path):
            shutil.rmtree(path)
        else:
            with suppress(FileNotFoundError):
                os.unlink(path)
        if os.path.exists(os.path.dirname(path)):
            _sync_directory(os.path.dirname(path))

    def used_percent(self, path: str) -> float:
        """Count as `df` and Java do: space that is reserved for root counts as used."""
        while not os.path.exists(path):  # the log's directory is created with the first message
            path = os.path.dirname(os.path.abspath(path))
        space = os.statvfs(path)
        used = space.f_blocks - space.f_bfree
        return 100.0 * used / max(1, used + space.f_bavail)

    def lock(self, path: str) -> Callable[[], None] | None:
        self._make_directories(os.path.dirname(path))
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            # Java locks the first byte with a lock that belongs to its process. This one conflicts with it, but belongs to the
            # open file: it also excludes other stores in this process, and survives when one of them closes the file.
            fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0))
        except (BlockingIOError, PermissionError):
            os.close(descriptor)
            return None
        os.pwrite(descriptor, b"lock", 0)

        def release() -> None:
            os.close(descriptor)

        return release

    def _make_directories(self, directory: str) -> None:
        if directory and not os.path.exists(directory):
            self._make_directories(os.path.dirname(directory))
            with suppress(FileExistsError):
                os.mkdir(directory)
            _sync_directory(os.path.dirname(directory) or ".")


def _make_directories_unsynced(directory: str) -> list[str]:
    """Create a directory and its parents. Return those that got a new name, and the directory itself."""
    changed = [directory]
    while directory and not os.path.exists(directory):
        directory = os.path.dirname(directory)
        changed.append(directory or ".")
    os.makedirs(changed[0], exist_ok=True)
    return changed


def _sync_directory(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class OpenFiles:
    """Keeps at most `most` files open; closes the least recently used one."""

    def __init__(self, files: Files, most: int, *, writable: bool = True) -> None:
        self._files = files
        self._most = most
        self._writable = writable
        self._open: OrderedDict[str, File] = OrderedDict()

    @property
    def writable(self) -> bool:
        return self._writable

    def get(self, path: str) -> File:
        file = self._open.get(path)
        if file is None:
            file = self._files.open(path, writable=self._writable)
            self._keep(path, file)
        else:
            self._open.move_to_end(path)
        return file

    def create(self, path: str, size: int, allocated: int, *, durable: bool = True) -> File:
        file = self._files.create(path, size, allocated, durable=durable)
        self._keep(path, file)
        return file

    def adopt(self, path: str, file: File) -> None:
        """Take over a file that was created elsewhere: ahead of time, in the background."""
        self._keep(path, file)

    def forget(self, path: str) -> None:
        file = self._open.pop(path, None)
        if file is not None:
            file.close()

    def take(self, path: str) -> File | None:
        """Give up a file without closing it; None when it is not open. The caller closes it."""
        return self._open.pop(path, None)

    def close(self) -> None:
        while self._open:
            self._open.popitem()[1].close()

    def _keep(self, path: str, file: File) -> None:
        self._open[path] = file
        while len(self._open) > self._most:
            self._open.popitem(last=False)[1].close()
