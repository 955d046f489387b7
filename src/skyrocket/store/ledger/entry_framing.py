"""The framing of a DLedger log: each record has the header of its entry in front, and padding ends a segment."""

from __future__ import annotations

import re
import struct
from typing import Final

from skyrocket.protocol.message.record import MAGIC, MAGIC_V2
from skyrocket.store.ledger.entry import HEADER_BYTES, PADDING, PADDING_MAGIC, unpack_header
from skyrocket.store.log.scan import FoundRecord, RecordFraming, last_byte_set, record_at

_MAGICS: Final = re.compile(b"|".join(re.escape(struct.pack(">i", magic)) for magic in (MAGIC, MAGIC_V2)))
_PADDING_MAGIC: Final = re.compile(re.escape(struct.pack(">i", PADDING_MAGIC)))
_MAGIC_AT: Final = 4  # in a record


class EntryFraming(RecordFraming):
    """A frame is sound if its header fits the place, and the record behind it is sound and has the size that the header says."""

    header_bytes = HEADER_BYTES

    def record_at(self, view: memoryview, segment_start: int, at: int, *, check_crc: bool = True) -> FoundRecord | None:
        header = unpack_header(view, at)
        if header is None or header.pos != segment_start + at or at + header.size > len(view):
            return None
        found = record_at(view, segment_start, at + HEADER_BYTES, check_crc=check_crc)
        return found if found is not None and found.size == header.size - HEADER_BYTES else None

    def is_blank(self, view: memoryview, at: int) -> bool:
        if len(view) - at < PADDING.size:
            return False
        return bool(PADDING.unpack_from(view, at) == (PADDING_MAGIC, len(view) - at))

    def next_sound(self, view: memoryview, segment_start: int, at: int, data_end: int | None = None) -> int | None:
        stop = last_byte_set(view[:data_end], at)  # the last segment is mostly zeros: skip them quickly
        places = (match.start() for match in _PADDING_MAGIC.finditer(view, at, stop))
        blank = next((place for place in places if self.is_blank(view, place)), None)
        first = at + HEADER_BYTES + _MAGIC_AT
        for match in _MAGICS.finditer(view, first, stop if blank is None else blank):
            place = match.start() - _MAGIC_AT - HEADER_BYTES
            if self.record_at(view, segment_start, place) is not None:
                return place
        return blank

    def pack_blank(self, size: int) -> bytes:
        return PADDING.pack(PADDING_MAGIC, size)

    def frame_bytes(self, head: bytes) -> int:
        header = unpack_header(head)
        return 0 if header is None else header.size

    def place_in_log(self, frame: bytes) -> tuple[int, int] | None:
        header = unpack_header(frame)
        return None if header is None else (header.index, header.term)


FRAMED: Final = EntryFraming()
