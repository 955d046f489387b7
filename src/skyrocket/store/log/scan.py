"""Scan the bytes of a log segment for records, the blank at its end, and damage. Pure functions over a view of the bytes.

Bytes count as a record only if they decode, the CRC of the body matches, and the record's physical offset is the offset where it
lies. So bytes that only look like a record, inside a body or left over from before, are not taken for one.

How records lie in a segment is their framing. In a commit log they follow each other. In the log of a DLedger group each has a
header in front (`store.ledger.entry_framing`). A `FoundRecord` is the record alone; its frame begins `header_bytes` before it,
and both end together.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from skyrocket.protocol.errors import RecordError
from skyrocket.protocol.message.record import BLANK_MAGIC, MAGIC, MAGIC_V2, Record, decode_record

_MAGICS = re.compile(b"|".join(re.escape(struct.pack(">i", magic)) for magic in (MAGIC, MAGIC_V2)))
_BLANK_MAGIC = re.compile(re.escape(struct.pack(">i", BLANK_MAGIC)))
BLANK = struct.Struct(">ii")  # size, magic; `commit_log` draws it
_SIZE_AND_MAGIC = BLANK
_ZEROS = bytes(1024 * 1024)
SECTOR_BYTES = 512  # the least that a disk writes atomically


class FoundRecord(NamedTuple):
    """A sound record. `offset` is its physical offset."""

    offset: int
    size: int
    record: Record


class Blank(NamedTuple):
    """The blank that fills a segment up to its end."""

    offset: int
    size: int


class DamagedRange(NamedTuple):
    """Bytes that are no record, with something sound behind them."""

    offset: int
    size: int


class LogEnd(NamedTuple):
    """Nothing sound follows in this segment: the end of the log, or a torn or damaged tail."""

    offset: int


LogItem = FoundRecord | Blank | DamagedRange | LogEnd


class RecordFraming:
    """How records lie in a segment of the log. This is the commit log's: one after another, and a blank at the end."""

    header_bytes: int = 0  # in front of each record

    def record_at(self, view: memoryview, segment_start: int, at: int, *, check_crc: bool = True) -> FoundRecord | None:
        """Return the record whose frame begins at `at`; None when no sound frame begins there."""
        return record_at(view, segment_start, at, check_crc=check_crc)

    def is_blank(self, view: memoryview, at: int) -> bool:
        """Whether the blank that ends a segment starts at `at`."""
        return is_blank(view, at)

    def next_sound(self, view: memoryview, segment_start: int, at: int, data_end: int | None = None) -> int | None:
        """Return the first position from `at` on where a sound frame or the blank starts; None when there is none.

        Holes follow `data_end`: reading them is of no use, and fills memory with zeros.
        """
        return next_sound(view, segment_start, at, data_end)

    def pack_blank(self, size: int) -> bytes:
        """Return how the blank begins that fills the last `size` bytes of a segment."""
        return _SIZE_AND_MAGIC.pack(size, BLANK_MAGIC)

    def frame_bytes(self, head: bytes) -> int:
        """Return how many bytes the frame has that begins with `head`; 0 when no frame begins so."""
        size, magic = _SIZE_AND_MAGIC.unpack_from(head)
        return size if magic in (MAGIC, MAGIC_V2) and size > _SIZE_AND_MAGIC.size else 0

    def place_in_log(self, frame: bytes) -> tuple[int, int] | None:  # noqa: ARG002 — a commit log has none
        """Return the number of a frame and its term; None when frames have none."""
        return None


PLAIN: Final = RecordFraming()


def walk_segment(
    view: memoryview, segment_start: int, at: int = 0, *, check_crc: bool = True, framing: RecordFraming = PLAIN
) -> Iterator[LogItem]:
    """Yield what lies in a segment from `at` on. The last item is a Blank or a LogEnd, unless the segment ends with a record."""
    while at < len(view):
        item = item_at(view, segment_start, at, check_crc=check_crc, framing=framing)
        yield item
        if isinstance(item, LogEnd | Blank):
            return
        at = item.offset + item.size - segment_start


def item_at(
    view: memoryview,
    segment_start: int,
    at: int,
    *,
    check_crc: bool = True,
    framing: RecordFraming = PLAIN,
    data_end: int | None = None,
) -> LogItem:
    """Return what lies at `at` in a segment. A record's frame begins there. Holes follow `data_end`."""
    found = framing.record_at(view, segment_start, at, check_crc=check_crc)
    if found is not None:
        return found
    if framing.is_blank(view, at):
        return Blank(segment_start + at, len(view) - at)
    following = framing.next_sound(view, segment_start, at + 1, data_end)
    return LogEnd(segment_start + at) if following is None else DamagedRange(segment_start + at, following - at)


def record_at(view: memoryview, segment_start: int, at: int, *, check_crc: bool = True) -> FoundRecord | None:
    """Decode the record at `at`; None when no sound record starts there."""
    if len(view) - at < _SIZE_AND_MAGIC.size:
        return None
    size, magic = _SIZE_AND_MAGIC.unpack_from(view, at)
    if magic not in (MAGIC, MAGIC_V2):
        return None
    try:
        record = decode_record(view, at, check_crc=check_crc)
    except RecordError:
        return None
    if record.physical_offset != segment_start + at:
        return None
    return FoundRecord(segment_start + at, size, record)


def looks_torn(view: memoryview, at: int, size: int, record: Record) -> bool:
    """Whether a power failure left zeros in the topic or the properties, which the body's CRC does not cover.

    Sound properties end with a separator or the last letter of a value, and never contain a whole sector of zeros.
    """
    if "\0" in record.topic:
        return True
    if not record.properties:
        return False
    end = at + size
    properties_at = end - len(record.properties)
    if not view[end - 1]:
        return True
    first_sector = properties_at + -properties_at % SECTOR_BYTES
    return any(not any(view[sector : min(sector + SECTOR_BYTES, end)]) for sector in range(first_sector, end, SECTOR_BYTES))


def is_blank(view: memoryview, at: int) -> bool:
    """Whether the blank that ends a segment starts at `at`."""
    if len(view) - at < _SIZE_AND_MAGIC.size:
        return False
    size, magic = _SIZE_AND_MAGIC.unpack_from(view, at)
    return bool(magic == BLANK_MAGIC and size == len(view) - at)


def next_sound(view: memoryview, segment_start: int, at: int, data_end: int | None = None) -> int | None:
    """Return the first position from `at` on where a sound record or the blank starts; None when there is none."""
    stop = last_byte_set(view[:data_end], at)  # the last segment is mostly zeros: skip them quickly
    places = (match.start() - 4 for match in _BLANK_MAGIC.finditer(view, at + 4, stop))
    blank = next((place for place in places if is_blank(view, place)), None)
    for match in _MAGICS.finditer(view, at + 4, stop if blank is None else blank):
        if record_at(view, segment_start, match.start() - 4) is not None:
            return match.start() - 4
    return blank


def last_byte_set(view: memoryview, at: int) -> int:
    """Return the position behind the last byte that is not zero; `at` when all bytes from `at` on are zero."""
    stop = len(view)
    while stop > at:
        start = max(at, stop - len(_ZEROS))
        chunk = bytes(view[start:stop])
        if chunk != _ZEROS[: stop - start]:
            return start + len(chunk.rstrip(b"\0"))
        stop = start
    return at
