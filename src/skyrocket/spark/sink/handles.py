"""Handles of half messages. The driver needs one for each staged row, to commit it or roll it back. Pure.

A handle holds the row's number, and the half message's offsets in the commit log and in the queue of half messages. Tasks send
their handles as three columns of differences, compressed to three or four bytes per row.
"""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from skyrocket.client.queues import Queue

_LEVEL: Final = 1
_NUMBERS: Final = np.dtype("<i8")

Numbers = NDArray[np.int64]


class PackedHandles(msgspec.Struct, frozen=True, array_like=True):
    """Compressed handles, in Spark's commit messages and in the ledger."""

    topic: str
    broker_name: str
    queue_id: int
    prefix: str
    count: int
    data: bytes


class Handles(NamedTuple):
    """The handles of the rows that one task has staged for one queue."""

    queue: Queue  # its topic includes the namespace
    prefix: str  # the common prefix of the rows' ids
    rows: Numbers
    physical_offsets: Numbers
    half_offsets: Numbers

    def select(self, which: NDArray[np.bool_]) -> Handles:
        return self._replace(
            rows=self.rows[which], physical_offsets=self.physical_offsets[which], half_offsets=self.half_offsets[which]
        )

    def pack(self) -> PackedHandles:
        columns = [np.diff(column, prepend=0) for column in (self.rows, self.physical_offsets, self.half_offsets)]
        data = zlib.compress(b"".join(column.astype(_NUMBERS).tobytes() for column in columns), _LEVEL)
        return PackedHandles(self.queue.topic, self.queue.broker_name, self.queue.queue_id, self.prefix, len(self.rows), data)


def unpack_handles(packed: PackedHandles) -> Handles:
    columns = np.frombuffer(zlib.decompress(packed.data), _NUMBERS).reshape(3, packed.count).cumsum(axis=1)
    queue = Queue(packed.topic, packed.broker_name, packed.queue_id)
    return Handles(queue, packed.prefix, columns[0], columns[1], columns[2])


class HandleList:
    """Collects the handles of one queue in a task."""

    __slots__ = ("_half_offsets", "_physical_offsets", "_rows")

    def __init__(self) -> None:
        self._rows = array("q")
        self._physical_offsets = array("q")
        self._half_offsets = array("q")

    def add(self, row: int, physical_offset: int, half_offset: int) -> None:
        self._rows.append(row)
        self._physical_offsets.append(physical_offset)
        self._half_offsets.append(half_offset)

    def handles(self, queue: Queue, prefix: str) -> Handles:
        """Return the handles in the order of the rows. The commit ends the half messages in this order."""
        rows, physical, half = (
            np.frombuffer(column, np.int64) for column in (self._rows, self._physical_offsets, self._half_offsets)
        )
        order = np.argsort(rows, kind="stable")
        return Handles(queue, prefix, rows[order], physical[order], half[order])


# --- sequences of handles


def count_rows(handles: Iterable[Handles]) -> int:
    return sum(len(each.rows) for each in handles)


def without_rows(handles: Sequence[Handles], gone: set[tuple[str, int]]) -> list[Handles]:
    """Return the handles whose (prefix, row) is not in `gone`."""
    return _filter_rows(handles, gone, keep_found=False)


def only_rows(handles: Sequence[Handles], wanted: set[tuple[str, int]]) -> list[Handles]:
    """Return the handles whose (prefix, row) is in `wanted`."""
    return _filter_rows(handles, wanted, keep_found=True)


def rows_of(handles: Iterable[Handles]) -> set[tuple[str, int]]:
    """Return the (prefix, row) of each handle."""
    return {(each.prefix, row) for each in handles for row in each.rows.tolist()}


def without_half_messages(handles: Sequence[Handles], other: Sequence[Handles]) -> list[Handles]:
    """Return the handles whose half messages are not in `other`."""
    known: dict[str, set[int]] = {}
    for each in other:
        known.setdefault(each.queue.broker_name, set()).update(each.physical_offsets.tolist())
    left = []
    for each in handles:
        gone = known.get(each.queue.broker_name, set())
        which = np.fromiter((offset not in gone for offset in each.physical_offsets.tolist()), np.bool_, len(each.rows))
        if which.any():
            left.append(each.select(which))
    return left


def _filter_rows(handles: Sequence[Handles], rows: set[tuple[str, int]], *, keep_found: bool) -> list[Handles]:
    left = []
    for each in handles:
        prefix = each.prefix
        which = np.fromiter((((prefix, row) in rows) == keep_found for row in each.rows.tolist()), np.bool_, len(each.rows))
        if which.any():
            left.append(each.select(which))
    return left
