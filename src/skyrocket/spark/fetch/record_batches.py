"""Turns rows of records (`columnar/rows`) into Arrow batches of the source's columns, in the types that Spark accepts.

`columnar/columns` makes most columns. This module makes the others: the broker's name, timestamps in Spark's unit, decompressed
bodies, and the topic without its namespace, which is constant for a queue.
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

_JAVA_INT: Final = 0x7FFF_FFFF  # a record stores its body's CRC without the top bit
_MS_MAX: Final = (2**63 - 1) // 1000  # the largest timestamp that fits in microseconds


class BatchMaker:
    """Makes batches. If given, `topic` and `broker` are the values of every row; else rows have their own topic and no broker."""

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
    """A column with one value in every row. Batches have similar sizes, so most reuse the column of an earlier batch."""

    def __init__(self, value: Any) -> None:
        self._value = value
        self._column = pa.repeat(value, 0)

    def __call__(self, columns: ColumnBuilder) -> Any:
        count = len(columns.rows)
        if len(self._column) < count:
            self._column = pa.repeat(self._value, count)
        return self._column.slice(0, count)


def _timestamps(ms: Ints) -> Any:
    """Return a column of timestamps. A producer may send any born timestamp, so values are clipped to what fits."""
    if len(ms) and (ms.min() < -_MS_MAX or ms.max() > _MS_MAX):
        ms = np.clip(ms, -_MS_MAX, _MS_MAX)
    return pa.Array.from_buffers(COLUMNS["storeTimestamp"].arrow, len(ms), [None, pa.py_buffer(ms * 1000)])


def _bodies(columns: ColumnBuilder) -> Any:
    """Return decompressed bodies. An empty body stays empty even if it is flagged as compressed, as in Apache's client."""
    rows = columns.rows
    packed = columns.body()
    is_compressed = _is_compressed(rows)
    if not is_compressed.any():
        return packed
    bodies = packed.to_pylist()
    for row in np.flatnonzero(is_compressed).tolist():
        bodies[row] = decompress(bodies[row], int(rows.sys_flag[row]))
    return pa.array(bodies, pa.binary())


def _is_compressed(rows: RecordRows) -> Bools:
    found: Bools = ((rows.sys_flag & COMPRESSED) != 0) & (rows.body < rows.body_end)
    return found


_MAKERS: Final[dict[str, Callable[[ColumnBuilder], Any]]] = {
    "broker": lambda columns: pa.nulls(len(columns.rows), pa.string()),
    "storeTimestamp": lambda columns: _timestamps(columns.rows.store_timestamp),
    "bornTimestamp": lambda columns: _timestamps(columns.rows.born_timestamp),
    "body": _bodies,
}


def has_sound_body(rows: RecordRows) -> Bools:
    """Return for each row whether its body matches its CRC. `RecordRows` has computed the sums already."""
    assert rows.checksum_scope == ChecksumScope.BODY
    sound: Bools = (rows.sum & _JAVA_INT) == rows.crc
    return sound


def has_decompressible_body(rows: RecordRows) -> Bools:
    """Return for each row whether its body can be decompressed. Needed only after a batch has failed to decompress."""
    found = np.ones(len(rows), np.bool_)
    for row in np.flatnonzero(_is_compressed(rows)).tolist():
        try:
            decompress(rows.data[rows.body[row] : rows.body_end[row]].tobytes(), int(rows.sys_flag[row]))
        except CompressionError:
            found[row] = False
    return found
