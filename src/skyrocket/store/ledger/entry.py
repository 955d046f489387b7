"""An entry of a DLedger log: a header, and behind it one record of the commit log.

    +--------+--------+     header: 48 bytes, see `protocol/ledger_entry.py`
    | header | record |     the record's physical offset is the entry's position + 48
    +--------+--------+

A segment keeps at least 8 bytes free behind each entry. An entry that does not leave them goes to the next segment, and padding
fills the rest:

     0       4       8
     +-------+-------+------- - - -+
     | -1    | size  | zeros       |      size: up to the end of the segment
     +-------+-------+------- - - -+

A size of 0 where an entry should begin is the end of the log.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from skyrocket.protocol.ledger_entry import ENTRY_HEADER, ENTRY_HEADER_BYTES, ENTRY_MAGIC
from skyrocket.store.errors import StoreError, TooLargeError

HEADER_BYTES: Final = ENTRY_HEADER_BYTES
PADDING_MAGIC: Final = -1
PADDING: Final = struct.Struct(">ii")  # magic, size
ENTRY_BYTES_MAX: Final = 4 * 1024 * 1024  # header and record; DLedger refuses larger ones


class EntryError(StoreError):
    """Bytes that should be an entry of the ledger are none, or do not follow the last one."""


class EntryHeader(NamedTuple):
    size: int  # of header and record
    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody needs here
    term: int
    pos: int
    channel: int = 0
    chain_crc: int = 0
    body_crc: int = 0

    @property
    def end(self) -> int:
        """Where the entry ends in the log."""
        return self.pos + self.size

    @property
    def record_offset(self) -> int:
        """The physical offset of the record."""
        return self.pos + HEADER_BYTES


def check_entry_bytes(size: int) -> None:
    """Raise TooLargeError for an entry that no node of Apache's would take."""
    if size > ENTRY_BYTES_MAX:
        raise TooLargeError(f"A message of {size} bytes in a DLedger group, its header included, is over {ENTRY_BYTES_MAX}.")


def pack_header(header: EntryHeader) -> bytes:
    size, index, term, pos, channel, chain_crc, body_crc = header
    return ENTRY_HEADER.pack(ENTRY_MAGIC, size, index, term, pos, channel, chain_crc, body_crc, size - HEADER_BYTES)


def unpack_header(data: bytes | bytearray | memoryview, at: int = 0) -> EntryHeader | None:
    """Decode the header at `at`; None when the bytes there are no header."""
    if at < 0 or len(data) - at < HEADER_BYTES:
        return None
    magic, size, index, term, pos, channel, chain_crc, body_crc, body_bytes = ENTRY_HEADER.unpack_from(data, at)
    if magic != ENTRY_MAGIC or size != HEADER_BYTES + body_bytes or channel or min(body_bytes, index, term, pos) < 0:
        return None
    return EntryHeader(size, index, term, pos, channel, chain_crc, body_crc)
