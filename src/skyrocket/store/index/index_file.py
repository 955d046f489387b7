"""One file of the index: a hash table on disk, from a key to the messages that carry it.

     0                8                16               24               32       36       40
     +----------------+----------------+----------------+----------------+--------+--------+
     | first store    | last store     | first physical | last physical  | slots  | next   |   header
     | timestamp      | timestamp      | offset         | offset         | in use | entry  |
     +----------------+----------------+----------------+----------------+--------+--------+
     | slot 0 | slot 1 | …                                                                  |   int32 each: the newest entry
     +--------+--------+-------------------------------------------------------------------+   whose hash falls here, or 0
     | entry 0 (never used) | entry 1 | entry 2 | …                                        |
     +----------------------+---------+---------+------------------------------------------+

     0        4                12       16       20
     +--------+----------------+--------+--------+
     | hash   | physical       | seconds| entry  |       an entry: seconds since the header's first timestamp,
     |        | offset         |        | before |       and the entry that the slot pointed at before
     +--------+----------------+--------+--------+

Entries are only ever added. The header is written after the entries and slots that it counts are on disk. So after a crash the
count is right: entries behind it are overwritten, and the slots are rebuilt from the entries. The slots are memory-mapped, with
their space allocated; the entries of one append are written with one call.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from skyrocket.compiled import twin
from skyrocket.store.cold_reads import ColdReads, NotInMemoryError
from skyrocket.store.errors import StoreFormatError, StoreIOError
from skyrocket.store.files import File, Files

HEADER = struct.Struct(">qqqqii")
SLOT = struct.Struct(">i")
ENTRY = struct.Struct(">iqii")
KEY = struct.Struct(">iqq")  # a key to add: hash, physical offset, store timestamp
_POINTED = struct.Struct(">qi")  # position of a slot, and the entry that it will point at
_INT32_MAX = 2**31 - 1
NO_MATCH = -1  # in a walk over entries: one that does not match
LATE_ENTRIES_MAX = 1_000  # entries behind the time range that a search visits one by one
SCANNED_AT_ONCE = 64  # entries that cost about as much as one visit
READ_AT_ONCE = 50_000  # entries of a whole file


Visit = int | NotInMemoryError
"""A step of a walk: a physical offset, NO_MATCH, or what must be read from the disk before the walk goes on."""


class IndexEntry(NamedTuple):
    key_hash: int
    physical_offset: int
    seconds: int
    before: int


def index_bytes(slots: int, entries: int) -> int:
    return HEADER.size + slots * SLOT.size + entries * ENTRY.size


def _pack_index_entries(table: memoryview, slots: int, first: int, first_timestamp: int, keys: bytes) -> tuple[bytes, bytes, int]:
    """Pack the entries for keys; the first entry gets number `first`.

    Also return the packed slot updates, and how many of those slots were unused before.
    """
    read_slot, pack = SLOT.unpack_from, ENTRY.pack
    timestamp, seconds, new_slots = first_timestamp, 0, 0
    entries: list[bytes] = []
    newest: dict[int, int] = {}  # slot → its last new entry; messages of one append often share tags
    for number, (hashed, physical_offset, store_timestamp) in enumerate(KEY.iter_unpack(keys), first):
        if store_timestamp != timestamp:  # most messages of one append have the same timestamp
            timestamp, seconds = store_timestamp, (store_timestamp - first_timestamp) // 1000
            seconds = seconds if 0 <= seconds <= _INT32_MAX else 0
        slot_at = HEADER.size + hashed % slots * SLOT.size
        before = newest.get(slot_at)
        if before is None:
            (before,) = read_slot(table, slot_at)
            if not 0 < before < first:
                before = 0
                new_slots += 1
        entries.append(pack(hashed, physical_offset, seconds, before))
        newest[slot_at] = number
    return b"".join(entries), b"".join([_POINTED.pack(*pointed) for pointed in newest.items()]), new_slots


def _point_slots(table: memoryview, pointed: bytes) -> None:
    for slot_at, entry in _POINTED.iter_unpack(pointed):
        SLOT.pack_into(table, slot_at, entry)


def _fill_slots(slots: bytearray, first: int, entries: bytes) -> int:
    """Point the slots at packed entries, of which the first has number `first`. Return how many slots were unused before."""
    used, count = 0, len(slots) // SLOT.size
    for number, (hashed, _, _, _) in enumerate(ENTRY.iter_unpack(entries), first):
        at = hashed % count * SLOT.size
        used += slots[at : at + SLOT.size] == b"\0\0\0\0"
        SLOT.pack_into(slots, at, number)
    return used


pack_index_entries = twin("dispatch_entries", _pack_index_entries)
point_slots = twin("dispatch_entries", _point_slots)
fill_slots = twin("dispatch_entries", _fill_slots)


@contextmanager
def _explain_unreadable(path: str) -> Iterator[None]:
    """Say what to do when the disk does not return a part of the file that is always needed."""
    try:
        yield
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        raise StoreIOError(
            f"{path} cannot be read ({error.strerror}). Stop the broker and remove {path.rpartition('/')[0]}: "
            f"the next start builds it again from the log."
        ) from error


class IndexFile:
    """A file of the index. Its slots are mapped when the file is first written; a file that is only read needs no mapping.

    A file at rest holds no descriptor: each read gets it from `reopen`.
    """

    first_timestamp: int  # store time of the oldest message in the file
    last_offset: int  # physical offset of the newest message in the file

    def __init__(
        self,
        path: str,
        file: File,
        slots: int,
        entries: int,
        *,
        reopen: Callable[[], File] | None = None,
        reads: ColdReads | None = None,
    ) -> None:
        """Walks read with `reads`, which may be told not to wait for the disk; everything else waits."""
        if file.size != index_bytes(slots, entries):
            need = index_bytes(slots, entries)
            raise StoreFormatError(f"{path} has {file.size} bytes; {slots} slots and {entries} entries need {need}.")
        self.path = path
        self._held: File | None = file
        self._reopen = reopen
        self._reads = reads or ColdReads()
        self._mapped: memoryview | None = None
        self._slots = slots
        self._entries = entries
        self._entries_at = HEADER.size + slots * SLOT.size
        self.is_dirty = False  # changed since the last sync began
        self.is_closed = False
        self._is_syncing = False  # a job of `begin_sync` has not ended
        self._read_header()

    @classmethod
    def create(
        cls,
        files: Files,
        path: str,
        slots: int,
        entries: int,
        *,
        reopen: Callable[[], File] | None = None,
        reads: ColdReads | None = None,
    ) -> IndexFile:
        table_bytes = HEADER.size + slots * SLOT.size
        created = files.create(path, index_bytes(slots, entries), table_bytes, durable=False)
        return cls(path, created, slots, entries, reopen=reopen, reads=reads)

    @property
    def _file(self) -> File:
        if self._held is not None:
            return self._held
        assert self._reopen is not None, f"{self.path} is closed"
        return self._reopen()

    @property
    def _table(self) -> memoryview:
        """The header and the slots, mapped. The file is held open from here on."""
        if self._mapped is None:
            self._held = self._file
            with _explain_unreadable(self.path):
                self._mapped = self._held.window(self._entries_at)
        return self._mapped

    def rest(self) -> None:
        """Let go of the file and its mapping, because nothing more is added. A sync job holds both until it ends."""
        assert not self.is_dirty
        self._held = self._mapped = None

    def _read_header(self) -> None:
        (
            self.first_timestamp,
            self.last_timestamp,
            self.first_offset,
            self.last_offset,
            self._slots_used,
            count,
        ) = HEADER.unpack(self._read_head())
        self.next_entry: int = max(1, min(count, self._entries))

    def _read_head(self) -> bytes:
        with _explain_unreadable(self.path):
            return self._file.read(0, HEADER.size)

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def room(self) -> int:
        """How many more keys fit into the file."""
        return self._entries - self.next_entry

    @property
    def is_in_sync(self) -> bool:
        """Whether everything is on disk and no job of `begin_sync` runs, which would fail on a closed file."""
        return not self.is_dirty and not self._is_syncing

    @property
    def is_empty(self) -> bool:
        return self.next_entry <= 1

    # --- writing

    def put(self, keys: bytes) -> None:
        """Add packed keys. The caller has checked that they fit."""
        count = len(keys) // KEY.size
        assert count <= self.room
        if not keys:
            return
        self.is_dirty = True
        if self.is_empty:
            _, self.first_offset, self.first_timestamp = KEY.unpack_from(keys)
        entries, pointed, new_slots = pack_index_entries(self._table, self._slots, self.next_entry, self.first_timestamp, keys)
        self._file.write(self._entries_at + self.next_entry * ENTRY.size, entries)
        point_slots(self._table, pointed)  # after the entries, whose write may fail on a full disk
        self.next_entry += count
        self._slots_used += new_slots
        _, self.last_offset, self.last_timestamp = KEY.unpack_from(keys, len(keys) - KEY.size)

    def begin_sync(self) -> Callable[[], None]:
        """Return a job that syncs the file as it is now. The job may run in another thread while keys are added."""
        table, file = self._table, self._file
        header = HEADER.pack(
            self.first_timestamp, self.last_timestamp, self.first_offset, self.last_offset, self._slots_used, self.next_entry
        )

        self.is_dirty = False
        self._is_syncing = True

        def sync() -> None:
            """Sync entries and slots first, then the header that counts them."""
            file.sync()
            table[: HEADER.size] = header
            file.sync()
            self._is_syncing = False

        return sync

    def rebuild(self, stop_offset: int) -> None:
        """After a crash, keep the entries that the header counts, up to `stop_offset`, and rebuild the slots from them."""
        kept = self._end_before(stop_offset)
        slots = bytearray(self._slots * SLOT.size)
        self.is_dirty = True
        used = sum(fill_slots(slots, number, packed) for number, packed in self._pieces(1, kept))
        self._table[HEADER.size : self._entries_at] = slots
        self._slots_used, self.next_entry = used, kept
        if kept > 1:
            last = self._entry(kept - 1)
            self.last_offset = last.physical_offset
            self.last_timestamp = min(self.last_timestamp, self.first_timestamp + (last.seconds + 1) * 1000)
        else:
            self.first_timestamp = self.last_timestamp = self.first_offset = self.last_offset = 0

    def _end_before(self, stop_offset: int) -> int:
        """Return the number behind the newest entry of a message before `stop_offset`."""
        stop = self.next_entry
        while stop > 1:
            first = max(1, stop - READ_AT_ONCE)
            packed = next(self._pieces(first, stop))[1]
            for _, physical_offset, _, _ in reversed(list(ENTRY.iter_unpack(packed))):
                if physical_offset < stop_offset:
                    return stop
                stop -= 1
        return stop

    # --- reading

    def find(self, hashed: int, begin_ms: int, end_ms: int, *, live: bool = False) -> Iterator[int]:
        """Yield physical offsets of messages whose key has this hash, newest first."""
        visits = self.visit(hashed, begin_ms, end_ms, live=live)
        return (visit for visit in visits if isinstance(visit, int) and visit != NO_MATCH)

    def visit(self, hashed: int, begin_ms: int, end_ms: int, *, live: bool = False) -> Iterator[Visit]:
        """Walk the entries of a slot, newest first. Yield for each a physical offset, or NO_MATCH: the caller bounds the walk.

        While reads must not wait for the disk, it also yields what is not in memory. When that was read, the walk goes on.

        The walk ends at the first entry before the time range: entries are in the order of their store times, as in Apache's
        search. It follows a chain to smaller entry numbers only, so it always ends. With `live`, entries count that another
        process has added since it last wrote the header.
        """
        number: int = SLOT.unpack((yield from self._fetch(HEADER.size + hashed % self._slots * SLOT.size, SLOT.size)))[0]
        above = self._entries if live else self.next_entry
        late = 0
        while 0 < number < above and not self.is_closed:
            entry = IndexEntry(*ENTRY.unpack((yield from self._fetch(self._entry_at(number), ENTRY.size))))
            stored_ms = self._stored_ms(entry)
            if stored_ms <= begin_ms - 1000:
                return
            # Entries have whole seconds: accept what may lie in the range. The caller checks the record's exact time.
            is_in_range = stored_ms <= end_ms
            yield entry.physical_offset if is_in_range and entry.key_hash == hashed else NO_MATCH
            above, number = number, entry.before
            late += not is_in_range
            if late == LATE_ENTRIES_MAX and not self.is_closed:
                number = yield from self._find_newest(hashed, end_ms, above)
                late += 1

    def _fetch(self, at: int, size: int) -> Generator[NotInMemoryError, None, bytes]:
        while True:
            try:
                return self._reads.read(self._file, at, size)
            except NotInMemoryError as missing:
                yield missing

    def _find_newest(self, hashed: int, end_ms: int, above: int) -> Generator[Visit, None, int]:
        """Return the newest entry of a hash at or before `end_ms`, below entry `above`; 0 when there is none.

        A tag may have millions of entries behind the time range. A search by time skips them: entries of all keys are in the
        order of their store times. From there the hash is found quickly, because it is frequent.
        """
        stop, later = 1, above  # entries before `stop` are in time, those from `later` on are not
        while stop < later and not self.is_closed:
            middle = (stop + later) // 2
            entry = IndexEntry(*ENTRY.unpack((yield from self._fetch(self._entry_at(middle), ENTRY.size))))
            if self._stored_ms(entry) > end_ms:
                later = middle
            else:
                stop = middle + 1
        while stop > 1 and not self.is_closed:
            start = max(1, stop - SCANNED_AT_ONCE)
            packed = yield from self._fetch(self._entry_at(start), (stop - start) * ENTRY.size)
            hashes = [key_hash for key_hash, _, _, _ in ENTRY.iter_unpack(packed)]
            if hashed in hashes:
                return stop - 1 - hashes[::-1].index(hashed)
            stop = start
            yield NO_MATCH
        return 0

    def _stored_ms(self, entry: IndexEntry) -> int:
        return self.first_timestamp + entry.seconds * 1000

    def overlaps(self, begin_ms: int, end_ms: int) -> bool:
        return not self.is_empty and begin_ms <= self.last_timestamp + 1000 and end_ms >= self.first_timestamp

    def entries(self) -> Iterator[IndexEntry]:
        """Yield every entry, oldest first."""
        return (IndexEntry(*entry) for _, packed in self._pieces(1, self.next_entry) for entry in ENTRY.iter_unpack(packed))

    def _entry(self, number: int) -> IndexEntry:
        return IndexEntry(*ENTRY.unpack(self._file.read(self._entry_at(number), ENTRY.size)))

    def _entry_at(self, number: int) -> int:
        return self._entries_at + number * ENTRY.size

    def _pieces(self, first: int, stop: int) -> Iterator[tuple[int, bytes]]:
        """Yield packed entries, many at once, with the number of the first of them."""
        for start in range(first, stop, READ_AT_ONCE):
            count = min(stop - start, READ_AT_ONCE)
            yield start, self._file.read(self._entry_at(start), count * ENTRY.size)

    def give_up(self) -> File | None:
        """Let go of the file, whose messages have expired; None when it is not held. The caller deletes it."""
        held = self._held
        self.close()
        return held

    def close(self) -> None:
        """Let go of the file for good."""
        self.is_closed = True
        self._held = self._mapped = self._reopen = None
