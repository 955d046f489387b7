"""Records of one log segment, or of pulls' answers, some thousand at once: where each of their parts lies, as numpy arrays.

The fixed fields of a record come in groups that lie together; how far apart they are depends on the two hosts:

     0             48             48+H            56+H            56+H+G         72+H+G
     +-------------+--------------+---------------+---------------+--------------+----------
     | head        | born host, H | store time, 8 | store host, G | tail, 16     | body, …        H and G are 8 or 20
     +-------------+--------------+---------------+---------------+--------------+----------

`Rows` are checked on the way as `decode_record` checks them, each length before it is used, and cut before the first bad one.
"""

from __future__ import annotations

import struct
from typing import Final

import numpy as np
import numpy.typing as npt

from skyrocket.compiled import twin
from skyrocket.protocol.hosts import V4_BYTES, V6_BYTES
from skyrocket.protocol.record import FIXED_BYTES_MIN, MAGIC, MAGIC_V2, TOPIC_BYTES_MAX_V2, topic_bytes_max
from skyrocket.protocol.sysflag import BORN_HOST_V6, STORE_HOST_V6

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]

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


def _chain(view: memoryview, at: int, stop: int, count: int) -> list[int]:
    """Where up to `count` records start, from `at` up to `stop`: as long as there is a size and a magic."""
    unpack = _SIZE_AND_MAGIC.unpack_from
    starts: list[int] = []
    add = starts.append
    length = len(view)
    last = min(stop, length - FIXED_BYTES_MIN + 1)
    while at < last and count:
        size, magic = unpack(view, at)
        if size < FIXED_BYTES_MIN or (magic != MAGIC and magic != MAGIC_V2):  # noqa: PLR1714  # twice as fast
            break
        add(at)
        at += size
        count -= 1
    if starts and at > length:
        starts.pop()
    return starts


chain = twin("rows", _chain)


def window(data: Bytes, at: Ints, width: int) -> npt.NDArray[np.void]:
    """`width` bytes from each place; the places are inside."""
    windows = np.ndarray((len(data) - width + 1,), dtype=f"V{width}", buffer=data, strides=(1,))
    return windows[at]


def leading(good: Bools) -> int:
    """How many are good before the first that is not."""
    return len(good) if good.all() else int(good.argmin())


class Rows:
    """Places are positions in the segment's bytes, or in those of the answers."""

    def __init__(self, data: Bytes, segment_start: int | None, starts: list[int]) -> None:
        """Without a segment's start, of records that came together from different places of a log: a pull's answer."""
        self.data = data
        self.start: Ints = np.array(starts, dtype=np.int64)
        head = window(data, self.start, _HEAD.itemsize).view(_HEAD)
        self.size: Ints = head["size"].astype(np.int64)
        self.magic = head["magic"].astype(np.int32)
        self.crc: Ints = head["crc"].astype(np.int64)
        self.queue_id = head["queue_id"].astype(np.int32)
        self.queue_offset: Ints = head["queue_offset"].astype(np.int64)
        self.physical_offset: Ints = head["physical_offset"].astype(np.int64)
        self.sys_flag = head["sys_flag"].astype(np.int32)
        self.born_timestamp: Ints = head["born_timestamp"].astype(np.int64)
        self.end: Ints = self.start + self.size
        self.born_host: Ints = self.start + _HEAD.itemsize
        self.store_time: Ints = self.born_host + np.where(self.sys_flag & BORN_HOST_V6, V6_BYTES, V4_BYTES)
        self.store_host: Ints = self.store_time + _STORE_TIME.itemsize
        tail: Ints = self.store_host + np.where(self.sys_flag & STORE_HOST_V6, V6_BYTES, V4_BYTES)
        self.body: Ints = tail + _TAIL.itemsize
        in_place = True if segment_start is None else self.physical_offset == self.start + segment_start
        self.cut(leading((self.body <= self.end) & in_place))
        self._read_tail(tail[: len(self)])
        self._read_lengths()

    def _read_tail(self, tail_at: Ints) -> None:
        tail = window(self.data, tail_at, _TAIL.itemsize).view(_TAIL)
        self.reconsume_times = tail["reconsume_times"].astype(np.int32)
        self.store_timestamp: Ints = window(self.data, self.store_time, 8).view(_STORE_TIME).astype(np.int64)
        body_bytes: Ints = tail["body_bytes"].astype(np.int64)
        self.body_end: Ints = self.body + body_bytes
        length_bytes = np.where(self.magic == MAGIC, 1, 2)
        self.topic: Ints = self.body_end + length_bytes
        self.cut(leading((body_bytes >= 0) & (self.topic <= self.end)))

    def _read_lengths(self) -> None:
        """Of topic and properties, which lie behind what they describe the start of."""
        topic_bytes: Ints = self.data[self.body_end].astype(np.int64)
        most = np.full(len(self), topic_bytes_max(MAGIC))
        if not (self.magic == MAGIC).all():
            is_v2 = np.flatnonzero(self.magic != MAGIC)
            topic_bytes[is_v2] = window(self.data, self.body_end[is_v2], 2).view(_INT16)
            most[is_v2] = TOPIC_BYTES_MAX_V2
        self.topic_end: Ints = self.topic + topic_bytes
        self.properties: Ints = self.topic_end + _INT16.itemsize
        self.cut(leading((topic_bytes > 0) & (topic_bytes <= most[: len(topic_bytes)]) & (self.properties <= self.end)))
        properties_bytes = window(self.data, self.topic_end, 2).view(_INT16).astype(np.int64)
        self.cut(leading((properties_bytes >= 0) & (self.properties + properties_bytes == self.end)))

    def __len__(self) -> int:
        return len(self.start)

    def cut(self, count: int) -> None:
        """Keep the first `count`."""
        if count < len(self):
            self._take(slice(0, count))

    def keep(self, chosen: Bools) -> None:
        if not chosen.all():
            self._take(chosen)

    def _take(self, which: slice | Bools) -> None:
        for name, value in vars(self).items():
            if name != "data":
                setattr(self, name, value[which])

    def has_topic(self, topic: bytes) -> Bools:
        chosen: Bools = self.topic_end - self.topic == len(topic)
        at = np.flatnonzero(chosen)
        if len(at) and topic:
            found = window(self.data, self.topic[at], len(topic)).view(np.uint8).reshape(len(at), len(topic))
            chosen[at] = (found == np.frombuffer(topic, dtype=np.uint8)).all(axis=1)
        return chosen
