"""Properties of records as Arrow arrays: single properties, or all of them as maps.

Properties are encoded as `name 0x01 value 0x02`, repeated. The last 0x02 may be missing.
"""

from __future__ import annotations

from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from skyrocket.columnar.ranges import Array, Bytes, Ints, binary_array, is_utf8, text_array, to_utf8
from skyrocket.columnar.rows import RecordRows
from skyrocket.compiled import twin
from skyrocket.protocol.message.properties import NAME_END, VALUE_END

_NAME_END: Final = ord(NAME_END)
_VALUE_END: Final = ord(VALUE_END)
PIECES_MAX: Final = 64  # properties of one row that are compared with each other


def _find_property_ranges(data: Bytes, starts: Ints, ends: Ints, names: tuple[bytes, ...]) -> bytes:
    """Return where the values of properties lie: packed int64, for each name all starts, then all ends; -1 where missing."""
    found = np.full((len(names), 2, len(starts)), -1, np.int64)
    for row, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        at = start
        for piece in data[start:end].tobytes().split(VALUE_END.encode()):
            name, separator, value = piece.partition(NAME_END.encode())
            if name and separator and value and name in names:
                value_at = at + len(name) + 1
                found[names.index(name), :, row] = value_at, value_at + len(value)
            at += len(piece) + 1
    return found.tobytes()


def _find_property_pieces(data: Bytes, starts: Ints, ends: Ints) -> tuple[bytes, bytes] | None:
    """Return where all properties of the rows lie.

    First, as packed int32, how many properties the rows before each row have. Then, as packed int64, all starts of names, all
    ends of names, all starts of values and all ends of values. Of two equal names in a row, the last value counts, at the
    position of the first. Return None when a row has more than `PIECES_MAX` properties.
    """
    counts = [0]
    found: list[tuple[int, int, int, int]] = []
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        of_row: dict[bytes, tuple[int, int, int, int]] = {}
        at = start
        for piece in data[start:end].tobytes().split(VALUE_END.encode()):
            name, separator, value = piece.partition(NAME_END.encode())
            if name and separator and value:
                of_row[name] = (at, at + len(name), at + len(name) + 1, at + len(piece))
            at += len(piece) + 1
        if len(of_row) > PIECES_MAX:
            return None
        found += of_row.values()
        counts.append(len(found))
    return np.array(counts, np.int32).tobytes(), np.array(found, np.int64).reshape(-1, 4).T.tobytes()


find_property_ranges = twin("columnar", _find_property_ranges)
find_property_pieces = twin("columnar", _find_property_pieces)


def read_properties(rows: RecordRows, names: tuple[str, ...]) -> dict[str, Array]:
    """Return these properties of each row, null where missing. Without the compiled twin, splitting all properties is faster."""
    if find_property_ranges is _find_property_ranges:
        properties = PropertyTable(rows)
        return {name: properties.of(name) for name in names}
    packed = find_property_ranges(rows.data, rows.properties, rows.end, tuple(map(str.encode, names)))
    found = np.frombuffer(packed, np.int64).reshape(len(names), 2, len(rows))
    return {name: text_array(rows.data, starts, ends) for name, (starts, ends) in zip(names, found, strict=True)}


def read_property_maps(rows: RecordRows) -> Array:
    """Return all properties of each row as maps.

    `PropertyTable` takes over when the twin is not compiled, and for names that are not UTF-8: decoded, two of them may be equal.
    """
    pieces = None if find_property_pieces is _find_property_pieces else find_property_pieces(rows.data, rows.properties, rows.end)
    if pieces is not None:
        offsets, places = pieces
        name, name_end, value, value_end = np.frombuffer(places, np.int64).reshape(4, -1)
        names = binary_array(rows.data, name, name_end)
        if is_utf8(names):
            values = text_array(rows.data, value, value_end)
            return pa.MapArray.from_arrays(pa.array(np.frombuffer(offsets, np.int32)), names.view(pa.string()), values)
    return PropertyTable(rows).maps()


