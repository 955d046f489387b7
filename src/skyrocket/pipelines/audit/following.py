"""A following audit: looks at what has come since the last look, and tells what is new about each stream.

A look that fails leaves everything as it was, so the next one reads the same messages again: a broker may restart meanwhile.
With a state file the audit goes on after a restart of its own.

    {"what": "orders at 127.0.0.1:9876", "places": [["orders", "broker-a", 0, 17]], "whole": [["orders", "broker-a", 0]],
     "streams": [{"producer": "9f1c…", "queue": ["orders", "broker-a", 0], "highest": 17, "gaps": [[4, 5]], …}]}
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from skyrocket.client.queues import Queue
from skyrocket.durable_file import read_file, replace_file
from skyrocket.pipelines.audit.findings import NumberRanges, NumberRun, SequenceState, StreamAudit, StreamKey, stream_audit
from skyrocket.pipelines.errors import ArgumentError

STATE_BYTES_MAX: Final = 64 * 1024 * 1024
FIRST_NUMBER: Final = 1  # with which every producer begins in every queue

Runs = Mapping[StreamKey, list[NumberRun]]
ReadRuns = Callable[[Mapping[Queue, int], Mapping[Queue, int]], Runs]


class _SavedRanges(msgspec.Struct, frozen=True):
    count: int
    ranges: list[tuple[int, int]]


class _SavedStream(msgspec.Struct, frozen=True):
    producer: str
    queue: Queue
    highest: int
    stored: int
    gaps: list[tuple[int, int]]
    repeated: _SavedRanges
    late: _SavedRanges


class _SavedAudit(msgspec.Struct, frozen=True):
    what: str  # topics and cluster, to recognise another audit
    places: list[tuple[str, str, int, int]]  # topic, broker, queue and offset: everything before it has been read
    whole: list[Queue]  # queues that were read from their first message
    streams: list[_SavedStream]


class FollowingAudit:
    """What a following audit knows. The caller asks the cluster where queues begin and end, and reads."""

    def __init__(self, what: str = "", state: Path | None = None) -> None:
        """`state` names the state file. The state of another audit than `what` is refused."""
        self._what, self._path = what, state
        self._places: dict[Queue, int] = {}
        self._whole: set[Queue] = set()
        self._streams: dict[StreamKey, SequenceState] = {}
        self._told: dict[StreamKey, tuple[int, int, int]] = {}
        if state is not None:
            self._load(state)

    def look(self, firsts: Mapping[Queue, int], stops: Mapping[Queue, int], read: ReadRuns) -> list[StreamAudit]:
        """Read what lies between the last look and `stops`. Returns the streams that have something new to tell."""
        starts = {queue: min(self._places.get(queue, firsts.get(queue, 0)), stop) for queue, stop in stops.items()}
        if any(stop > starts[queue] for queue, stop in stops.items()):
            found = read(starts, stops)  # before anything changes: it may fail
            self._whole |= {queue for queue in stops if queue not in self._places and firsts.get(queue, 0) == 0}
            for key, runs in found.items():
                self._advance(key, runs)
        has_news = any(self._places.get(queue) != stop for queue, stop in stops.items())
        self._places |= stops  # a queue whose broker is away keeps its place
        if has_news:
            self._save()
        return self._news()

    def _advance(self, key: StreamKey, runs: list[NumberRun]) -> None:
        ordered = sorted(runs, key=lambda run: run.first_offset)
        if key not in self._streams:
            begins_at = FIRST_NUMBER if key.queue in self._whole else min(run.first for run in ordered)
            self._streams[key] = SequenceState(begins_at)
        for run in ordered:
            self._streams[key].add(run)

    def _news(self) -> list[StreamAudit]:
        news = []
        for key, state in sorted(self._streams.items()):
            audit = stream_audit(key, state)
            if _figures(audit) != self._told.get(key, (0, 0, 0)):
                self._told[key] = _figures(audit)
                news.append(audit)
        return news

    # --- the state file

    def _save(self) -> None:
        if self._path is None:
            return
        streams = [
            _SavedStream(
                *(key.producer, key.queue, state.highest, state.stored),
                [(gap.first, gap.last) for gap in state.gaps()],
                *(_SavedRanges(ranges.count, [(gap.first, gap.last) for gap in ranges.ranges]) for ranges in _ranges(state)),
            )
            for key, state in sorted(self._streams.items())
        ]
        places = [(*queue, offset) for queue, offset in sorted(self._places.items())]
        content = msgspec.json.encode(_SavedAudit(self._what, places, sorted(self._whole), streams))
        if len(content) > STATE_BYTES_MAX:
            raise ArgumentError(f"The state for {self._path} has grown to {len(content):,} bytes. Follow without --state.")
        replace_file(self._path, content)

    def _load(self, path: Path) -> None:
        try:
            content = read_file(path, STATE_BYTES_MAX)
            if content is None:
                return
            saved = msgspec.json.decode(content, type=_SavedAudit)
        except (OSError, msgspec.DecodeError) as error:
            raise ArgumentError(f"{path} is not the state of an audit. Give another file with --state.") from error
        if saved.what != self._what:
            raise ArgumentError(f"{path} has the state of another audit ({saved.what}). Give another file with --state.")
        self._places = {Queue(topic, broker, number): offset for topic, broker, number, offset in saved.places}
        self._whole = set(saved.whole)
        for one in saved.streams:
            state = SequenceState.of(one.highest, one.stored, one.gaps)
            for ranges, kept in zip(_ranges(state), (one.repeated, one.late), strict=True):
                ranges.load(kept.count, kept.ranges)
            key = StreamKey(one.producer, one.queue)
            self._streams[key] = state
            self._told[key] = _figures(stream_audit(key, state))


def _ranges(state: SequenceState) -> tuple[NumberRanges, NumberRanges]:
    return state.repeated, state.late


def _figures(audit: StreamAudit) -> tuple[int, int, int]:
    return audit.missing, audit.repeated_count, audit.late_count
