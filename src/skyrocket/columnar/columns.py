"""The columns of a scan: each is a function from rows to an Arrow array."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, lru_cache
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from skyrocket.columnar.properties import read_properties, read_property_maps
from skyrocket.columnar.ranges import Array, Ints, binary_array, find_distinct, text_array
from skyrocket.columnar.rows import RecordRows
from skyrocket.protocol.errors import RecordError
from skyrocket.protocol.hosts import V4_BYTES, V6_BYTES, host_text
from skyrocket.protocol.message.message_id import encode_offset_id
from skyrocket.protocol.message.properties import KEY_SEPARATOR, KEYS, TAGS, UNIQUE_KEY
from skyrocket.protocol.sysflag import BORN_HOST_V6, STORE_HOST_V6

_KEY_SEPARATOR = ord(KEY_SEPARATOR)


class ColumnBuilder:
    """Builds the columns of some rows. What several columns share is computed once, when it is first needed."""

    def __init__(self, rows: RecordRows) -> None:
        self.rows = rows

    @cached_property
    def _key_properties(self) -> dict[str, Array]:
        return read_properties(self.rows, (UNIQUE_KEY, TAGS, KEYS))

    def topic(self) -> Array:
        numbers, topics = self.rows.topics
        if len(topics) == 1 and topics[0].isascii():
            return _repeat_text(topics[0], len(numbers))
        return pa.array(topics, pa.binary()).cast(pa.string()).take(pa.array(numbers))

    def body(self) -> Array:
        return binary_array(self.rows.data, self.rows.body, self.rows.body_end)

    def born_host(self) -> Array:
        """Return the hosts as text. Few hosts differ, so each is formatted once."""
        rows = self.rows
        width: Ints = np.where(rows.sys_flag & BORN_HOST_V6, V6_BYTES, V4_BYTES)
        numbers, hosts = find_distinct(rows.data, rows.born_host, rows.born_host + width)
        made = [_host_text(host) for host in hosts]
        if len(made) == 1 and made[0] is not None:
            return _repeat_text(made[0].encode(), len(rows.sys_flag))
        return pa.array(made, pa.string()).take(pa.array(np.frombuffer(numbers, np.int32)))

    def message_id(self) -> Array:
        """Return the unique key of each message; the offset id of a message without one."""
        unique = self._key_properties[UNIQUE_KEY]
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
        return self._key_properties[TAGS]

    def keys(self) -> Array:
        """Split the KEYS property at its spaces; an empty list for a message without keys."""
        joined = self._key_properties[KEYS]
        content = joined.buffers()[2]
        offsets = np.frombuffer(joined.buffers()[1], np.int32)[: len(joined) + 1].astype(np.int64)
        counts = np.zeros(len(joined) + 1, np.int32)
        if content is None or not offsets[-1]:
            return pa.ListArray.from_arrays(pa.array(counts), pa.array([], pa.string()))
        data = np.frombuffer(content, np.uint8)[: offsets[-1]]
        is_key = data != _KEY_SEPARATOR
        if is_key.all() and not joined.null_count and (np.diff(offsets) > 0).all():  # each message has exactly one key
            return pa.ListArray.from_arrays(pa.array(np.arange(len(joined) + 1, dtype=np.int32)), joined)
        is_start, is_end = is_key.copy(), is_key.copy()
        is_start[1:] &= ~is_key[:-1]
        is_end[:-1] &= ~is_key[1:]
        filled = offsets[:-1] < offsets[1:]
        is_start[offsets[:-1][filled]] = is_key[offsets[:-1][filled]]  # a key ends where its row ends
        is_end[offsets[1:][filled] - 1] = is_key[offsets[1:][filled] - 1]
        starts, ends = np.flatnonzero(is_start), np.flatnonzero(is_end) + 1
        counts[1:] = np.searchsorted(starts, offsets[1:])
        return pa.ListArray.from_arrays(pa.array(counts), text_array(data, starts, ends))


class ArrowColumn(NamedTuple):
    kind: Array
    make: Callable[[ColumnBuilder], Array]


COLUMNS: Final[dict[str, ArrowColumn]] = {
    "topic": ArrowColumn(pa.string(), ColumnBuilder.topic),
    "queueId": ArrowColumn(pa.int32(), lambda columns: pa.array(columns.rows.queue_id.astype(np.int32))),
    "queueOffset": ArrowColumn(pa.int64(), lambda columns: pa.array(columns.rows.queue_offset)),
    "physicalOffset": ArrowColumn(pa.int64(), lambda columns: pa.array(columns.rows.physical_offset)),
    "storeTimestamp": ArrowColumn(pa.int64(), lambda columns: pa.array(columns.rows.store_timestamp)),
    "bornTimestamp": ArrowColumn(pa.int64(), lambda columns: pa.array(columns.rows.born_timestamp)),
    "bornHost": ArrowColumn(pa.string(), ColumnBuilder.born_host),
    "reconsumeTimes": ArrowColumn(pa.int32(), lambda columns: pa.array(columns.rows.reconsume_times.astype(np.int32))),
    "sysFlag": ArrowColumn(pa.int32(), lambda columns: pa.array(columns.rows.sys_flag.astype(np.int32))),
    "body": ArrowColumn(pa.binary(), ColumnBuilder.body),
    "msgId": ArrowColumn(pa.string(), ColumnBuilder.message_id),
    "tags": ArrowColumn(pa.string(), ColumnBuilder.tags),
    "keys": ArrowColumn(pa.list_(pa.string()), ColumnBuilder.keys),
    "properties": ArrowColumn(pa.map_(pa.string(), pa.string()), lambda columns: read_property_maps(columns.rows)),
}
FAST_COLUMNS: Final = tuple(COLUMNS)[:10]
"""The columns that need no property: the default."""

ALL_COLUMNS: Final = tuple(COLUMNS)


def _host_text(host: bytes) -> str | None:
    try:
        return host_text(host)
    except RecordError:
        return None  # the port is invalid


@lru_cache(maxsize=64)  # most batches have the same length, one topic and one host
def _repeat_text(text: bytes, count: int) -> Array:
    offsets = np.arange(count + 1, dtype=np.int32) * len(text)
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(offsets), pa.py_buffer(text * count)])
