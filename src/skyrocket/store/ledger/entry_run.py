"""Runs of entries: what lies together in a data file is handled together, without an object for each entry.

    frame_records          records, one behind the other  →  entries, with the header of each in front
    pack_index_entries     entries                        →  their entries in `index/`

Both loops run once for each message of a leader, and the second one at a follower too. So they have compiled twins.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from skyrocket.compiled import twin
from skyrocket.protocol.ledger_entry import ENTRY_HEADER, ENTRY_HEADER_BYTES, ENTRY_MAGIC
from skyrocket.store.ledger.entry import ENTRY_BYTES_MAX, EntryHeader, check_entry_bytes, unpack_header
from skyrocket.store.ledger.entry_index import INDEX_ENTRY
from skyrocket.store.log.commit_log import WrittenRun


def _frame_records(records: bytes, offsets: list[int], index: int, term: int) -> bytes:
    """Put the header of its entry in front of each record. Entry `index` is the first one.

    `offsets` say where the records will lie in the log, with room for a header between two of them.
    """
    parts: list[bytes | memoryview] = []
    view, at = memoryview(records), 0
    ends = [following - ENTRY_HEADER_BYTES for following in offsets[1:]]
    for number, offset in enumerate(offsets):
        size = ends[number] - offset if number < len(ends) else len(view) - at
        if size < 0 or at + size > len(view):
            raise ValueError(f"a record from {at} to {at + size} is not in {len(view)} bytes")
        pos = offset - ENTRY_HEADER_BYTES
        parts.append(ENTRY_HEADER.pack(ENTRY_MAGIC, ENTRY_HEADER_BYTES + size, index + number, term, pos, 0, 0, 0, size))
        parts.append(view[at : at + size])
        at += size
    return b"".join(parts)


def _pack_index_entries(data: bytes | bytearray, start: int, offsets: list[int]) -> bytes:
    """Return the index entries of entries that lie at `start` in the log. `offsets` say where their records begin."""
    parts: list[bytes] = []
    for offset in offsets:
        at = offset - ENTRY_HEADER_BYTES - start
        if at < 0 or at + ENTRY_HEADER_BYTES > len(data):
            raise ValueError(f"an entry at {at} is not in {len(data)} bytes")
        magic, size, index, term, pos, *_ = ENTRY_HEADER.unpack_from(data, at)
        parts.append(INDEX_ENTRY.pack(magic, pos, size, index, term))
    return b"".join(parts)


frame_records = twin("ledger_entries", _frame_records)
pack_index_entries = twin("ledger_entries", _pack_index_entries)


def check_sizes(records_bytes: int, offsets: Sequence[int]) -> None:
    """Raise TooLargeError when one of the records, which will lie at `offsets`, makes an entry that Apache's nodes refuse."""
    if records_bytes + ENTRY_HEADER_BYTES > ENTRY_BYTES_MAX:  # seldom: so many bytes in one turn
        end = offsets[0] + records_bytes + ENTRY_HEADER_BYTES * len(offsets)
        check_entry_bytes(max(stop - start for start, stop in pairwise([*offsets, end])))


def ends_of(written: Sequence[WrittenRun]) -> tuple[EntryHeader | None, EntryHeader | None]:
    """Return the headers of the first entry and of the last one."""
    runs = [run for run in written if run.offsets]
    if not runs:
        return None, None
    places = ((runs[0], runs[0].offsets[0]), (runs[-1], runs[-1].offsets[-1]))
    first, last = (unpack_header(run.data, offset - ENTRY_HEADER_BYTES - run.start) for run, offset in places)
    assert first is not None
    assert last is not None
    return first, last
