"""Blocks of checksum entries that were read lately. Readers of several queues need the same entries, one after another."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final, NamedTuple

ENTRY = struct.Struct(">II")  # end of a record in its segment, CRC; `checksums` draws it
AHEAD_ENTRIES: Final = 512  # read beyond what was asked for: a page
_BLOCKS_MAX: Final = 8

FindFirstEntry = Callable[[bytes, int, int, int], int]


class _Block(NamedTuple):
    start: int  # of the segment
    first_end: int  # of its first entry
    last_end: int
    packed: bytes


class ChecksumBlocks:
    def __init__(self, find_first_entry: FindFirstEntry) -> None:
        self._find_first_entry = find_first_entry
        self._blocks: list[_Block] = []  # the last one used is the first one

    def find(self, start: int, first_end: int, last_end: int, most: int) -> bytes | None:
        """Return the packed entries of records of a segment that end from `first_end` to `last_end`; None when no block has all.

        Return no bytes when there are more than `most`.
        """
        for number, block in enumerate(self._blocks):
            if block[0] == start and block[1] <= first_end and last_end <= block[2]:
                if number:
                    del self._blocks[number]
                    self._blocks.insert(0, block)
                packed = block[3]
                count = len(packed) // ENTRY.size
                first = self._find_first_entry(packed, count, first_end, 0)
                last = self._find_first_entry(packed, count, last_end, first)
                return packed[first * ENTRY.size : (last + 1) * ENTRY.size] if last - first < most else b""
        return None

    def add(self, start: int, packed: bytes) -> None:
        """Keep consecutive entries of a segment, and forget the block that was not used for longest."""
        if len(packed) >= ENTRY.size:
            first_end, last_end = ENTRY.unpack_from(packed)[0], ENTRY.unpack_from(packed, len(packed) - ENTRY.size)[0]
            self._blocks.insert(0, _Block(start, first_end, last_end, packed))
            del self._blocks[_BLOCKS_MAX:]

    def drop(self) -> None:
        """Forget all blocks: entries have been deleted or replaced."""
        self._blocks.clear()
