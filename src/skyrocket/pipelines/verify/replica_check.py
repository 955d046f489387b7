"""Compares the log of a replica with its master's, byte by byte.

    master   |────────────────────────────────────|  end
    replica        |──────────── compared ─────|     end: behind by the rest, which is a remark and no problem

A replica has the master's log at the same offsets. Where one begins later, retention has deleted what was before. A replica that
ends later than its master has messages that the master does not have.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np

from skyrocket.store.log.scan import FoundRecord, LogEnd
from skyrocket.store.offline.offline_log import OfflineLog
from skyrocket.store.offline.offline_store import OfflineStore

PART_BYTES: Final = 256 * 1024 * 1024  # compared by one task
CHUNK_BYTES: Final = 1024 * 1024
RANGES_MAX: Final = 20  # differing ranges that are named for each part


class LogRange(NamedTuple):
    """A part of a log: from `start` up to before `stop`."""

    start: int
    stop: int


class RangeComparison(msgspec.Struct, kw_only=True):
    compared: int = 0  # bytes
    different: int = 0  # bytes
    problems: list[str] = []
    more: int = 0


def log_range(store: OfflineStore) -> LogRange:
    """Return where a store's log begins and ends. Only its last two segments are read: the last one may be new and empty."""
    starts = store.log.starts
    if not starts:
        return LogRange(0, 0)
    for item in store.log.walk(starts[-2:][0], check=False):
        if isinstance(item, LogEnd):
            return LogRange(store.log.start, item.offset)
    raise AssertionError("the last item of a walk is the end")


def plan_ranges(master: LogRange, replica: LogRange, part_bytes: int = PART_BYTES) -> list[LogRange]:
    """Divide what both logs have into parts. Pure."""
    start, stop = max(master.start, replica.start), min(master.stop, replica.stop)
    return [LogRange(at, min(at + part_bytes, stop)) for at in range(start, stop, part_bytes)]


def describe_bounds(master: LogRange, replica: LogRange) -> tuple[list[str], list[str]]:
    """Return problems and remarks about where the logs begin and end. Pure."""
    problems, remarks = [], []
    if replica.stop > master.stop:
        problems.append(
            f"The replica's log ends at {replica.stop}, {replica.stop - master.stop:,} bytes behind the master's end "
            f"({master.stop}): it has messages that the master does not have."
        )
    if replica.stop < master.stop:
        remarks.append(f"The replica is behind by {master.stop - replica.stop:,} bytes: its log ends at {replica.stop}.")
    if max(master.start, replica.start) >= min(master.stop, replica.stop) and master.stop > master.start:
        remarks.append("The two logs have no byte in common, so nothing was compared.")
    if replica.start != master.start:
        which = "replica" if replica.start > master.start else "master"
        remarks.append(
            f"The {which}'s log begins at {max(master.start, replica.start)}; what the other has before was not compared."
        )
    return problems, remarks


def compare_range(master_path: str, replica_path: str, start: int, stop: int) -> RangeComparison:
    """Compare the bytes of two logs, and name the ranges and messages that differ."""
    found = RangeComparison()
    with OfflineStore(master_path) as master, OfflineStore(replica_path) as replica:
        ranges: list[LogRange] = []
        for at, size in _chunks(master.log, replica.log, start, stop):
            here, there = _bytes(master.log, at, size), _bytes(replica.log, at, size)
            found.compared += size
            if here is None or there is None:
                _extend(ranges, at, at + size)
                found.different += size
                continue
            places = np.flatnonzero(here != there)
            if len(places):
                found.different += len(places)
                _extend(ranges, at + int(places[0]), at + int(places[-1]) + 1)
        found.problems = [_describe(master, replica, *one) for one in ranges[:RANGES_MAX]]
        found.more = len(ranges) - len(found.problems)
    return found


def _chunks(one: OfflineLog, other: OfflineLog, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Divide a range so that no chunk crosses the border of a segment in either log."""
    at = start
    while at < stop:
        rooms = [log.segment_bytes - (at - begin) for log in (one, other) if (begin := log.start_of(at)) is not None]
        size = min(CHUNK_BYTES, stop - at, *rooms)
        yield at, size
        at += size


def _bytes(log: OfflineLog, at: int, size: int) -> Any:
    view = log.view(at, size)
    return None if view is None else np.frombuffer(view, np.uint8)


def _extend(ranges: list[LogRange], start: int, stop: int) -> None:
    """Add a range; neighbours that begin in the next chunk become one."""
    if ranges and ranges[-1].stop == start:
        ranges[-1] = LogRange(ranges[-1].start, stop)
    else:
        ranges.append(LogRange(start, stop))


def _describe(master: OfflineStore, replica: OfflineStore, start: int, stop: int) -> str:
    """Name a differing range, and the message of the master that it is in."""
    log = master.log
    segment = log.start_of(start)
    if segment is None or replica.log.start_of(start) is None:
        which = "master" if segment is None else "replica"
        return f"Log offsets {start} to {stop - 1}: the {which} has no file with them."
    for item in log.walk(segment, check=False):
        if item.offset > start:
            break
        if isinstance(item, FoundRecord) and item.offset + item.size > start:
            record = item.record
            message = f"the message at offset {record.queue_offset} of {record.topic}, queue {record.queue_id}"
            return f"Log offsets {start} to {stop - 1} differ, in {message}."
    return f"Log offsets {start} to {stop - 1} differ, between messages."
