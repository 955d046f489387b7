"""A query by key, carried out in steps: each step is short, and all of them together are bounded.

    while not query.step():
        ...                       # serve others
    query.found                   # newest first

A tag may have millions of entries in the index, and a hostile key may share its slot with as many. When the bound is reached, the
query has found what it has found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from skyrocket.protocol.message.properties import decode_properties
from skyrocket.protocol.message.record import decode_record
from skyrocket.store.cold_reads import NotInMemoryError
from skyrocket.store.index.index_file import NO_MATCH, Visit
from skyrocket.store.message import index_keys

COST_MAX = 1_000_000  # of one query; a visited index entry costs 1
COST_OF_STEP = 1_000  # two or three milliseconds
_COST_OF_RECORD = 8
_BYTES_AT_COST_1 = 16 * 1024  # a record's checksum is computed


class MessageQuery:
    def __init__(
        self,
        visited: Iterator[Visit],
        view_at: Callable[[int], memoryview | None],
        topic: str,
        key: str,
        begin_ms: int,
        end_ms: int,
        count: int,
        first_offset: int = 0,
    ) -> None:
        """`visited` yields physical offsets of candidates, newest first, and NO_MATCH for other index entries on the way.

        Where a part of the index is not in memory, it yields what to read, and goes on there.

        Messages before the physical offset `first_offset` do not count: they were deleted with their topic.
        """
        self._visited = visited
        self._view_at = view_at
        self._topic = topic
        self._key = key
        self._begin_ms = begin_ms
        self._end_ms = end_ms
        self._count = count
        self._first_offset = first_offset
        self._seen: set[int] = set()
        self._candidate: int | None = None  # to be examined; again, when its bytes were not in memory
        self.cost = 0  # so far: it grows when the query gets on
        self.found: list[memoryview] = []

    def step(self) -> bool:
        """Look at some entries. Return whether the query is done. After NotInMemoryError, the next step goes on there."""
        stop = min(self.cost + COST_OF_STEP, COST_MAX)
        self._examine_candidate()
        while self.cost < stop:
            offset = next(self._visited, None) if len(self.found) < self._count else None
            if offset is None:
                return True
            if isinstance(offset, NotInMemoryError):
                raise offset
            self.cost += 1
            if offset != NO_MATCH and offset >= self._first_offset and offset not in self._seen:
                self._seen.add(offset)
                self._candidate = offset
                self._examine_candidate()
        return self.cost >= COST_MAX

    def _examine_candidate(self) -> None:
        if self._candidate is None:
            return
        view = self._view_at(self._candidate)
        self._candidate = None
        self.cost += _COST_OF_RECORD
        if view is None:
            return
        self.cost += len(view) // _BYTES_AT_COST_1
        record = decode_record(view, check_crc=False)
        if record.topic != self._topic or not self._begin_ms <= record.store_timestamp <= self._end_ms:
            return
        if self._key in index_keys(decode_properties(str(record.properties, "utf-8", "replace"))):
            self.found.append(view)
