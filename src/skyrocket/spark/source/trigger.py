"""Decides what a stream may read next: compares its positions with what the cluster holds at this trigger. Pure.

    watch = QueueWatch(fail_on_data_loss=True, retry_ms=60_000)
    readable = watch.compare(positions, snapshot, is_selected, now_ms)   # from where to where each queue can be read now
    end = readable.end(admitted)                                         # where the batch ends, for the checkpoint

What the comparison finds                            What the stream does
    a new queue                                      reads it from its first offset
    a queue whose broker does not answer             keeps its position; fails after `retryTimeout`, or with `failOnDataLoss`
                                                     false waits until the queue is back
    messages that no longer exist: the oldest        fails, or with `failOnDataLoss` false continues at the first, or the next,
    expired, or the broker came back with fewer      message that exists
    a queue that the options no longer select        fails, or with `failOnDataLoss` false forgets the queue
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from skyrocket.client.queues import Queue
from skyrocket.spark.errors import DataLossError, OffsetsError, UnreachableClusterError
from skyrocket.spark.source.stream_offsets import StreamOffsets

WAY_OUT = "To continue all the same, set option 'failOnDataLoss' to false"


class ReadableBounds(NamedTuple):
    first: int
    last: int  # one past the last message


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """What the cluster answered: the bounds of each queue, and for the other queues why there are none."""

    bounds: Mapping[Queue, ReadableBounds]
    silent: Mapping[Queue, str] = field(default_factory=dict)  # their broker does not answer; the reason is a sentence
    slaves: frozenset[str] = frozenset()  # brokers for which a slave answered: it may be behind its master

    def extend_to(self, starts: Mapping[Queue, int]) -> ClusterSnapshot:
        """Return a copy in which no queue ends before these offsets, which were asked for a moment later."""
        bounds = dict(self.bounds)
        for queue, start in starts.items():
            first, last = bounds.get(queue, (start, start))
            bounds[queue] = ReadableBounds(first, max(last, start))
        return ClusterSnapshot(bounds, self.silent, self.slaves)

    def with_late_answers(self, later: ClusterSnapshot, positions: Mapping[Queue, int]) -> ClusterSnapshot:
        """Return a copy with the queues that answered only in a later snapshot and that the stream has a position in."""
        more = {queue: bounds for queue, bounds in later.bounds.items() if queue in positions and queue not in self.bounds}
        return ClusterSnapshot({**self.bounds, **more}, later.silent, self.slaves | later.slaves)


@dataclass(frozen=True, slots=True)
class ReadableOffsets:
    """From where to where each queue can be read now."""

    positions: Mapping[Queue, int]  # the end of the last batch
    starts: Mapping[Queue, int]  # where the next batch starts
    lasts: Mapping[Queue, int]
    answering: frozenset[Queue]
    warnings: tuple[str, ...] = ()

    def backlog(self) -> dict[Queue, int]:
        return {queue: self.lasts[queue] - start for queue, start in self.starts.items()}

    def end(self, admitted: Mapping[Queue, int], *, with_all_starts: bool = False) -> StreamOffsets | None:
        """Return where a batch of the admitted offsets ends, or None if nothing is new.

        With `with_all_starts`, as for a query's first batch, there is always an end, and it records every queue's start.
        """
        ends = {queue: start + admitted.get(queue, 0) for queue, start in self.starts.items()}
        if with_all_starts:
            return StreamOffsets(ends, self.starts)
        if ends == self.positions:
            return None
        moved = {queue: start for queue, start in self.starts.items() if self.positions.get(queue) != start}
        return StreamOffsets(ends, moved)


@dataclass(slots=True)
class QueueWatch:
    """Compares positions with snapshots, and remembers for how long each queue has been missing."""

    fail_on_data_loss: bool
    retry_ms: int  # retryTimeout
    _missing_since_ms: dict[Queue, int] = field(default_factory=dict)
    _reported: set[Queue] = field(default_factory=set)  # queues whose loss has been warned about

    def compare(
        self, positions: Mapping[Queue, int], snapshot: ClusterSnapshot, is_selected: Callable[[Queue], bool], now_ms: int
    ) -> ReadableOffsets:
        """Return what can be read. Raise OffsetsError, DataLossError or UnreachableClusterError to end the query."""
        warnings: list[str] = []
        starts: dict[Queue, int] = {}
        lasts: dict[Queue, int] = {}
        for queue, offset in sorted(positions.items()):
            bounds = snapshot.bounds.get(queue)
            if not is_selected(queue):
                warnings.append(self._drop_unselected(queue, offset))
            elif bounds is None:
                starts[queue] = lasts[queue] = offset
                warnings += self._note_missing(queue, snapshot.silent.get(queue), now_ms)
            else:
                warnings += self._note_found(queue)
                is_behind = queue.broker_name in snapshot.slaves and offset > bounds.last
                starts[queue] = offset if is_behind else self._check_position(queue, offset, bounds, warnings)
                lasts[queue] = max(bounds.last, starts[queue])
        for queue, bounds in sorted(snapshot.bounds.items()):
            if queue not in positions:
                starts[queue], lasts[queue] = bounds
        self._forget_others(positions)
        answering = frozenset(queue for queue in starts if queue in snapshot.bounds)
        return ReadableOffsets(positions, starts, lasts, answering, tuple(warnings))

    def is_waiting(self, now_ms: int) -> bool:
        """Return whether a missing queue may still come back within `retryTimeout`."""
        return any(now_ms - since_ms < self.retry_ms for since_ms in self._missing_since_ms.values())

    def _drop_unselected(self, queue: Queue, offset: int) -> str:
        if self.fail_on_data_loss:
            raise OffsetsError(
                f"The checkpoint is at offset {offset} of {queue}, which the options no longer select. "
                f"Use a new checkpointLocation. {WAY_OUT}: the queue is then forgotten."
            )
        return f"The options no longer select {queue}, where the checkpoint is at offset {offset}: the queue is forgotten."

    def _note_missing(self, queue: Queue, reason: str | None, now_ms: int) -> list[str]:
        since_ms = self._missing_since_ms.setdefault(queue, now_ms)
        why = reason or "No nameserver has a route to it."
        if now_ms - since_ms < self.retry_ms:
            return [f"The query reads nothing from {queue} for now. {why}"] if since_ms == now_ms else []
        if not self.fail_on_data_loss:
            is_reported = queue in self._reported
            self._reported.add(queue)
            return [] if is_reported else [f"The query continues without {queue} until the queue is back. {why}"]
        for_s = (now_ms - since_ms) / 1000
        if reason is None:
            raise DataLossError(
                f"The {queue} is gone: no nameserver has had a route to it for {for_s:.0f} s, and the checkpoint has an offset "
                f"of it. {WAY_OUT}."
            )
        raise UnreachableClusterError(f"The broker of {queue} has not answered for {for_s:.0f} s (option 'retryTimeout'). {why}")

    def _note_found(self, queue: Queue) -> list[str]:
        self._reported.discard(queue)
        if self._missing_since_ms.pop(queue, None) is None:
            return []
        return [f"The {queue} is back."]

    def _check_position(self, queue: Queue, offset: int, bounds: ReadableBounds, warnings: list[str]) -> int:
        """Return where to continue in a queue."""
        if bounds.first <= offset <= bounds.last:
            return offset
        if offset > bounds.last:
            lost = (
                f"The {queue} ends at offset {bounds.last}, but the checkpoint is at {offset}: "
                "its broker was reset, or lost messages"
            )
            next_offset = bounds.last
        else:
            lost = f"Offsets {offset} to {bounds.first} of {queue} expired before the query read them"
            next_offset = bounds.first
        if self.fail_on_data_loss:
            raise DataLossError(f"{lost}. {WAY_OUT}: the query then continues at offset {next_offset}.")
        warnings.append(f"{lost}. The query continues at offset {next_offset}.")
        return next_offset

    def _forget_others(self, positions: Mapping[Queue, int]) -> None:
        for queue in [queue for queue in self._missing_since_ms if queue not in positions]:
            del self._missing_since_ms[queue]
        self._reported.intersection_update(positions)
