"""Properties of records: text, `name 0x01 value 0x02` over and over. Some of them, or all as maps."""

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
PIECES_MAX: Final = 64  # properties of a row that are compared with each other one by one


def _find_property_ranges(data: Bytes, starts: Ints, ends: Ints, names: tuple[bytes, ...]) -> bytes:
    """Where the values of some properties lie: packed int64, for each name all starts, then all ends; -1 where a row has none."""
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
    """Where all properties lie. First how many the rows before each have, as packed int32; then, as packed int64, where all names
    start, where they end, where all values start and where they end. Of two equal names in a row the value of the last counts, in
    the place of the first. None when a row has more than `PIECES_MAX`."""
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
    """These properties of each row, null where it has none. Not compiled, to split all of them at once is quicker."""
    if find_property_ranges is _find_property_ranges:
        properties = PropertyTable(rows)
        return {name: properties.of(name) for name in names}
    packed = find_property_ranges(rows.data, rows.properties, rows.end, tuple(map(str.encode, names)))
    found = np.frombuffer(packed, np.int64).reshape(len(names), 2, len(rows))
    return {name: text_array(rows.data, starts, ends) for name, (starts, ends) in zip(names, found, strict=True)}


def read_property_maps(rows: RecordRows) -> Array:
    """All of them. Names that are not UTF-8 may become equal, and are for `PropertyTable`, as is what has not been compiled."""
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
    """All properties of all rows, one after another: which row each is of, its name and its value."""

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
        """Name 0x01 value 0x02, over and over; the last 0x02 may be missing. A piece without name or value is passed over."""
        row_ends = offsets[1:]
        is_open = offsets[:-1] < row_ends
        is_open[is_open] = content[row_ends[is_open] - 1] != _VALUE_END
        marks = np.flatnonzero(content[: row_ends[-1] if len(row_ends) else 0] == _VALUE_END)
        unmarked = row_ends[is_open]
        last = np.concatenate((marks, unmarked - 1))  # the last byte of each piece, its mark included
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
        self._value = np.arange(len(self.row))  # which piece's value each has

    @staticmethod
    def _first_separators(content: Bytes, start: Ints, end: Ints) -> Ints:
        """The first 0x01 of each piece, or one behind it where it has none. As a rule, each has exactly one."""
        found: Ints = np.flatnonzero(content == _NAME_END)
        if len(found) == len(start) and ((found >= start) & (found < end)).all():
            return found
        behind: Ints = np.append(found, len(content))[np.searchsorted(found, start)]
        return behind

    def _drop_doubles(self) -> None:
        """Of two equal names in a row the value of the last counts, in the place of the first: as in a dict."""
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
        """One property of each row, null where a row has none."""
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
