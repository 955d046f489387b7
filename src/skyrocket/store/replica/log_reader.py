"""Read byte ranges of the log, for slaves and to compare two logs.

    read_now(offset, size)       bytes that this process wrote recently: at once, from memory
    read_job(offset, size)       any other bytes: a job for a thread, because the disk may take its time

A job opens the file itself. So it disturbs neither the files that the store keeps open nor their number, and a file that is
deleted meanwhile can be read to its end.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from skyrocket.protocol.crc import crc32
from skyrocket.protocol.message.record import MAGIC, MAGIC_V2
from skyrocket.store.errors import UnreadableError
from skyrocket.store.files import File, Files
from skyrocket.store.log.commit_log import CommitLog

_SIZE_AND_MAGIC: Final = struct.Struct(">ii")
_PIECE_BYTES: Final = 1024 * 1024  # read at once


class LogSpan(NamedTuple):
    """A range of the log within one segment: a record, or one with the blank behind it."""

    offset: int
    size: int

    @property
    def end(self) -> int:
        return self.offset + self.size


class LogReader:
    def __init__(self, log: CommitLog, files: Files) -> None:
        self._log = log
        self._files = files

    def read_now(self, offset: int, size: int) -> bytes | None:
        """Return bytes that are in memory because this process wrote them recently; None for others."""
        if offset < self._log.hot_from:
            return None
        view = self._log.view(offset, size)
        return None if view is None else bytes(view)

    def read_job(self, offset: int, size: int) -> Callable[[], bytes]:
        """Return a job that reads a range of one segment. It raises UnreadableError when the disk does not return it."""
        start = self._log.segments.start_of(offset)
        if start is None or offset + size > self._log.end:
            raise UnreadableError(f"The log from {self._log.start} to {self._log.end} has no {size} bytes at {offset}.")
        path = self._log.segments.path(start)

        def run() -> bytes:
            try:
                data = self._files.open(path, writable=False).read(offset - start, size)
            except OSError as error:
                raise UnreadableError(f"{size} bytes of the log at {offset} cannot be read ({error.strerror}).") from error
            if len(data) < size:
                raise UnreadableError(f"{size} bytes of the log at {offset} cannot be read: {path} is too short.")
            return data

        return run

    def checksum_job(self, spans: Sequence[LogSpan]) -> Callable[[], list[int | None]]:
        """Return a job that computes the CRC-32 of ranges; None for one that the log does not have."""
        end = self._log.end
        wanted = [self.read_job(*span) if span.size > 0 and self._has(span, end) else None for span in spans]
        return lambda: [None if job is None else crc32(job()) for job in wanted]

    def _has(self, span: LogSpan, end: int) -> bool:
        start = self._log.segments.start_of(span.offset)
        return start is not None and span.end <= min(end, start + self._log.segments.segment_bytes)

    def first_spans(self) -> Callable[[], list[LogSpan]]:
        """Return a job that finds the first record of each segment."""
        places = [(start, self._log.segments.path(start)) for start in self._log.segments.starts if start < self._log.end]

        def run() -> list[LogSpan]:
            found = [next(iter(_walk(self._files.open(path, writable=False), start, start + 1)), None) for start, path in places]
            return [span for span in found if span is not None]

        return run

    def spans_job(self, offset: int) -> Callable[[], list[LogSpan]]:
        """Return a job that lists all records of the segment that contains `offset`, as far as it is written."""
        start = self._log.segments.start_of(offset)
        assert start is not None
        path, stop = self._log.segments.path(start), min(self._log.end, start + self._log.segments.segment_bytes)
        return lambda: list(_walk(self._files.open(path, writable=False), start, stop))


def _walk(file: File, start: int, stop: int) -> list[LogSpan]:
    """List the records of a segment up to `stop`, by the sizes in them."""
    spans: list[LogSpan] = []
    first, piece = 0, b""
    at = 0
    while start + at < stop:
        if at + _SIZE_AND_MAGIC.size > first + len(piece):
            first, piece = at, file.read(at, _PIECE_BYTES)
            if len(piece) < _SIZE_AND_MAGIC.size:
                break
        size, magic = _SIZE_AND_MAGIC.unpack_from(piece, at - first)
        if magic not in (MAGIC, MAGIC_V2) or size <= 0:
            break  # the blank, or the end
        spans.append(LogSpan(start + at, size))
        at += size
    return spans
