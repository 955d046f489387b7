"""The runs that several pulls of one queue ask for, each behind the header of its answer: read, checked and put together at once.

    +--------+----------------------------------------------+---------+--------+---
    | prefix | before  next offset  between  opaque  behind | records | prefix | …
    +--------+----------------------------------------------+---------+--------+---

What a header says stays the same for all of them, but for two numbers. The first pull that does not find what it asks for, or
needs a closer look, or another segment of the log than the first, ends it: that one is for who calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from skyrocket.compiled import twin
from skyrocket.protocol.alike_pulls import Numbers
from skyrocket.protocol.frame import PREFIX
from skyrocket.store.checksums import Checksums
from skyrocket.store.commit_log import CommitLog
from skyrocket.store.consume_queue import ENTRY, ENTRY_BYTES
from skyrocket.store.queue_run import RECORDS_PER_READ_MAX, Wanted, pull_run

_LENGTH_BYTES = 4


class Words(NamedTuple):
    """Of a header, around its two numbers."""

    before: bytes
    between: bytes
    behind: bytes


class FramedRuns(NamedTuple):
    pieces: list[bytes] | list[bytes | memoryview]  # frames, one behind the other
    pulls: int  # that these answer
    messages: int
    size_bytes: int  # of the messages
    last_place: int  # of the last of them, in the log


def _framed_runs(
    log: CommitLog,
    checksums: Checksums,
    hot_from: int,
    packed: bytes,
    wanted: Wanted,
    asks: Sequence[Numbers],
    words: Words,
    max_offset: int,
    bytes_max: int,
) -> tuple[list[bytes | memoryview], int, int, int, int]:
    """In the order of `FramedRuns`. `packed` are entries from the wanted offset on; with `bytes_max` there, no pull is begun."""
    pieces: list[bytes | memoryview] = []
    pulls = messages = size_bytes = last_place = 0
    for opaque, offset, count, _ in asks:
        first, records_max = offset - wanted.offset, max(1, min(count, wanted.records_max))
        if size_bytes >= bytes_max or first < 0:
            break
        entries = packed[first * ENTRY_BYTES : (first + min(2 * records_max, RECORDS_PER_READ_MAX)) * ENTRY_BYTES]
        if not entries or _segment(log, entries) != _segment(log, packed):
            break
        run = pull_run(log, checksums, hot_from, entries, wanted._replace(offset=offset, records_max=records_max))
        if run is None:
            break
        records, found, found_bytes, next_offset, place = run
        is_used_up = next_offset == offset + len(entries) // ENTRY_BYTES
        if not found or (is_used_up and found < records_max and next_offset < max_offset):
            break
        header = b"%b%d%b%d%b" % (words.before, next_offset, words.between, opaque, words.behind)
        pieces += [PREFIX.pack(_LENGTH_BYTES + len(header) + found_bytes, len(header)) + header, *records]
        pulls, messages, size_bytes, last_place = pulls + 1, messages + found, size_bytes + found_bytes, place
    return pieces, pulls, messages, size_bytes, last_place


def _segment(log: CommitLog, entries: bytes) -> int:
    """Where the segment starts that the first of them points to."""
    return log.segment_view(ENTRY.unpack_from(entries)[0])[0]


framed_runs = twin("runs", _framed_runs)
