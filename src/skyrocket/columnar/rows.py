"""Many records of a log segment or of pull responses: where each of their fields lies, as a table of numbers.

The fixed fields of a record form groups. The positions of the groups depend on the sizes of the two hosts:

     0             48             48+H            56+H            56+H+G         72+H+G
     +-------------+--------------+---------------+---------------+--------------+----------
     | head        | born host, H | store time, 8 | store host, G | tail, 16     | body, …        H and G are 8 or 20
     +-------------+--------------+---------------+---------------+--------------+----------

`locate_fields` checks records as `decode_record` does, each length before it is used, and stops before the first bad one.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt

from skyrocket.columnar.ranges import Bools, Bytes, Ints, find_distinct
from skyrocket.compiled import twin
from skyrocket.protocol.crc import crc32
from skyrocket.protocol.hosts import V4_BYTES, V6_BYTES
from skyrocket.protocol.message.record import FIXED_BYTES_MIN, MAGIC, MAGIC_V2, TOPIC_BYTES_MAX_V2, topic_bytes_max
from skyrocket.protocol.sysflag import BORN_HOST_V6, STORE_HOST_V6

_HEAD: Final = np.dtype(
    [
        ("size", ">i4"),
        ("magic", ">i4"),
        ("crc", ">i4"),
        ("queue_id", ">i4"),
        ("flag", ">i4"),
        ("queue_offset", ">i8"),
        ("physical_offset", ">i8"),
        ("sys_flag", ">i4"),
        ("born_timestamp", ">i8"),
    ]
)
_TAIL: Final = np.dtype([("reconsume_times", ">i4"), ("prepared_transaction_offset", ">i8"), ("body_bytes", ">i4")])
_STORE_TIME: Final = np.dtype(">i8")
_INT16: Final = np.dtype(">i2")
_SIZE_AND_MAGIC: Final = struct.Struct(">ii")
START_BYTES: Final = 8  # of one start in the result of `find_record_starts`

FIELDS: Final = (  # lines of the table; positions refer to the bytes that hold the records
    "start",
    "end",
    "magic",
    "crc",
    "queue_id",
    "queue_offset",
    "physical_offset",
    "sys_flag",
    "born_timestamp",
    "born_host",
    "store_timestamp",
    "store_host",
    "reconsume_times",
    "body",
    "body_end",
    "topic",
    "topic_end",
    "properties",  # up to the record's end
    "sum",  # the CRC-32 over what `ChecksumScope` says
)


class ChecksumScope(IntEnum):
    """What part of a record the CRC is computed of, while its bytes are in the processor's cache."""

    NOTHING = 0
    BODY = 1
    RECORD = 2


def _find_record_starts(view: memoryview, at: int, stop: int, count: int) -> tuple[bytes, int]:
    """Find where up to `count` records start, from `at` up to `stop`.

    Return the starts as packed int64, and where the last record ends. The search stops where there is no valid size and magic.
    """
    unpack = _SIZE_AND_MAGIC.unpack_from
    starts: list[int] = []
    add = starts.append
    length = len(view)
    last = min(stop, length - FIXED_BYTES_MIN + 1)
    while 0 <= at < last and count > 0:
        size, magic = unpack(view, at)
        if size < FIXED_BYTES_MIN or (magic != MAGIC and magic != MAGIC_V2):  # noqa: PLR1714  # twice as fast
            break
        add(at)
        at += size
        count -= 1
    if starts and at > length:
        at = starts.pop()
    return struct.pack(f"={len(starts)}q", *starts), at


def _compute_crcs(view: memoryview, first: Ints, last: Ints) -> bytes:
    """Return the CRC-32 of each range, as packed int64."""
    return np.array([crc32(view[a:b]) for a, b in zip(first.tolist(), last.tolist(), strict=True)], np.int64).tobytes()


def _locate_fields(data: Bytes, segment_start: int | None, starts: Ints, summed: int) -> bytes:
    """Build the table of the records that start at `starts`, line by line, packed.

    A record's physical offset must be its start plus `segment_start`. Pass None for records from several places of a log, as in a
    pull response.
    """
    if len(starts) and (starts.min() < 0 or starts.max() + FIXED_BYTES_MIN > len(data)):
        raise ValueError("a record lies outside the bytes")
    found: dict[str, Ints] = {"start": starts}
    head = window(data, starts, _HEAD.itemsize).view(_HEAD)
    found |= {name: head[name].astype(np.int64) for name in FIELDS if name in (_HEAD.names or ())}
    found["end"] = starts + head["size"]
    found["born_host"] = starts + _HEAD.itemsize
    store_time: Ints = found["born_host"] + np.where(found["sys_flag"] & BORN_HOST_V6, V6_BYTES, V4_BYTES)
    found["store_host"] = store_time + _STORE_TIME.itemsize
    tail_at: Ints = found["store_host"] + np.where(found["sys_flag"] & STORE_HOST_V6, V6_BYTES, V4_BYTES)
    found["body"] = tail_at + _TAIL.itemsize
    in_place = True if segment_start is None else found["physical_offset"] == starts + segment_start
    fits = (head["size"] >= FIXED_BYTES_MIN) & (found["end"] <= len(data)) & (found["body"] <= found["end"])
    _cut(found, count_leading(fits & in_place))
    _read_tail(data, found, tail_at, store_time)
    _read_lengths(data, found)
    found["sum"] = _compute_sums(data, found, summed)
    return b"".join([found[name].tobytes() for name in FIELDS])


