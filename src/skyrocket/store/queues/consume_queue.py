"""A consume queue: for each message of one queue of a topic, where it lies in the commit log.

     0                8        12               20
     +----------------+--------+----------------+
     | physical       | size   | hash of the    |     one entry for each message; the number of an entry is the queue offset
     | offset         |        | tag            |
     +----------------+--------+----------------+
      int64            int32    int64

The third field of a delayed message in SCHEDULE_TOPIC_XXXX is its delivery time. Each file holds `queue_entries_per_file`
entries. Files are not memory-mapped, because there may be thousands of queues. Behind the last entry everything is zero: an entry
with size 0 was never written.

    | entries in the files         | entries in memory, written late |
    ^ min_offset                   ^ written_offset                  ^ max_offset

New entries are gathered in memory, and `write_late` writes many of them at once. Readers see both parts as one.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Callable
from typing import NamedTuple

from skyrocket.store.cold_reads import ColdReads
from skyrocket.store.errors import store_error
from skyrocket.store.files import Files, OpenFiles
from skyrocket.store.log.segments import Segments
from skyrocket.store.retention.expired_files import ExpiredFile

ENTRY = struct.Struct(">qiq")
ENTRY_BYTES = ENTRY.size
PRE_BLANK = ENTRY.pack(0, 0x7FFF_FFFF, 0)  # before the first entry of a queue that does not start at 0, as in Apache's


class QueueEntry(NamedTuple):
    physical_offset: int
    size: int
    tags_code: int


class ConsumeQueue:
    def __init__(
        self, files: Files, opened: OpenFiles, directory: str, entries_per_file: int, reads: ColdReads | None = None
    ) -> None:
        # Not durable at once: a first message must not wait for the disk. The checkpoint that counts the queue syncs its files.
        self._segments = Segments(files, opened, directory, entries_per_file * ENTRY_BYTES, allocate=False, durable=False)
        self._reads = reads or ColdReads()
        self.min_offset = 0
        self.max_offset = 0  # the queue offset of the next entry
        self.written_offset = 0  # entries from here on are only in memory
        self.late = bytearray()  # these entries, packed; only the queue itself changes them
        self.rewrites = 0  # counts changes of entries that may have been read

    @property
    def directory(self) -> str:
        return self._segments.directory

    def load(self, is_sound: Callable[[int, QueueEntry], bool] | None = None) -> None:
        """Find the last entry. After a crash, `is_sound(queue_offset, entry)` says which entries can be trusted."""
        self._segments.load()
        while self._segments.starts:
            start = self._segments.starts[-1]
            count = self._count(start) if is_sound is None else self._count_sound(start, is_sound)
            if count or len(self._segments.starts) == 1:
                self.max_offset = start // ENTRY_BYTES + count
                break
            self._segments.drop_last()
        self.min_offset = self._segments.start // ENTRY_BYTES
        self.written_offset = self.max_offset

    def _count(self, start: int) -> int:
        """Count the entries of a file. They are a prefix of the file; a single bad entry does not end it."""
        entries = self._segments.segment_bytes // ENTRY_BYTES

        def is_written(index: int) -> bool:
            return any(self._entry(start, index)) and (index == 0 or any(self._entry(start, index - 1)))

        return bisect_left(range(entries), True, key=lambda index: not is_written(index))

    def _count_sound(self, start: int, is_sound: Callable[[int, QueueEntry], bool]) -> int:
        """Count the entries of a file that can be trusted.

        Behind them there may be holes. One bad entry between good ones is a flipped bit, and does not end the queue.
        """
        entries = self._segments.segment_bytes // ENTRY_BYTES

        def can_follow(index: int, before: int) -> bool:
            entry = self._entry(start, index)
            if entry.size <= 0 or not is_sound(start // ENTRY_BYTES + index, entry):
                return False
            if before < 0:
                return True
            previous = self._entry(start, before)
            # Behind an unwritten entry nothing counts: a truncation that was cut off may have left a half of the next one.
            return previous.size > 0 and previous.physical_offset <= entry.physical_offset

        count = 0
        while True:
            count = bisect_left(range(entries), True, lo=count, key=lambda index: not can_follow(index, index - 1))
            if 0 < count < entries and can_follow(count, count - 2):
                count += 1  # the entry before it is bad
            elif count + 1 < entries and can_follow(count + 1, count - 1):
                count += 2  # this entry is bad
            else:
                return count

    def _entry(self, start: int, index: int) -> QueueEntry:
        return QueueEntry(*ENTRY.unpack(self._segments.file(start).read(index * ENTRY_BYTES, ENTRY_BYTES)))

    # --- reading

    def read(self, queue_offset: int, count: int) -> bytes:
        """Return up to `count` packed entries from `queue_offset` on; fewer at the end of the queue or of a file."""
        count = min(count, self.max_offset - queue_offset)
        if count <= 0:
            return b""
        late_at = (queue_offset - self.written_offset) * ENTRY_BYTES
        if late_at >= 0:
            return bytes(self.late[late_at : late_at + count * ENTRY_BYTES])
        at = queue_offset * ENTRY_BYTES
        start = self._segments.start_of(at)
        if start is None:
            return b""
        size = min(count * ENTRY_BYTES, start + self._segments.segment_bytes - at)
        try:
            packed = self._reads.read(self._segments.file(start), at - start, min(size, -late_at))
        except OSError as error:
            raise store_error(f"reading {self.directory}", error) from error
        return packed + self.late[: size + late_at] if size > -late_at else packed

    def entry(self, queue_offset: int) -> QueueEntry | None:
        packed = self.read(queue_offset, 1)
        return QueueEntry(*ENTRY.unpack(packed)) if packed else None

    def place_of(self, queue_offset: int) -> tuple[str, int] | None:
        """Return the file that holds an entry, and where it lies there; None when no file of the queue has the entry."""
        at = queue_offset * ENTRY_BYTES
        start = self._segments.start_of(at) if queue_offset < self.written_offset else None
        return None if start is None else (self._segments.path(start), at - start)

    # --- writing

    def append(self, queue_offset: int, entries: bytes) -> int:
        """Append packed entries from `queue_offset` on, in memory. Return how many bytes were added.

        Skip those that the queue already has; fill a gap with the first new entry.

        A gap is a message that was lost to damage in the log. Its entry then points at the next message. Our reader compares the
        record's own queue offset and skips the entry; Apache's delivers the next message twice.
        """
        if queue_offset == self.max_offset:  # nearly always
            self.late += entries
            self.max_offset = queue_offset + len(entries) // ENTRY_BYTES
            return len(entries)
        if self.max_offset == 0 and queue_offset > 0 and (not self._segments.starts or self._segments.start > 0):
            self._begin_at(queue_offset)
        known, count = self.max_offset - queue_offset, len(entries) // ENTRY_BYTES
        if known >= count:
            return 0
        packed = entries[known * ENTRY_BYTES :] if known >= 0 else entries[:ENTRY_BYTES] * -known + entries
        self.late += packed
        self.max_offset = queue_offset + count
        return len(packed)

    @property
    def needs_file(self) -> bool:
        """Whether the entries that are only in memory go into a file that does not exist yet."""
        return self._segments.start_of(self.written_offset * ENTRY_BYTES) is None

    def write_late(self) -> None:
        """Write the entries that are only in memory. After an error they stay there for the next call."""
        if not self.late:
            return
        try:
            self._write(self.written_offset * ENTRY_BYTES, bytes(self.late))
        except OSError as error:
            raise store_error(f"writing {self.directory}", error) from error
        self.written_offset = self.max_offset
        self.late.clear()

    def replace(self, queue_offset: int, packed: bytes) -> None:
        """Overwrite one entry that was wrong."""
        assert self.min_offset <= queue_offset < self.max_offset
        self.rewrites += 1
        if queue_offset >= self.written_offset:
            at = (queue_offset - self.written_offset) * ENTRY_BYTES
            self.late[at : at + ENTRY_BYTES] = packed
            return
        try:
            self._write(queue_offset * ENTRY_BYTES, packed)
        except OSError as error:
            raise store_error(f"repairing {self.directory}", error) from error

    def restore(self, queue_offset: int, packed: bytes) -> None:
        """Write the entry of a message that is back in the log. It may lie before the first one that the queue had left."""
        if queue_offset < self.min_offset:
            if self._segments.start_of(queue_offset * ENTRY_BYTES) is None:
                return
            self.min_offset = queue_offset
        self.replace(queue_offset, packed)

    def _begin_at(self, queue_offset: int) -> None:
        """Start an empty queue at `queue_offset`, because its first messages are gone from the log. Apache does the same."""
        segment_bytes = self._segments.segment_bytes
        at = queue_offset * ENTRY_BYTES
        start = at - at % segment_bytes
        try:
            if not self._segments.starts:  # the file exists when the disk was full on the last attempt
                self._segments.add(start)
            self._write(start, PRE_BLANK * ((at - start) // ENTRY_BYTES))
        except OSError as error:
            raise store_error(f"starting {self.directory}", error) from error
        self.min_offset = self.max_offset = self.written_offset = queue_offset

    def _write(self, at: int, packed: bytes) -> None:
        segment_bytes = self._segments.segment_bytes
        while packed:
            start = at - at % segment_bytes
            has_file = self._segments.start_of(at) is not None
            file = self._segments.file_to_write(start) if has_file else self._segments.add_anew(start)
            room = start + segment_bytes - at
            file.write(at - start, packed[:room])
            at, packed = at + room, packed[room:]

    # --- shrinking

    def truncate(self, queue_offset: int) -> None:
        """Delete the entries from `queue_offset` on, and write zeros in their place."""
        assert not self.late, "recovery writes entries before it truncates a queue"
        self.rewrites += 1
        at = queue_offset * ENTRY_BYTES
        if at < self._segments.start:
            self.remove()  # its first files are missing: it begins again, at the message that comes next
            return
        while self._segments.starts and self._segments.starts[-1] >= at and len(self._segments.starts) > 1:
            self._segments.drop_last()
        start = self._segments.start_of(at)
        if start is not None:
            file = self._segments.file(start)
            tail = file.read(at - start, start + self._segments.segment_bytes - at).rstrip(b"\0")
            if tail:
                self._segments.file_to_write(start).write(at - start, bytes(len(tail)))
        self.max_offset = self.written_offset = min(self.max_offset, queue_offset)
        self.min_offset = min(self.min_offset, self.max_offset)

    def has_late_before(self, log_start: int) -> bool:
        """Whether an entry that is only in memory belongs to a message before `log_start`."""
        return bool(self.late) and ENTRY.unpack_from(self.late)[0] < log_start

    def expire(self, log_start: int) -> list[ExpiredFile]:
        """Raise the minimum offset to the first message at or behind `log_start`. Return the files that lie before it."""
        return self.raise_minimum(self.find_minimum(log_start, self.entry))

    def find_minimum(self, log_start: int, read: Callable[[int], QueueEntry | None]) -> int:
        """Return the queue offset of the first message at or behind `log_start`. `read` returns an entry by its queue offset."""
        max_offset = self.max_offset
        first = min(max(self.min_offset, self._segments.start // ENTRY_BYTES), max_offset)

        def lies_before(queue_offset: int) -> bool:
            entry = read(queue_offset)
            return entry is not None and entry.physical_offset < log_start

        def is_gone(queue_offset: int) -> bool:
            """A single entry before `log_start` between later ones is a flipped bit."""
            return lies_before(queue_offset) and (queue_offset == first or lies_before(queue_offset - 1))

        if not (lies_before(first) or lies_before(first + 1)):
            return first  # the usual case: nothing of this queue expires
        return bisect_left(range(max_offset), True, lo=first, key=lambda offset: not is_gone(offset))

    def raise_minimum(self, queue_offset: int) -> list[ExpiredFile]:
        """Set the minimum offset, and give up the files that lie before it. The caller deletes them."""
        self.min_offset = min(max(queue_offset, self.min_offset), self.max_offset)
        starts = self._segments.starts
        count = 0
        while count + 1 < len(starts) and starts[count + 1] <= self.min_offset * ENTRY_BYTES:
            count += 1
        return self._segments.take_first(count) if count else []

    def forget(self) -> None:
        """Forget all entries. The files were moved away."""
        self._segments.forget_all()
        self._reset()

    def remove(self) -> None:
        self._segments.drop_all()
        self._reset()

    def _reset(self) -> None:
        self.rewrites += 1
        self.late.clear()
        self.min_offset = self.max_offset = self.written_offset = 0
