"""Handles: where half messages lie that a task has staged, so that the driver can commit them or roll them back. Pure.

A handle is a row's number, its half message's place in the commit log, and its place in the queue of half messages. A task has
one for each row, so they travel as three columns of differences, compressed: three or four bytes a row.
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
    """As they travel: in Spark's commit messages, and in the ledger."""

    topic: str
    broker_name: str
    queue_id: int
    prefix: str
    count: int
    data: bytes


class Handles(NamedTuple):
    """Of the rows that one task has staged for one queue."""

    queue: Queue  # on the wire
    prefix: str  # of the rows' ids
    rows: Numbers
    physical_offsets: Numbers
    half_offsets: Numbers

    def chosen(self, which: NDArray[np.bool_]) -> Handles:
        return self._replace(
            rows=self.rows[which], physical_offsets=self.physical_offsets[which], half_offsets=self.half_offsets[which]
        )

    def packed(self) -> PackedHandles:
        columns = [np.diff(column, prepend=0) for column in (self.rows, self.physical_offsets, self.half_offsets)]
        data = zlib.compress(b"".join(column.astype(_NUMBERS).tobytes() for column in columns), _LEVEL)
        return PackedHandles(self.queue.topic, self.queue.broker_name, self.queue.queue_id, self.prefix, len(self.rows), data)


def unpacked(packed: PackedHandles) -> Handles:
    columns = np.frombuffer(zlib.decompress(packed.data), _NUMBERS).reshape(3, packed.count).cumsum(axis=1)
    queue = Queue(packed.topic, packed.broker_name, packed.queue_id)
    return Handles(queue, packed.prefix, columns[0], columns[1], columns[2])


class HandleList:
    """Handles as a task collects them: those of one queue."""

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
        """In the rows' order, which is that of their ends."""
        rows, physical, half = (
            np.frombuffer(column, np.int64) for column in (self._rows, self._physical_offsets, self._half_offsets)
        )
        order = np.argsort(rows, kind="stable")
        return Handles(queue, prefix, rows[order], physical[order], half[order])


# --- several


def count_of(handles: Iterable[Handles]) -> int:
    return sum(len(each.rows) for each in handles)


def without_rows(handles: Sequence[Handles], gone: set[tuple[str, int]]) -> list[Handles]:
    """Those whose (prefix, row) is not in `gone`."""
    return _filtered(handles, gone, keep_found=False)


def only_rows(handles: Sequence[Handles], wanted: set[tuple[str, int]]) -> list[Handles]:
    return _filtered(handles, wanted, keep_found=True)


def rows_of(handles: Iterable[Handles]) -> set[tuple[str, int]]:
    return {(each.prefix, row) for each in handles for row in each.rows.tolist()}


def without_halves(handles: Sequence[Handles], other: Sequence[Handles]) -> list[Handles]:
    """Those whose half messages are none of the other's."""
    known: dict[str, set[int]] = {}
    for each in other:
        known.setdefault(each.queue.broker_name, set()).update(each.physical_offsets.tolist())
    left = []
    for each in handles:
        gone = known.get(each.queue.broker_name, set())
        which = np.fromiter((offset not in gone for offset in each.physical_offsets.tolist()), np.bool_, len(each.rows))
        if which.any():
            left.append(each.chosen(which))
    return left


def _filtered(handles: Sequence[Handles], rows: set[tuple[str, int]], *, keep_found: bool) -> list[Handles]:
    left = []
    for each in handles:
        prefix = each.prefix
        which = np.fromiter((((prefix, row) in rows) == keep_found for row in each.rows.tolist()), np.bool_, len(each.rows))
        if which.any():
            left.append(each.chosen(which))
    return left
