"""Verify the index of a store directory: each file in itself, and its entries against the commit log."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from skyrocket.protocol.message.properties import TAGS
from skyrocket.store.errors import StoreFormatError
from skyrocket.store.index.index import hash_key
from skyrocket.store.index.index_file import ENTRY, HEADER, SLOT, IndexEntry
from skyrocket.store.log.scan import FoundRecord
from skyrocket.store.message import TAG_MARK, index_keys
from skyrocket.store.offline.offline_index import OpenIndex
from skyrocket.store.offline.offline_store import OfflineStore, properties_of

_INT32_MAX = 2**31 - 1


class Finding(NamedTuple):
    """One thing that is wrong with a store directory."""

    path: str  # of the file, within the store
    offset: int  # in the file
    problem: str  # one sentence

    def __str__(self) -> str:
        return f"{self.path} at {self.offset}: {self.problem}"


def verify_index(
    store: OfflineStore,
    log_end: int,
    is_damaged: Callable[[int], bool],
    count: Callable[[int], None],
    only: Sequence[str] | None = None,
) -> Iterator[Finding]:
    """Yield the findings of all index files, or of those that `only` names.

    The log was read up to `log_end`; `count` is called with numbers of verified entries.

    Keys of damaged messages are no findings of their own: `verify` reports the damage itself.
    """
    names = store.index.names()
    for name in names if only is None else only:
        path = f"index/{name}"
        try:
            opened = store.index.open(name)
        except StoreFormatError as error:
            yield Finding(path, 0, str(error))
            continue
        if opened is None:
            continue
        # The header of a file that became full is written with the next checkpoint.
        is_growing = store.is_open and (name == names[-1] or opened.file.room > 0)
        checked = _IndexFileCheck(store, path, opened, is_growing, log_end, is_damaged)
        yield from checked.findings()
        count(opened.file.next_entry - 1)
        opened.file.close()


class _IndexFileCheck:
    def __init__(
        self,
        store: OfflineStore,
        path: str,
        opened: OpenIndex,
        is_growing: bool,
        log_end: int,
        is_damaged: Callable[[int], bool],
    ) -> None:
        self._store = store
        self._path = path
        self._file, self._sizes, self._view = opened
        self._entries_at = HEADER.size + self._sizes.slots * SLOT.size
        self._is_growing = is_growing
        self._log_end = log_end
        self._is_damaged = is_damaged
        self._newest = array("i", bytes(SLOT.size * self._sizes.slots))  # newest entry of each slot, by the entries
        self._slots_used = 0

    def findings(self) -> Iterator[Finding]:
        yield from self._check_header()
        last_offset = -1
        for number, entry in enumerate(self._file.entries(), start=1):
            yield from self._check_chain(number, entry)
            if entry.physical_offset < last_offset:
                yield self._at(number, f"Entry {number} is of a message at {entry.physical_offset}, behind one at {last_offset}.")
            last_offset = entry.physical_offset
            yield from self._check_log(number, entry)
        yield from self._check_slots()

    def _at(self, number: int, problem: str) -> Finding:
        return Finding(self._path, self._entries_at + number * ENTRY.size, problem)

    def _check_header(self) -> Iterator[Finding]:
        first_time, last_time, first_offset, last_offset, _, count = HEADER.unpack_from(self._view)
        if not 0 <= count <= self._sizes.entries:
            yield Finding(
                self._path, 36, f"The header says that the next entry is {count}; there is room for {self._sizes.entries}."
            )
            return
        if count <= 1 or self._is_growing:
            return
        first = IndexEntry(*ENTRY.unpack_from(self._view, self._entries_at + ENTRY.size))
        last = IndexEntry(*ENTRY.unpack_from(self._view, self._entries_at + (count - 1) * ENTRY.size))
        if first_time > last_time:
            yield Finding(
                self._path, 0, f"The header says that the first message was stored at {first_time}, the last at {last_time}."
            )
        if first.physical_offset != first_offset:
            yield Finding(
                self._path, 16, f"The header's first message is at {first_offset}, the first entry's at {first.physical_offset}."
            )
        if last.physical_offset != last_offset:
            yield Finding(
                self._path, 24, f"The header's last message is at {last_offset}, the last entry's at {last.physical_offset}."
            )

    def _check_chain(self, number: int, entry: IndexEntry) -> Iterator[Finding]:
        """Check that an entry points at the previous entry of its slot."""
        if entry.key_hash < 0:
            yield self._at(number, f"Entry {number} has the hash {entry.key_hash}, which none has.")
            return
        slot = entry.key_hash % self._sizes.slots
        before = self._newest[slot]
        if entry.before != before:
            yield self._at(
                number, f"Entry {number} names entry {entry.before} as the one before it in its slot; that is {before}."
            )
        self._slots_used += before == 0
        self._newest[slot] = number

    def _check_log(self, number: int, entry: IndexEntry) -> Iterator[Finding]:
        offset = entry.physical_offset
        if offset < self._store.log.start or self._is_damaged(offset) or (self._store.is_open and offset >= self._log_end):
            return
        found = self._store.log.record_at(offset, check=False) if offset < self._log_end else None
        if found is None:
            self._store.log.refresh()
            if offset >= self._store.log.start:  # it has not expired in the meantime
                yield self._at(number, f"Entry {number} names a message at {offset} of the log, where none lies.")
            return
        if entry.key_hash not in _hashes(found):
            yield self._at(number, f"Entry {number} has the hash {entry.key_hash}; no key of the message at {offset} has it.")
        seconds = (found.record.store_timestamp - self._file.first_timestamp) // 1000
        if 0 <= seconds <= _INT32_MAX and seconds != entry.seconds:
            yield self._at(number, f"Entry {number} says {entry.seconds} s after the first message; the log says {seconds} s.")

    def _check_slots(self) -> Iterator[Finding]:
        table = self._view[HEADER.size : self._entries_at]
        for slot, ((found,), newest) in enumerate(zip(SLOT.iter_unpack(table), self._newest, strict=True)):
            if found != newest and not (self._is_growing and found >= self._file.next_entry):
                where = HEADER.size + slot * SLOT.size
                yield Finding(
                    self._path, where, f"Slot {slot} points at entry {found}; the newest that belongs there is {newest}."
                )
        used = HEADER.unpack_from(self._view)[4]
        if used != self._slots_used and not self._is_growing:
            yield Finding(self._path, 32, f"The header says that {used} slots are in use; entries are in {self._slots_used}.")


def _hashes(found: FoundRecord) -> set[int]:
    """Return the hashes under which the index may list a message."""
    topic = found.record.topic
    properties = properties_of(found.record)
    keys = index_keys(properties)
    return {hash_key(topic, key) for key in (*keys, f"{TAG_MARK}{properties.get(TAGS, '')}")}
