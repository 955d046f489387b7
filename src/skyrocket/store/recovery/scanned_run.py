"""Runs of records that recovery has scanned, with everything that queues, index and checksums need of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from skyrocket.store.log.checksum_blocks import ENTRY
from skyrocket.store.log.checksums import pack_checksums
from skyrocket.store.message import DispatchFields

RECORDS_AT_ONCE: Final = 4096  # go to queues and index together


class ScannedRun(NamedTuple):
    """Records that follow each other in a segment."""

    segment_start: int
    dispatches: list[DispatchFields]  # of all that are messages
    checksums: bytes  # packed entries of all

    @property
    def end(self) -> int:
        """Where the last record ends in the log."""
        end, _ = ENTRY.unpack_from(self.checksums, len(self.checksums) - ENTRY.size)
        return self.segment_start + int(end)


def pack_run(dispatches: list[DispatchFields], view: memoryview, segment_start: int) -> bytes:
    """Return the checksum entries of messages that follow each other in a segment."""
    bounds = [one[3] for one in dispatches]
    _, _, _, last, size, _, _, _, _ = dispatches[-1]
    bounds.append(last + size)
    data = view[bounds[0] - segment_start : bounds[-1] - segment_start]
    return pack_checksums(data, bounds[0], bounds, segment_start)


def join_runs(runs: Iterator[ScannedRun]) -> Iterator[ScannedRun]:
    """Join neighbouring runs of a segment, up to a bound."""
    joined: ScannedRun | None = None
    for run in runs:
        if joined is None:
            joined = run
        elif run.segment_start == joined.segment_start and len(joined.checksums) < RECORDS_AT_ONCE * ENTRY.size:
            joined.dispatches.extend(run.dispatches)
            joined = joined._replace(checksums=joined.checksums + run.checksums)
        else:
            yield joined
            joined = run
    if joined is not None:
        yield joined
