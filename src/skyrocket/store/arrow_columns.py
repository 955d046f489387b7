"""The columns of a scan: each a function from rows to an Arrow array.

Texts and bodies are ranges of the mapped file. `ranges` makes one Arrow array of all ranges and of the gaps between them, without
a copy, and takes the ranges out of it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from skyrocket.compiled import twin
from skyrocket.protocol.errors import RecordError
from skyrocket.protocol.hosts import V4_BYTES, V6_BYTES, host_text
from skyrocket.protocol.message_id import encode_offset_id
from skyrocket.protocol.properties import KEY_SEPARATOR, KEYS, NAME_END, TAGS, UNIQUE_KEY, VALUE_END
from skyrocket.protocol.sysflag import BORN_HOST_V6, STORE_HOST_V6
from skyrocket.store.arrow_rows import Bools, Bytes, Ints, Rows, window

Array = Any  # pyarrow has no types
_NAME_END = ord(NAME_END)
_VALUE_END = ord(VALUE_END)
_KEY_SEPARATOR = ord(KEY_SEPARATOR)


def ranges(data: Bytes, starts: Ints, ends: Ints, kind: Array, missing: Bools | None = None) -> Array:
    """The bytes of each range as an Arrow array, null where one is missing. Ranges are in order and apart."""
    count = len(starts)
    if not count:
        return pa.array([], kind)
    base = int(starts[0])
    offsets = np.empty(2 * count + 1, np.int32)
    offsets[0:-1:2] = starts - base
    offsets[1::2] = ends - base
    offsets[-1] = offsets[-2]
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data[base : int(ends[-1])])]
    return pa.Array.from_buffers(kind, 2 * count, buffers).take(pa.array(np.arange(0, 2 * count, 2), mask=missing))


def _property_ranges(data: Bytes, starts: Ints, ends: Ints, names: tuple[bytes, ...]) -> bytes:
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


property_ranges = twin("rows", _property_ranges)


class Properties:
    """All properties of all rows, one after another: which row each is of, its name and its value."""

    def __init__(self, rows: Rows) -> None:
        self.row_count = len(rows)
        packed = as_utf8(ranges(rows.data, rows.properties, rows.end, pa.binary()))
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
        return ranges(self._content, self._start, self._separator, pa.string()).dictionary_encode()

    @cached_property
    def _values(self) -> Array:
        return ranges(self._content, self._separator + 1, self._end, pa.string())

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


class Columns:
    """What several columns share is made once, and only if one of them is asked for."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows

    @cached_property
    def properties(self) -> Properties:
        return Properties(self.rows)

    @cached_property
    def _named(self) -> dict[str, Array]:
        """The properties that columns are made of, without the others. Not compiled, to split all of them at once is quicker."""
        if property_ranges is _property_ranges:
            return {name: self.properties.of(name) for name in (UNIQUE_KEY, TAGS, KEYS)}
        rows, names = self.rows, (UNIQUE_KEY, TAGS, KEYS)
        packed = property_ranges(rows.data, rows.properties, rows.end, tuple(map(str.encode, names)))
        found = np.frombuffer(packed, np.int64).reshape(len(names), 2, len(rows))
        return {name: self._values(*places) for name, places in zip(names, found, strict=True)}

    def _values(self, starts: Ints, ends: Ints) -> Array:
        missing = starts < 0
        if missing.any():  # nothing, at the start of the row's properties
            starts, ends = np.where(missing, self.rows.properties, starts), np.where(missing, self.rows.properties, ends)
        return as_utf8(ranges(self.rows.data, starts, ends, pa.binary(), missing))

    def topic(self) -> Array:
        return ranges(self.rows.data, self.rows.topic, self.rows.topic_end, pa.string())

    def body(self) -> Array:
        return ranges(self.rows.data, self.rows.body, self.rows.body_end, pa.binary())

    def born_host(self) -> Array:
        """Few differ: each is made into text once."""
        rows = self.rows
        is_v6 = (rows.sys_flag & BORN_HOST_V6) != 0
        texts: list[str | None] = []
        which = np.zeros(len(rows), np.int64)
        for width, at in ((V4_BYTES, np.flatnonzero(~is_v6)), (V6_BYTES, np.flatnonzero(is_v6))):
            if len(at):
                hosts = window(rows.data, rows.born_host[at], width)
                as_sorted = hosts.view(np.uint64) if width == V4_BYTES else hosts  # numbers are compared far quicker
                _, first, inverse = np.unique(as_sorted, return_index=True, return_inverse=True)
                which[at] = inverse + len(texts)
                texts += [_host_text(host.tobytes()) for host in hosts[first]]
        return pa.array(texts, pa.string()).take(pa.array(which))

    def message_id(self) -> Array:
        """The unique key; the offset id where a message has none."""
        unique = self._named[UNIQUE_KEY]
        if not unique.null_count:
            return unique
        rows = self.rows
        ids = unique.to_pylist()
        for row in np.flatnonzero(unique.is_null().to_numpy(zero_copy_only=False)).tolist():
            width = V6_BYTES if rows.sys_flag[row] & STORE_HOST_V6 else V4_BYTES
            at = int(rows.store_host[row])
            ids[row] = encode_offset_id(rows.data[at : at + width].tobytes(), int(rows.physical_offset[row]))
        return pa.array(ids, pa.string())

    def tags(self) -> Array:
        return self._named[TAGS]

    def keys(self) -> Array:
        """KEYS at its blanks; an empty list where there are none."""
        joined = self._named[KEYS]
        content = joined.buffers()[2]
        offsets = np.frombuffer(joined.buffers()[1], np.int32)[: len(joined) + 1].astype(np.int64)
        counts = np.zeros(len(joined) + 1, np.int32)
        if content is None or not offsets[-1]:
            return pa.ListArray.from_arrays(pa.array(counts), pa.array([], pa.string()))
        data = np.frombuffer(content, np.uint8)[: offsets[-1]]
        is_key = data != _KEY_SEPARATOR
        if is_key.all() and not joined.null_count and (np.diff(offsets) > 0).all():  # one key each
            return pa.ListArray.from_arrays(pa.array(np.arange(len(joined) + 1, dtype=np.int32)), joined)
        is_start, is_end = is_key.copy(), is_key.copy()
        is_start[1:] &= ~is_key[:-1]
        is_end[:-1] &= ~is_key[1:]
        filled = offsets[:-1] < offsets[1:]
        is_start[offsets[:-1][filled]] = is_key[offsets[:-1][filled]]  # a key ends where its row does
        is_end[offsets[1:][filled] - 1] = is_key[offsets[1:][filled] - 1]
        starts, ends = np.flatnonzero(is_start), np.flatnonzero(is_end) + 1
        counts[1:] = np.searchsorted(starts, offsets[1:])
        return pa.ListArray.from_arrays(pa.array(counts), ranges(data, starts, ends, pa.string()))


