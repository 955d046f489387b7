"""The index of a store directory, read without a broker.

The size of a file is 40 + 4 × slots + 20 × entries. That alone does not determine both numbers. The caller may give them.
Otherwise Apache's defaults are tried first, then one slot for every four entries as in the defaults, then the numbers that fit
the content.
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
_NUMBERS_A_SLOT = 1 + _ENTRIES_A_SLOT * ENTRY.size // SLOT.size  # 4-byte numbers
_OFFSET = struct.Struct(">q")
_OFFSET_AT = 4  # in an entry
_EVER = 2**63 - 1


class IndexSizes(NamedTuple):
    slots: int
    entries: int


_DEFAULTS = IndexSizes(StoreConfig().index_slots, StoreConfig().index_entries)


class OpenIndex(NamedTuple):
    """An index file, its sizes and its bytes."""

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
        """Open an index file; None when it has expired in the meantime, or is being created."""
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
        return OpenIndex(IndexFile(path, file, *sizes), sizes, file.view())

    def find(self, topic: str, key: str, begin_ms: int, end_ms: int) -> Iterator[int]:
        """Yield physical offsets of messages that may have the key and may be from this time range, newest first."""
        hashed = hash_key(topic, key)
        names = self.names()
        for name in reversed(names):
            opened = self.open(name)
            if opened is None:
                continue
            file = opened.file
            if file.is_empty:  # by its header, which a running broker may not have written yet
                yield from file.find(hashed, 0, _EVER, live=True)
            elif name == names[-1] or file.overlaps(begin_ms, end_ms):
                yield from file.find(hashed, begin_ms, end_ms, live=True)
            file.close()


def infer_index_sizes(path: str, file: File) -> IndexSizes:
    """Infer the numbers of slots and entries of a file from its size and content."""
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
            return IndexSizes(usual, usual * _ENTRIES_A_SLOT)  # the content does not fit: verify reports it
    raise StoreFormatError(f"{path} has {file.size} bytes, which do not determine the numbers of slots and entries: give both.")


def _candidates(view: memoryview, numbers: int) -> Iterator[int]:
    """Yield numbers of slots to try: the usual ratio, then one for each position where the newest entry may lie."""
    yield numbers // _NUMBERS_A_SLOT
    first_offset, last_offset, count = _read_header(view)
    for number, offset in ((count - 1, last_offset), (1, first_offset)):
        if offset > 0:  # zeros match everywhere
            for match in re.finditer(re.escape(_OFFSET.pack(offset)), view):
                yield (match.start() - _OFFSET_AT - number * ENTRY.size - HEADER.size) // SLOT.size


def _read_header(view: memoryview) -> tuple[int, int, int]:
    _, _, first_offset, last_offset, _, count = HEADER.unpack_from(view)
    return first_offset, last_offset, count


def _sizes_fit(view: memoryview, slots: int, entries: int) -> bool:
    """Whether the first and last entry of the header lie where these sizes put them, and a slot points at the last one."""
    first_offset, last_offset, count = _read_header(view)
    if count <= 1:
        return True  # the file is empty: any sizes fit
    if count > entries:
        return False
    entries_at = HEADER.size + slots * SLOT.size
    _, first_found, _, _ = ENTRY.unpack_from(view, entries_at + ENTRY.size)
    hashed, last_found, _, _ = ENTRY.unpack_from(view, entries_at + (count - 1) * ENTRY.size)
    if hashed < 0:
        return False
    (newest,) = SLOT.unpack_from(view, HEADER.size + hashed % slots * SLOT.size)
    return bool(first_found == first_offset and last_found == last_offset and newest >= count - 1)
