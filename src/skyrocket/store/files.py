"""The port between the store and the file system.

Every file operation of the store goes through `Files` and `File`, so that a test can make any of them fail or tear. Operations
raise OSError; `errors.store_error` turns it into a StoreError.

Paths are plain strings: they are dictionary keys on the hot path, where a Path costs ten times as much.

The store writes with `pwrite` and reads the log through a memory mapping. Both use the same page cache. A failing `pwrite` raises
an error, where a write through a mapping would end the process with SIGBUS. Once messages are grouped, both cost the same:
0.2–0.5 µs a KiB for `pwrite`, 0.3 for a populated mapping.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import shutil
import struct
from collections import OrderedDict
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import islice
from typing import Protocol

from skyrocket.store.descriptor_reserve import DescriptorReserve

Bytes = bytes | bytearray | memoryview
_PAGE_BYTES = 4096
_READ_BYTES = 1024 * 1024  # read at once, to see whether a range can be read
_FLOCK = struct.Struct("hhqqi4x")  # Linux's struct flock: type, whence, start, length, process


class File(Protocol):
    """One open file of a fixed size."""

    @property
    def size(self) -> int: ...

    def write(self, at: int, data: Bytes) -> None:
        """Write all of `data` at offset `at`. After an error, any part of it may be in the file."""

    def read(self, at: int, size: int) -> bytes: ...

    def read_into(self, at: int, buffer: memoryview) -> int:
        """Fill a buffer from offset `at` on. Return how many bytes were read: fewer than fit, if the file ends before."""

    def read_into_now(self, at: int, buffer: memoryview) -> bool:
        """Fill a buffer with bytes that are in memory. Return False, having waited for nothing, when some of them are not.

        A file system that cannot tell reads them and waits.
        """

    def read_from_disk(self, at: int, size: int) -> bytes:
        """Read what the disk has, past the page cache. `at` is a multiple of 4096."""

    def view(self) -> memoryview:
        """Return the whole file, read-only and live.

        The view stays valid while it is referenced, even after the file is removed.
        """

    def window(self, size: int) -> memoryview:
        """Return the first `size` bytes, writable, allocated on disk and readable.

        Otherwise a full disk or a bad sector would end the process with SIGBUS. Raise OSError instead.
        """

    def data_end(self, at: int) -> int:
        """Return where the last bytes from `at` on end that were ever written. Holes follow, which are zeros and on no disk."""

    def prefetch(self, at: int, size: int) -> None:
        """Hint that these pages are needed in memory soon."""

    def sync(self) -> None:
        """Make everything written so far survive a power failure. May run in another thread than the writes."""

    def close(self) -> None:
        """Close the file. A file that nobody refers to any more closes by itself."""


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

    def put_back_unsynced_directories(self, directories: list[str]) -> None:
        """Return them with the next call again: they could not be synced yet."""

    def open(self, path: str, *, writable: bool) -> File: ...

    def read(self, path: str) -> bytes: ...

    def replace(self, path: str, data: bytes) -> None:
        """Replace the content of a small file, all or nothing. The new content is durable on return."""

    def move(self, path: str, to: str) -> None:
        """Rename a file or a directory, all or nothing. It is durable once both parent directories are synced."""

    def sync_directory(self, path: str) -> None:
        """Make the names in a directory survive a power failure. Raise NotOpenedError when it cannot be opened."""

    def replace_with_backup(self, path: str, pieces: Iterable[bytes], backup: str | None) -> None:
        """Like `replace`, for content in pieces. The content before becomes that of `backup`, also all or nothing."""

    def remove(self, path: str) -> None:
        """Remove a file, or a directory with everything in it. A missing path is no error."""

    def used_percent(self, path: str) -> float:
        """Return how full the disk that holds `path` is."""

    def lock(self, path: str) -> Callable[[], None] | None:
        """Take the lock file. Return a function that releases it; None when the lock is held elsewhere."""


class DiskFile:
    """An open file: one descriptor, and a second one for each mapping, because Python's mapping keeps its own."""

    def __init__(self, descriptor: int, size: int, reserve: DescriptorReserve) -> None:
        self._descriptor = descriptor
        self._reserve = reserve
        self._map: mmap.mmap | None = None
        self._view: memoryview | None = None
        self._reads_now = True  # until the file system says that it does not know what is in memory
        self.size = size

    def write(self, at: int, data: Bytes) -> None:
        assert at >= 0
        assert at + len(data) <= self.size, f"{len(data)} bytes at {at} do not fit in a file of {self.size}"
        written = os.pwrite(self._descriptor, data, at)
        while written < len(data):  # the kernel may write less than asked; a full disk fails on the next call
            written += os.pwrite(self._descriptor, memoryview(data)[written:], at + written)

    def read(self, at: int, size: int) -> bytes:
        return os.pread(self._descriptor, size, at)

    def read_into(self, at: int, buffer: memoryview) -> int:
        return os.preadv(self._descriptor, [buffer], at)

    def read_into_now(self, at: int, buffer: memoryview) -> bool:
        if self._reads_now:
            try:
                return os.preadv(self._descriptor, [buffer], at, os.RWF_NOWAIT) == len(buffer)
            except BlockingIOError:
                return False
            except OSError as error:
                if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS):
                    raise
                self._reads_now = False
        return os.preadv(self._descriptor, [buffer], at) == len(buffer)

    def read_from_disk(self, at: int, size: int) -> bytes:
        wanted = min(size + -size % _PAGE_BYTES, self.size - at)
        buffer = mmap.mmap(-1, size + -size % _PAGE_BYTES)  # O_DIRECT needs an aligned buffer
        try:
            direct = self._reserve.take(
                lambda: os.open(f"/proc/self/fd/{self._descriptor}", os.O_RDONLY | os.O_DIRECT | os.O_CLOEXEC)
            )
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            # The file system lies in memory, or cannot do this. Then the cached pages are dropped, as far as it drops them.
            os.posix_fadvise(self._descriptor, at, wanted, os.POSIX_FADV_DONTNEED)
            return os.pread(self._descriptor, size, at)
        try:
            read = 0
            while read < wanted and (more := os.preadv(direct, [memoryview(buffer)[read:]], at + read)):
                read += more
        finally:
            os.close(direct)
        return buffer[:size]

    def view(self) -> memoryview:
        if self._view is None:
            self._map = self._reserve.take(lambda: mmap.mmap(self._descriptor, self.size, prot=mmap.PROT_READ))
            self._view = memoryview(self._map)
        return self._view

    def window(self, size: int) -> memoryview:
        os.posix_fallocate(self._descriptor, 0, size)
        for at in range(0, size, _READ_BYTES):
            os.pread(self._descriptor, min(_READ_BYTES, size - at), at)
        protection = mmap.PROT_READ | mmap.PROT_WRITE
        return memoryview(self._reserve.take(lambda: mmap.mmap(self._descriptor, size, prot=protection)))

    def data_end(self, at: int) -> int:
        try:
            while at < self.size:
                at = os.lseek(self._descriptor, os.lseek(self._descriptor, at, os.SEEK_DATA), os.SEEK_HOLE)
        except OSError as error:
            if error.errno != errno.ENXIO:  # no data follows
                return self.size
        return min(at, self.size)

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
    """The real file system. Where the process has no descriptor left, it uses one of its reserve."""

    def __init__(self, reserved: int = 0) -> None:
        """`reserved` is the number of descriptors that are held for the moment when the process has no other left."""
        self._reserve = DescriptorReserve(reserved)
        self._unsynced: dict[str, None] = {}  # directories with names that may not survive a power failure; an ordered set

    def names(self, directory: str) -> list[str]:
        try:
            return sorted(self._reserve.take(lambda: os.listdir(directory)))
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
        descriptor = self._open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        try:
            os.ftruncate(descriptor, size)
            if allocated:
                os.posix_fallocate(descriptor, 0, allocated)
            if durable:
                os.fsync(descriptor)
                self.sync_directory(directory)
        except OSError:
            os.close(descriptor)
            with suppress(OSError):
                os.unlink(path)
            raise
        return DiskFile(descriptor, size, self._reserve)

    def take_unsynced_directories(self) -> list[str]:
        unsynced, self._unsynced = self._unsynced, {}
        return list(unsynced)

    def put_back_unsynced_directories(self, directories: list[str]) -> None:
        self._unsynced.update(dict.fromkeys(directories))

    def open(self, path: str, *, writable: bool) -> File:
        descriptor = self._open(path, os.O_RDWR if writable else os.O_RDONLY)
        try:
            return DiskFile(descriptor, os.fstat(descriptor).st_size, self._reserve)
        except OSError:
            os.close(descriptor)
            raise

    def read(self, path: str) -> bytes:
        descriptor = self._open(path, os.O_RDONLY)
        try:
            with open(descriptor, "rb", closefd=False) as file:
                return file.read()
        finally:
            os.close(descriptor)

    def replace(self, path: str, data: bytes) -> None:
        self.replace_with_backup(path, (data,), None)

    def replace_with_backup(self, path: str, pieces: Iterable[bytes], backup: str | None) -> None:
        self._make_directories(os.path.dirname(path))
        temporary = f"{path}.tmp"
        descriptor = self._open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        try:
            for data in pieces:
                written = 0
                while written < len(data):
                    written += os.write(descriptor, memoryview(data)[written:])
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if backup is not None and os.path.exists(path):
            self._keep_as(path, backup)
        os.replace(temporary, path)
        self.sync_directory(os.path.dirname(path))

    def move(self, path: str, to: str) -> None:
        os.makedirs(os.path.dirname(to), exist_ok=True)
        os.rename(path, to)

    def sync_directory(self, path: str) -> None:
        try:
            descriptor = self._open(path, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise NotOpenedError(error.errno, error.strerror, path) from error
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def remove(self, path: str) -> None:
        if os.path.isdir(path):
            self._reserve.take(lambda: shutil.rmtree(path))
        else:
            with suppress(FileNotFoundError):
                os.unlink(path)
        if os.path.exists(os.path.dirname(path)):
            self.sync_directory(os.path.dirname(path))

    def _keep_as(self, path: str, backup: str) -> None:
        """Give the file a second name: it gets no new content, only a new file in its place. So nothing is written."""
        temporary = f"{backup}.tmp"
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        try:
            os.link(path, temporary)
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EMLINK):
                raise
            self.replace(backup, self.read(path))  # a file system without hard links
        else:
            os.replace(temporary, backup)

    def used_percent(self, path: str) -> float:
        """Count as `df` and Java do: space that is reserved for root counts as used."""
        while not os.path.exists(path):  # the log's directory is created with the first message
            path = os.path.dirname(os.path.abspath(path))
        space = os.statvfs(path)
        used = space.f_blocks - space.f_bfree
        return 100.0 * used / max(1, used + space.f_bavail)

    def is_locked(self, path: str) -> bool:
        """Whether a broker has the lock file, ours or Apache's. The question takes no lock."""
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            wanted = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)
            return bool(_FLOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, wanted))[0] != fcntl.F_UNLCK)
        finally:
            os.close(descriptor)

    def lock(self, path: str) -> Callable[[], None] | None:
        self._make_directories(os.path.dirname(path))
        descriptor = self._open(path, os.O_RDWR | os.O_CREAT)
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
            self.sync_directory(os.path.dirname(directory) or ".")

    def _open(self, path: str, flags: int) -> int:
        return self._reserve.take(lambda: os.open(path, flags | os.O_CLOEXEC, 0o644))


