"""What a stream may read next: where it stands, against what the cluster says at this trigger. Pure.

    watch = QueueWatch(fail_on_data_loss=True, patience_ms=60_000)
    front = watch.front(stands, survey, asked_for, now_ms)       # from where to where each queue can be read now
    end = front.end(admitted)                                    # what the batch takes of it, for the checkpoint

What is found, and what becomes of it
    a queue that is new              is read from its first offset
    a queue that is not answered for is left where it stands; after `retryTimeout` the query ends, unless data may be lost: then
                                     the queue is left there until it comes back
    messages that are gone           (the oldest by retention, or the newest since the broker came back with fewer) end the query,
                                     unless that is allowed: then reading goes on with the first, or the next, that there is
    a queue that is not asked for    any more (the options changed) ends the query, unless that is allowed: then it is forgotten
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from skyrocket.client.queues import Queue
from skyrocket.spark.errors import DataLossError, OffsetsError, UnreachableClusterError
from skyrocket.spark.source.stream_offsets import StreamOffsets

ALLOWED = "option 'failOnDataLoss' set to false goes on all the same"


class Bounds(NamedTuple):
    first: int
    last: int  # one past the last message


@dataclass(frozen=True, slots=True)
class Survey:
    """What the cluster said: the bounds of each queue, and why there are none for others."""

    bounds: Mapping[Queue, Bounds]
    silent: Mapping[Queue, str] = field(default_factory=dict)  # routed to a broker that does not answer; the reason as a sentence
    slaves: frozenset[str] = frozenset()  # brokers for which a slave answered: it may be behind its master

    def up_to(self, starts: Mapping[Queue, int]) -> Survey:
        """The same, but not ending before these offsets, which were asked for a moment later."""
        bounds = dict(self.bounds)
        for queue, start in starts.items():
            first, last = bounds.get(queue, (start, start))
            bounds[queue] = Bounds(first, max(last, start))
        return Survey(bounds, self.silent, self.slaves)

    def with_more(self, later: Survey, stands: Mapping[Queue, int]) -> Survey:
        """With the queues, of those where the stream stands, that only answered later."""
        more = {queue: bounds for queue, bounds in later.bounds.items() if queue in stands and queue not in self.bounds}
        return Survey({**self.bounds, **more}, later.silent, self.slaves | later.slaves)


@dataclass(frozen=True, slots=True)
class Front:
    """From where to where queues can be read now."""

    stands: Mapping[Queue, int]  # the end of the last batch
    starts: Mapping[Queue, int]  # where the next one begins
    lasts: Mapping[Queue, int]
    answering: frozenset[Queue]
    warnings: tuple[str, ...] = ()

    def backlog(self) -> dict[Queue, int]:
        return {queue: self.lasts[queue] - start for queue, start in self.starts.items()}

    def end(self, admitted: Mapping[Queue, int], *, tells_all: bool = False) -> StreamOffsets | None:
        """None: nothing is new. With `tells_all`, as a query's first batch needs it, an end and all beginnings."""
        ends = {queue: start + admitted.get(queue, 0) for queue, start in self.starts.items()}
        if tells_all:
            return StreamOffsets(ends, self.starts)
        if ends == self.stands:
            return None
        moved = {queue: start for queue, start in self.starts.items() if self.stands.get(queue) != start}
        return StreamOffsets(ends, moved)


@dataclass(slots=True)
class QueueWatch:
    fail_on_data_loss: bool
    patience_ms: int  # retryTimeout
    _missing_since_ms: dict[Queue, int] = field(default_factory=dict)
    _given_up: set[Queue] = field(default_factory=set)  # so that each is told once

    def front(self, stands: Mapping[Queue, int], survey: Survey, asked_for: Callable[[Queue], bool], now_ms: int) -> Front:
        """Raises what ends the query: OffsetsError, DataLossError, UnreachableClusterError."""
        warnings: list[str] = []
        starts: dict[Queue, int] = {}
        lasts: dict[Queue, int] = {}
        for queue, offset in sorted(stands.items()):
            bounds = survey.bounds.get(queue)
            if not asked_for(queue):
                warnings.append(self._unasked(queue, offset))
            elif bounds is None:
                starts[queue] = lasts[queue] = offset
                warnings += self._missing(queue, survey.silent.get(queue), now_ms)
            else:
                warnings += self._found(queue)
                is_behind = queue.broker_name in survey.slaves and offset > bounds.last
                starts[queue] = offset if is_behind else self._checked(queue, offset, bounds, warnings)
                lasts[queue] = max(bounds.last, starts[queue])
        for queue, bounds in sorted(survey.bounds.items()):
            if queue not in stands:
                starts[queue], lasts[queue] = bounds
        self._forget_others(stands)
        answering = frozenset(queue for queue in starts if queue in survey.bounds)
        return Front(stands, starts, lasts, answering, tuple(warnings))

    def is_waiting(self, now_ms: int) -> bool:
        """Whether there is a queue that may still come back in time."""
        return any(now_ms - since_ms < self.patience_ms for since_ms in self._missing_since_ms.values())

    def _unasked(self, queue: Queue, offset: int) -> str:
        if self.fail_on_data_loss:
            raise OffsetsError(
                f"The checkpoint stands at offset {offset} of {queue}, which the options do not ask for any more; "
                f"take a new checkpointLocation, or {ALLOWED}."
            )
        return f"The options do not ask for {queue} any more, where the checkpoint stands at offset {offset}: it is forgotten."

    def _missing(self, queue: Queue, reason: str | None, now_ms: int) -> list[str]:
        since_ms = self._missing_since_ms.setdefault(queue, now_ms)
        why = reason or "No nameserver knows it."
        if now_ms - since_ms < self.patience_ms:
            return [f"Nothing is read from {queue} for now. {why}"] if since_ms == now_ms else []
        if not self.fail_on_data_loss:
            told = queue in self._given_up
            self._given_up.add(queue)
            return [] if told else [f"The query goes on without {queue} until it is there again. {why}"]
        for_s = (now_ms - since_ms) / 1000
        if reason is None:
            raise DataLossError(
                f"The {queue} is gone: no nameserver has known it for {for_s:.0f} s, and the checkpoint stands in it; {ALLOWED}."
            )
        raise UnreachableClusterError(f"Nobody has answered for {queue} for {for_s:.0f} s (option 'retryTimeout'). {why}")

    def _found(self, queue: Queue) -> list[str]:
        self._given_up.discard(queue)
        if self._missing_since_ms.pop(queue, None) is None:
            return []
        return [f"The {queue} is there again."]

    def _checked(self, queue: Queue, offset: int, bounds: Bounds, warnings: list[str]) -> int:
        """Where to go on."""
        if bounds.first <= offset <= bounds.last:
            return offset
        if offset > bounds.last:
            stands = f"The {queue} ends at offset {bounds.last}, but the checkpoint stands at {offset}"
            lost = f"{stands}: its broker was reset, or lost messages"
            goes_on = bounds.last
        else:
            lost = (
                f"Offsets {offset} to {bounds.first} of {queue} are gone before they were read: they were kept too short a time"
            )
            goes_on = bounds.first
        if self.fail_on_data_loss:
            raise DataLossError(f"{lost}; {ALLOWED}, from offset {goes_on}.")
        warnings.append(f"{lost}; reading goes on from offset {goes_on}.")
        return goes_on

    def _forget_others(self, stands: Mapping[Queue, int]) -> None:
        for queue in [queue for queue in self._missing_since_ms if queue not in stands]:
            del self._missing_since_ms[queue]
        self._given_up.intersection_update(stands)
