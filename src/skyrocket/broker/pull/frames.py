"""Response frames for several pulls of one queue: read, checked and built in one pass.

    +--------+----------------------------------------------+---------+--------+---
    | prefix | before  next offset  between  opaque  behind | records | prefix | …
    +--------+----------------------------------------------+---------+--------+---

The headers differ only in two numbers. The pass ends at the first pull that finds too few messages, needs a check of its
records, or needs another segment of the log than the first pull. The caller handles that pull and those behind it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from skyrocket.compiled import twin
from skyrocket.protocol.fast_path.pull_requests import PullNumbers
from skyrocket.protocol.frame import PREFIX
from skyrocket.store.log.checksums import Checksums
from skyrocket.store.queues.consume_queue import ENTRY, ENTRY_BYTES
from skyrocket.store.read.queue_run import RECORDS_PER_READ_MAX, RunLog, RunQuery, ends_early, read_pull_run

_LENGTH_BYTES = 4


class HeaderTemplate(NamedTuple):
    """The constant parts of a response header, around its two numbers."""

    before: bytes
    between: bytes
    behind: bytes


# Frames, concatenated, and what they contain: pulls that are answered, messages, their bytes, the log offset of the last message.
FramedRuns = tuple[list[bytes | memoryview], int, int, int, int]


def _frame_runs(
    log: RunLog,
    checksums: Checksums,
    hot_from: int,
    packed: bytes,
    wanted: RunQuery,
    asks: Sequence[PullNumbers],
    words: HeaderTemplate,
    max_offset: int,
    bytes_max: int,
) -> FramedRuns:
    """Read the messages of several pulls of one queue, as frames that are ready to send. `wanted.offset` is the first one's.

    `packed` holds queue entries from the first offset on. Once `bytes_max` bytes are read, no further pull starts.
    """
    pieces: list[bytes | memoryview] = []
    pulls = messages = size_bytes = last_place = 0
    for opaque, offset, count, _ in asks:
        first, records_max = offset - wanted.offset, max(1, min(count, wanted.records_max))
        if size_bytes >= bytes_max or first < 0:
            break
        entries = packed[first * ENTRY_BYTES : (first + min(2 * records_max, RECORDS_PER_READ_MAX)) * ENTRY_BYTES]
        if len(entries) < ENTRY_BYTES or _segment(log, entries) != _segment(log, packed):
            break
        asked = wanted._replace(offset=offset, records_max=records_max)
        run = read_pull_run(log, checksums, hot_from, entries, asked)
        if run is None:
            break
        records, found, found_bytes, next_offset, place = run
        if not found or ends_early(found, next_offset, entries, asked, max_offset):
            break
        header = b"%b%d%b%d%b" % (words.before, next_offset, words.between, opaque, words.behind)
        pieces += [PREFIX.pack(_LENGTH_BYTES + len(header) + found_bytes, len(header)) + header, *records]
        pulls, messages, size_bytes, last_place = pulls + 1, messages + found, size_bytes + found_bytes, place
    return pieces, pulls, messages, size_bytes, last_place


def _segment(log: RunLog, entries: bytes) -> int | None:
    """Return the start of the segment that the first entry points to."""
    return log.segments.start_of(ENTRY.unpack_from(entries)[0])


frame_runs = twin("queue_run", _frame_runs)
