"""Reads that do not wait for the disk, for the thread that serves all clients.

    reads.attempt = attempt             from now on, a read of bytes that are not in memory raises NotInMemoryError
    …                                   read queue entries, checksums, records
    reads.attempt = None                reads wait for the disk again

    await in_a_thread(error.fetch)      what was missing; then everything is tried again, and finds it in the attempt

A store's own thread changes the attempt, and only around calls that do not wait. The files themselves may be read by any thread.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final, TypeVar

from skyrocket.store.errors import StoreError
from skyrocket.store.files import File

Found = TypeVar("Found")

ATTEMPTS_MAX: Final = 64  # then a read waits, and clients with it: a bad sector costs two for each record
REPEATS_MAX: Final = 8  # of a scheduled check, which begins again each time
_SMALL_BYTES: Final = 64 * 1024  # kept for all attempts; larger ranges are in memory by then, in the system's page cache


class WaitsForDiskError(StoreError):
    """The disk must do something first, and the caller does not wait for that: a thread calls `fetch`, then it tries again."""

    def fetch(self) -> None:
        raise NotImplementedError


class NotInMemoryError(WaitsForDiskError):
    """Bytes of a file must be read from the disk, and the reader does not wait for that."""

    def __init__(self, file: File, at: int, size: int, attempt: ReadAttempt) -> None:
        super().__init__(f"{size} bytes at {at} are not in memory.")
        self.file = file
        self.at = at
        self.size = size
        self._attempt = attempt

    def fetch(self) -> None:
        """Read what was missing, for the next time it is tried. This waits for the disk, so a thread calls it."""
        self._attempt.fetch(self)


class ReadAttempt:
    """What a thread has read for one reader: bytes, or the error of the disk."""

    def __init__(self) -> None:
        self._found: dict[tuple[File, int, int], bytes | OSError] = {}

    def fetch(self, missing: NotInMemoryError) -> None:
        """Read what was missing. This waits for the disk, so a thread calls it."""
        try:
            found: bytes | OSError = missing.file.read(missing.at, missing.size)
        except OSError as error:
            found = error.with_traceback(None)
        if isinstance(found, OSError) or missing.size <= _SMALL_BYTES:
            self._found[missing.file, missing.at, missing.size] = found

    def take(self, file: File, at: int, size: int) -> bytes | None:
        """Return what was read for this range; None when nothing was. Raise OSError when the disk did not return it."""
        found = self._found.get((file, at, size)) if self._found else None
        if isinstance(found, OSError):
            raise found
        return found


class ColdReads:
    """How the parts of one store read their files: with waiting, or for an attempt without."""

    def __init__(self) -> None:
        self.attempt: ReadAttempt | None = None

    def read_now(self, read: Callable[[], Found], attempt: ReadAttempt) -> Found:
        """Call `read`, which raises NotInMemoryError when it would wait for the disk."""
        self.attempt = attempt
        try:
            return read()
        finally:
            self.attempt = None

    def read(self, file: File, at: int, size: int) -> bytes:
        if self.attempt is None:
            return file.read(at, size)
        buffer = bytearray(size)
        return bytes(buffer[: self.read_into(file, at, memoryview(buffer))])

    def read_into(self, file: File, at: int, buffer: memoryview) -> int:
        """Fill a buffer, and return how many bytes were read: fewer than fit, if the file ends before."""
        attempt = self.attempt
        if attempt is None:
            return file.read_into(at, buffer)
        size = len(buffer)
        found = attempt.take(file, at, size)
        if found is not None:
            buffer[: len(found)] = found
            return len(found)
        if file.read_into_now(at, buffer):
            return size
        raise NotInMemoryError(file, at, size, attempt)


class RepeatedReads:
    """Reads that are tried again when a thread has read what was missing."""

    def __init__(self, reads: ColdReads) -> None:
        self._reads = reads
        self._attempts: dict[Hashable, tuple[ReadAttempt, int]] = {}  # reads that wait for the disk, and how often each was tried

    def read(self, name: Hashable, read: Callable[[], Found]) -> Found:
        """Return what `read` returns. Raise NotInMemoryError when it would wait for the disk, and try again under this name.

        A read that was tried REPEATS_MAX times waits: its bytes lie far apart, or leave memory as fast as they are read.
        """
        attempt, tried = self._attempts.pop(name, (ReadAttempt(), 0))
        if tried >= REPEATS_MAX:
            return read()
        try:
            return self._reads.read_now(read, attempt)
        except NotInMemoryError:
            self._attempts[name] = (attempt, tried + 1)
            raise
