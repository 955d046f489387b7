"""The index of a store directory, read without a broker.

A file's size alone, 40 + 4 × slots + 20 × entries, does not tell how many there are of each. So they may be given; otherwise
Apache's defaults count where they fit, then one slot to four entries as in those, then whatever the content bears out.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from typing import NamedTuple

from skyrocket.store.config import StoreConfig
from skyrocket.store.errors import StoreFormatError, store_error
from skyrocket.store.files import File, Files
from skyrocket.store.index.index import hash_key
from skyrocket.store.index.index_file import ENTRY, HEADER, SLOT, IndexFile, index_bytes

_NAME_DIGITS = 17  # yyyyMMddHHmmssSSS
_ENTRIES_A_SLOT = 4  # in Apache's defaults
_NUMBERS_A_SLOT = 1 + _ENTRIES_A_SLOT * ENTRY.size // SLOT.size  # of 4 bytes
_OFFSET = struct.Struct(">q")
_OFFSET_AT = 4  # in an entry
_EVER = 2**63 - 1


class IndexSizes(NamedTuple):
    slots: int
    entries: int


_DEFAULTS = IndexSizes(StoreConfig().index_slots, StoreConfig().index_entries)


class OpenIndex(NamedTuple):
    """One file of the index, and its bytes."""

    file: IndexFile
    sizes: IndexSizes
    view: memoryview


class OfflineIndex:
    def __init__(self, files: Files, directory: str, sizes: IndexSizes | None = None) -> None:
        self._files = files
        self._directory = directory
        self._sizes = sizes

    def names(self) -> list[str]:
        return [name for name in self._files.names(self._directory) if len(name) == _NAME_DIGITS and name.isdigit()]

    def open(self, name: str) -> OpenIndex | None:
        """One file of the index; None when it has expired meanwhile, or is being made."""
        path = f"{self._directory}/{name}"
        try:
            file = self._files.open(path, writable=False)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise store_error(f"reading {path}", error) from error
        if not file.size:
            return None
        sizes = self._sizes or infer_index_sizes(path, file)
        return OpenIndex(IndexFile(path, file, *sizes, writable=False), sizes, file.view())

    def find(self, topic: str, key: str, begin_ms: int, end_ms: int) -> Iterator[int]:
        """Physical offsets of messages that may carry the key and may be of this time, newest first."""
        hashed = hash_key(topic, key)
        names = self.names()
        for name in reversed(names):
            opened = self.open(name)
            if opened is None:
                continue
            file = opened.file
            if file.is_empty:  # as its header says, which a running broker may have written long ago or never
                yield from file.find(hashed, 0, _EVER, live=True)
            elif name == names[-1] or file.overlaps(begin_ms, end_ms):
                yield from file.find(hashed, begin_ms, end_ms, live=True)
            file.close()


def infer_index_sizes(path: str, file: File) -> IndexSizes:
    """How many slots and entries a file has, from its size and content."""
    if file.size == index_bytes(*_DEFAULTS):
        return _DEFAULTS
    view = file.view()
    numbers, rest = divmod(file.size - HEADER.size, SLOT.size)  # slots + 5 × entries
    if rest == 0 and numbers > 0:
        for slots in _candidates(view, numbers):
            entries, rest = divmod(numbers - slots, ENTRY.size // SLOT.size)
            if rest == 0 and slots > 0 and entries > 1 and _sizes_fit(view, slots, entries):
                return IndexSizes(slots, entries)
        usual, rest = divmod(numbers, _NUMBERS_A_SLOT)
        if rest == 0:
            return IndexSizes(usual, usual * _ENTRIES_A_SLOT)  # what does not fit is its content
    raise StoreFormatError(f"{path} has {file.size} bytes, and they do not tell how many slots and entries: give both.")


def _candidates(view: memoryview, numbers: int) -> Iterator[int]:
    """Numbers of slots to try: the usual ratio, then each place where the newest entry seems to lie."""
    yield numbers // _NUMBERS_A_SLOT
    first_offset, last_offset, count = _read_header(view)
    for number, offset in ((count - 1, last_offset), (1, first_offset)):
        if offset > 0:  # zeros are everywhere
            for match in re.finditer(re.escape(_OFFSET.pack(offset)), view):
                yield (match.start() - _OFFSET_AT - number * ENTRY.size - HEADER.size) // SLOT.size


def _read_header(view: memoryview) -> tuple[int, int, int]:
    _, _, first_offset, last_offset, _, count = HEADER.unpack_from(view)
    return first_offset, last_offset, count


def _sizes_fit(view: memoryview, slots: int, entries: int) -> bool:
    """Whether the header's first and last entry lie where they would, and the last one's slot points at it."""
    first_offset, last_offset, count = _read_header(view)
    if count <= 1:
        return True  # nothing in it: it does not matter
    if count > entries:
        return False
    entries_at = HEADER.size + slots * SLOT.size
    _, first_found, _, _ = ENTRY.unpack_from(view, entries_at + ENTRY.size)
    hashed, last_found, _, _ = ENTRY.unpack_from(view, entries_at + (count - 1) * ENTRY.size)
    if hashed < 0:
        return False
    (newest,) = SLOT.unpack_from(view, HEADER.size + hashed % slots * SLOT.size)
    return bool(first_found == first_offset and last_found == last_offset and newest >= count - 1)