def _compute_sums(data: Bytes, found: dict[str, Ints], summed: int) -> Ints:
    if summed == ChecksumScope.NOTHING:
        return np.zeros(len(found["start"]), np.int64)
    first, last = ("body", "body_end") if summed == ChecksumScope.BODY else ("start", "end")
    return np.frombuffer(_compute_crcs(data.data, found[first], found[last]), np.int64)


def _cut(found: dict[str, Ints], count: int) -> None:
    for name, values in found.items():
        found[name] = values[:count]


def _read_tail(data: Bytes, found: dict[str, Ints], tail_at: Ints, store_time: Ints) -> None:
    count = len(found["start"])
    tail = window(data, tail_at[:count], _TAIL.itemsize).view(_TAIL)
    found["reconsume_times"] = tail["reconsume_times"].astype(np.int64)
    found["store_timestamp"] = window(data, store_time[:count], 8).view(_STORE_TIME).astype(np.int64)
    body_bytes: Ints = tail["body_bytes"].astype(np.int64)
    found["body_end"] = found["body"] + body_bytes
    found["topic"] = found["body_end"] + np.where(found["magic"] == MAGIC, 1, 2)
    _cut(found, count_leading((body_bytes >= 0) & (found["topic"] <= found["end"])))


def _read_lengths(data: Bytes, found: dict[str, Ints]) -> None:
    """Read the lengths of topic and properties, and stop before the first record whose lengths do not fit."""
    topic_bytes: Ints = data[found["body_end"]].astype(np.int64)
    most = np.full(len(topic_bytes), topic_bytes_max(MAGIC))
    is_v2 = np.flatnonzero(found["magic"] != MAGIC)
    topic_bytes[is_v2] = window(data, found["body_end"][is_v2], 2).view(_INT16)
    most[is_v2] = TOPIC_BYTES_MAX_V2
    found["topic_end"] = found["topic"] + topic_bytes
    found["properties"] = found["topic_end"] + _INT16.itemsize
    _cut(found, count_leading((topic_bytes > 0) & (topic_bytes <= most) & (found["properties"] <= found["end"])))
    properties_bytes = window(data, found["topic_end"], 2).view(_INT16).astype(np.int64)
    _cut(found, count_leading((properties_bytes >= 0) & (found["properties"] + properties_bytes == found["end"])))


find_record_starts = twin("columnar", _find_record_starts)
compute_crcs = twin("columnar", _compute_crcs)
locate_fields = twin("columnar", _locate_fields)


def window(data: Bytes, at: Ints, width: int) -> npt.NDArray[np.void]:
    """Return `width` bytes from each position. All of them must lie within the data."""
    windows = np.ndarray((max(0, len(data) - width + 1),), dtype=f"V{width}", buffer=data, strides=(1,))
    return windows[at]


def count_leading(good: Bools) -> int:
    """Count the true values before the first false one."""
    return len(good) if good.all() else int(good.argmin())


class _TableLine:
    """A line of the table, as an attribute named after it."""

    def __set_name__(self, _owner: type, name: str) -> None:
        self._number = FIELDS.index(name)

    def __get__(self, rows: RecordRows, _owner: type) -> Ints:
        line: Ints = rows.table[self._number]
        return line


class RecordRows:
    def __init__(
        self, data: Bytes, segment_start: int | None, starts: Ints, summed: ChecksumScope = ChecksumScope.NOTHING
    ) -> None:
        self.data = data
        self.checksum_scope = summed
        packed = locate_fields(data, segment_start, starts, summed)
        self.table: npt.NDArray[np.int64] = np.frombuffer(packed, np.int64).reshape(len(FIELDS), -1)

    start = _TableLine()
    end = _TableLine()
    magic = _TableLine()
    crc = _TableLine()
    queue_id = _TableLine()
    queue_offset = _TableLine()
    physical_offset = _TableLine()
    sys_flag = _TableLine()
    born_timestamp = _TableLine()
    born_host = _TableLine()
    store_timestamp = _TableLine()
    store_host = _TableLine()
    reconsume_times = _TableLine()
    body = _TableLine()
    body_end = _TableLine()
    topic = _TableLine()
    topic_end = _TableLine()
    properties = _TableLine()
    sum = _TableLine()

    def __len__(self) -> int:
        return int(self.table.shape[1])

    def cut(self, count: int) -> None:
        """Keep the first `count` rows."""
        if count < len(self):
            self._hold(self.table[:, :count])

    def keep(self, chosen: Bools) -> None:
        if not chosen.all():
            self._hold(np.compress(chosen, self.table, axis=1))

    def _hold(self, table: npt.NDArray[np.int64]) -> None:
        self.table = table
        self.__dict__.pop("topics", None)

    @cached_property
    def topics(self) -> tuple[npt.NDArray[np.int32], list[bytes]]:
        """The index of each row's topic among the distinct topics, and the distinct topics."""
        numbers, topics = find_distinct(self.data, self.topic, self.topic_end)
        return np.frombuffer(numbers, np.int32), topics

    def has_topics(self, chosen: npt.NDArray[np.bool_]) -> Bools:
        """Return which rows have a chosen topic. `chosen` has one value for each distinct topic."""
        if chosen.all():
            return np.ones(len(self), np.bool_)
        found: Bools = chosen[self.topics[0]]
        return found

    def has_topic(self, topic: bytes) -> Bools:
        return self.has_topics(np.array([each == topic for each in self.topics[1]], np.bool_))