class PropertyTable:
    """All properties of all rows, one after another: for each its row, its name and its value."""

    def __init__(self, rows: RecordRows) -> None:
        self.row_count = len(rows)
        packed = to_utf8(binary_array(rows.data, rows.properties, rows.end))
        if packed.buffers()[2] is None or not len(rows):
            content, offsets = np.zeros(0, np.uint8), np.zeros(len(rows) + 1, np.int64)
        else:
            content = np.frombuffer(packed.buffers()[2], np.uint8)
            offsets = np.frombuffer(packed.buffers()[1], np.int32)[: len(rows) + 1].astype(np.int64)
        self._content = content
        self._split(content, offsets)
        self._drop_doubles()

    def _split(self, content: Bytes, offsets: Ints) -> None:
        """Find the properties: name 0x01 value 0x02, repeated. Skip a piece without a name or a value."""
        row_ends = offsets[1:]
        is_open = offsets[:-1] < row_ends
        is_open[is_open] = content[row_ends[is_open] - 1] != _VALUE_END
        marks = np.flatnonzero(content[: row_ends[-1] if len(row_ends) else 0] == _VALUE_END)
        unmarked = row_ends[is_open]
        last = np.concatenate((marks, unmarked - 1))  # the last byte of each piece, including its 0x02
        end = np.concatenate((marks, unmarked))
        if len(unmarked):
            order = np.argsort(last, kind="stable")
            last, end = last[order], end[order]
        row = np.repeat(np.arange(len(row_ends)), np.diff(np.searchsorted(last, offsets)))
        start = np.empty(len(end), np.int64)
        if len(end):
            start[0] = 0
            start[1:] = np.where(row[1:] == row[:-1], last[:-1] + 1, offsets[row[1:]])
        separator = self._first_separators(content, start, end)
        sound = (separator > start) & (separator + 1 < end)
        self.row: Ints = row[sound]
        self._start, self._separator, self._end = start[sound], separator[sound], end[sound]
        self._value = np.arange(len(self.row))  # index of the piece that has the value

    @staticmethod
    def _first_separators(content: Bytes, start: Ints, end: Ints) -> Ints:
        """Return the first 0x01 of each piece, or a position behind the piece if it has none. As a rule, each has exactly one."""
        found: Ints = np.flatnonzero(content == _NAME_END)
        if len(found) == len(start) and ((found >= start) & (found < end)).all():
            return found
        behind: Ints = np.append(found, len(content))[np.searchsorted(found, start)]
        return behind

    def _drop_doubles(self) -> None:
        """Merge equal names in a row as a dict does: the last value counts, at the position of the first."""
        codes = self._names.indices.to_numpy()
        each = self.row * (len(self._names.dictionary) + 1) + codes
        _, first = np.unique(each, return_index=True)
        if len(first) == len(each):
            return
        _, from_behind = np.unique(each[::-1], return_index=True)
        order = np.argsort(first)
        kept = first[order]
        self._value = (len(each) - 1 - from_behind)[order]
        self._kept, self.row = kept, self.row[kept]

    _kept: Ints | None = None

    @cached_property
    def _names(self) -> Array:
        return text_array(self._content, self._start, self._separator).dictionary_encode()

    @cached_property
    def _values(self) -> Array:
        return text_array(self._content, self._separator + 1, self._end)

    def _name_codes(self) -> Ints:
        codes: Ints = self._names.indices.to_numpy()
        return codes if self._kept is None else codes[self._kept]

    def of(self, name: str) -> Array:
        """Return one property of each row, null where missing."""
        places = pa.array(np.zeros(self.row_count, np.int64), mask=np.ones(self.row_count, bool))
        code = self._names.dictionary.index(name).as_py()
        if code < 0:
            return self._values.take(places)
        at = np.flatnonzero(self._name_codes() == code)
        found = np.zeros(self.row_count, np.int64)
        is_missing = np.ones(self.row_count, bool)
        found[self.row[at]] = self._value[at]
        is_missing[self.row[at]] = False
        return self._values.take(pa.array(found, mask=is_missing))

    def maps(self) -> Array:
        offsets = np.zeros(self.row_count + 1, np.int32)
        np.cumsum(np.bincount(self.row, minlength=self.row_count), out=offsets[1:])
        names = self._names.dictionary.take(pa.array(self._name_codes()))
        values = self._values if self._kept is None else self._values.take(pa.array(self._value))
        return pa.MapArray.from_arrays(pa.array(offsets), names, values)
