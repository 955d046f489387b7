"""Find the records in the log of a DLedger group, where the header of an entry lies in front of each."""

from __future__ import annotations

import struct
from typing import Final

from skyrocket.protocol.ledger_entry import ENTRY_MAGIC
from skyrocket.protocol.message.record import FIXED_BYTES_MIN, MAGIC, MAGIC_V2
from skyrocket.store.ledger.entry import HEADER_BYTES

# Of an entry: magic and size, both sizes of the record, and the record's magic.
_ENTRY_HEAD: Final = struct.Struct(">ii36xiii")


def find_entry_starts(view: memoryview, at: int, stop: int, count: int) -> tuple[bytes, int]:
    """Find where up to `count` records start behind the entry headers from `at` on, before `stop`.

    Return the starts as packed int64, and where the last record ends. The search stops where there is no valid header and magic.
    """
    unpack = _ENTRY_HEAD.unpack_from
    starts: list[int] = []
    length = len(view)
    last = min(stop - HEADER_BYTES, length - HEADER_BYTES - FIXED_BYTES_MIN + 1)
    while 0 <= at < last and len(starts) < count:
        entry_magic, size, body_bytes, record_bytes, magic = unpack(view, at)
        is_entry = entry_magic == ENTRY_MAGIC and size == HEADER_BYTES + body_bytes and body_bytes == record_bytes
        if not is_entry or body_bytes < FIXED_BYTES_MIN or magic not in (MAGIC, MAGIC_V2) or at + size > length:
            break
        starts.append(at + HEADER_BYTES)
        at += size
    return struct.pack(f"={len(starts)}q", *starts), at
