"""Rows of records (`columnar/rows`) as record batches of the source's columns, in the types that Spark takes.

`columnar/columns` makes most columns. Here are those that it does not have (the broker's name, times of day) or that a user
wants in another shape: bodies unpacked, and a topic under the user's name, which is the same for all rows of a queue.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from skyrocket.columnar.columns import COLUMNS as STORED
from skyrocket.columnar.columns import ColumnBuilder
from skyrocket.columnar.ranges import Bools, Ints
from skyrocket.columnar.rows import ChecksumScope, RecordRows
from skyrocket.protocol.errors import CompressionError
from skyrocket.protocol.message.compression import decompress
from skyrocket.protocol.sysflag import COMPRESSED
from skyrocket.spark.columns import COLUMNS, arrow_schema

_JAVA_INT: Final = 0x7FFF_FFFF  # a body's CRC is kept without its top bit
_MS_MOST: Final = (2**63 - 1) // 1000  # what still has microseconds


class BatchMaker:
    """`topic` and `broker` are those of every row, where they are given; otherwise a row's own topic, and no broker."""

    def __init__(self, columns: Sequence[str], *, topic: str | None = None, broker: str | None = None) -> None:
        self.schema = arrow_schema(columns)
        constants = {"topic": topic, "broker": broker}
        self._makers = [_maker(name, constants.get(name)) for name in columns]

    def batch(self, rows: RecordRows) -> Any:
        made = ColumnBuilder(rows)
        return pa.RecordBatch.from_arrays([make(made) for make in self._makers], schema=self.schema)


def _maker(name: str, constant: str | None) -> Callable[[ColumnBuilder], Any]:
    kind = COLUMNS[name].arrow
    if constant is not None:
        return _Constant(pa.scalar(constant, kind))
    if name in _MAKERS:
        return _MAKERS[name]
    return STORED[name].make


class _Constant:
    """The same in every row. Batches have about as many rows, so what was made for one serves the next."""

    def __init__(self, value: Any) -> None:
        self._value = value
        self._made = pa.repeat(value, 0)

    def __call__(self, columns: ColumnBuilder) -> Any:
        count = len(columns.rows)
        if len(self._made) < count:
            self._made = pa.repeat(self._value, count)
        return self._made.slice(0, count)


def _times(ms: Ints) -> Any:
    """A producer may say any born timestamp."""
    if len(ms) and (ms.min() < -_MS_MOST or ms.max() > _MS_MOST):
        ms = np.clip(ms, -_MS_MOST, _MS_MOST)
    return pa.Array.from_buffers(COLUMNS["storeTimestamp"].arrow, len(ms), [None, pa.py_buffer(ms * 1000)])


def _bodies(columns: ColumnBuilder) -> Any:
    """An empty body stays empty even when it says it is compressed, as in Java."""
    rows = columns.rows
    packed = columns.body()
    is_compressed = _compressed(rows)
    if not is_compressed.any():
        return packed
    bodies = packed.to_pylist()
    for row in np.flatnonzero(is_compressed).tolist():
        bodies[row] = decompress(bodies[row], int(rows.sys_flag[row]))
    return pa.array(bodies, pa.binary())


def _compressed(rows: RecordRows) -> Bools:
    found: Bools = ((rows.sys_flag & COMPRESSED) != 0) & (rows.body < rows.body_end)
    return found


_MAKERS: Final[dict[str, Callable[[ColumnBuilder], Any]]] = {
    "broker": lambda columns: pa.nulls(len(columns.rows), pa.string()),
    "storeTimestamp": lambda columns: _times(columns.rows.store_timestamp),
    "bornTimestamp": lambda columns: _times(columns.rows.born_timestamp),
    "body": _bodies,
}


def with_sound_bodies(rows: RecordRows) -> Bools:
    """Whether each body is what its CRC says, which was computed with the rows."""
    assert rows.checksum_scope == ChecksumScope.BODY
    sound: Bools = (rows.sum & _JAVA_INT) == rows.crc
    return sound


def with_unpackable_bodies(rows: RecordRows) -> Bools:
    """Whether each body can be unpacked, for who was told that one cannot."""
    found = np.ones(len(rows), np.bool_)
    for row in np.flatnonzero(_compressed(rows)).tolist():
        try:
            decompress(rows.data[rows.body[row] : rows.body_end[row]].tobytes(), int(rows.sys_flag[row]))
        except CompressionError:
            found[row] = False
    return found