class Column(NamedTuple):
    kind: Array
    make: Callable[[Columns], Array]


COLUMNS: Final[dict[str, Column]] = {
    "topic": Column(pa.string(), Columns.topic),
    "queueId": Column(pa.int32(), lambda columns: pa.array(columns.rows.queue_id)),
    "queueOffset": Column(pa.int64(), lambda columns: pa.array(columns.rows.queue_offset)),
    "physicalOffset": Column(pa.int64(), lambda columns: pa.array(columns.rows.physical_offset)),
    "storeTimestamp": Column(pa.int64(), lambda columns: pa.array(columns.rows.store_timestamp)),
    "bornTimestamp": Column(pa.int64(), lambda columns: pa.array(columns.rows.born_timestamp)),
    "bornHost": Column(pa.string(), Columns.born_host),
    "reconsumeTimes": Column(pa.int32(), lambda columns: pa.array(columns.rows.reconsume_times)),
    "sysFlag": Column(pa.int32(), lambda columns: pa.array(columns.rows.sys_flag)),
    "body": Column(pa.binary(), Columns.body),
    "msgId": Column(pa.string(), Columns.message_id),
    "tags": Column(pa.string(), Columns.tags),
    "keys": Column(pa.list_(pa.string()), Columns.keys),
    "properties": Column(pa.map_(pa.string(), pa.string()), lambda columns: columns.properties.maps()),
}
FAST_COLUMNS: Final = tuple(COLUMNS)[:10]
"""Those that need no property: the default."""

ALL_COLUMNS: Final = tuple(COLUMNS)


def as_utf8(packed: Array) -> Array:
    """Bytes that are not UTF-8 become the replacement character, as Java reads them."""
    try:
        return packed.cast(pa.string())
    except pa.ArrowInvalid:
        texts = [None if each is None else str(each, "utf-8", "replace") for each in packed.to_pylist()]
        return pa.array(texts, pa.string())


def _host_text(host: bytes) -> str | None:
    try:
        return host_text(host)
    except RecordError:
        return None  # a port that is none