def _make_directories_unsynced(directory: str) -> list[str]:
    """Create a directory and its parents. Return those that got a new name, and the directory itself."""
    changed = [directory]
    while directory and not os.path.exists(directory):
        directory = os.path.dirname(directory)
        changed.append(directory or ".")
    os.makedirs(changed[0], exist_ok=True)
    return changed


class NotOpenedError(OSError):
    """A file could not be opened, so it was not synced. Nothing is known to be lost: its content can be synced later."""


class UnsyncedFiles:
    """Files that were written, for a job that syncs them. Any thread may call `sync`.

    Those that are still open are held open, also if their owner closes or removes them in the meantime.
    """

    def __init__(self, files: Files, held: dict[str, File], closed: list[str]) -> None:
        self._files = files
        self.held = held  # by path
        self.closed = closed  # paths

    def sync(self) -> None:
        """Sync all files. Raise NotOpenedError when one could not be opened, and any other OSError when a sync failed."""
        for file in self.held.values():
            file.sync()
        for path in self.closed:
            try:
                file = self._files.open(path, writable=True)
            except FileNotFoundError:
                continue  # it has been removed
            except OSError as error:
                raise NotOpenedError(error.errno, error.strerror, path) from error
            file.sync()


class OpenFiles:
    """Keeps at most `most` files open; closes the least recently used one.

    A file that was written stays open until it is synced: after a failed write-back, the kernel reports the error to descriptors
    that were open at that time, and may have forgotten it when the file is opened again. Only when all of the files are unsynced,
    the oldest ones are closed, and opened again to be synced.

    A closed file is let go of, and closes when nobody else holds it: a job may be syncing it in another thread.
    """

    def __init__(self, files: Files, most: int, *, writable: bool = True) -> None:
        self._files = files
        self._most = most
        self._writable = writable
        self._open: OrderedDict[str, File] = OrderedDict()
        self._unsynced: dict[str, File] = {}  # written since they were taken last
        self._closed_unsynced: dict[str, None] = {}

    @property
    def writable(self) -> bool:
        return self._writable

    def get(self, path: str) -> File:
        """Return a file to read from."""
        file = self._open.get(path)
        if file is None:
            file = self._files.open(path, writable=self._writable)
            self._keep(path, file)
        else:
            self._open.move_to_end(path)
        return file

    def get_to_write(self, path: str) -> File:
        """Return a file that the caller is about to write. It counts as unsynced from now on."""
        file = self._unsynced.get(path)
        if file is None:
            file = self._unsynced[path] = self.get(path)
            self._closed_unsynced.pop(path, None)
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

    def take_unsynced(self) -> UnsyncedFiles:
        """Return the files written since the last call. The caller syncs them."""
        taken = UnsyncedFiles(self._files, dict(self._unsynced), list(self._closed_unsynced))
        self._unsynced.clear()
        self._closed_unsynced.clear()
        return taken

    def put_back(self, taken: UnsyncedFiles) -> None:
        """Count the files of a job as unsynced again, because it could not open one of them."""
        for path, file in taken.held.items():
            if self._open.get(path) is file:
                self._unsynced[path] = file
            else:
                self._closed_unsynced[path] = None
        self._closed_unsynced.update(dict.fromkeys(taken.closed))

    def forget(self, path: str) -> None:
        """Let go of a file that is being removed."""
        self.take(path)

    def take(self, path: str) -> File | None:
        """Give up a file that is being removed; None when it is not open. It closes when the caller lets go of it."""
        self._unsynced.pop(path, None)
        self._closed_unsynced.pop(path, None)
        return self._open.pop(path, None)

    def close(self) -> None:
        self._open.clear()
        self._unsynced.clear()
        self._closed_unsynced.clear()

    def _keep(self, path: str, file: File) -> None:
        self._open[path] = file
        if len(self._open) > self._most:
            self._close_oldest(but=path)

    def _close_oldest(self, but: str) -> None:
        unsynced = self._unsynced
        for path in self._open:
            if path not in unsynced and path != but:
                del self._open[path]
                return
        # Several at once, so that the next files that are opened need not look through all of them again.
        for path in list(islice(self._open, max(1, self._most // 8))):
            if path != but:
                del self._open[path]
                del unsynced[path]
                self._closed_unsynced[path] = None
