"""What a consumer has of one queue: messages pulled, those with handlers, and how far all is done.

    took(messages, next_offset)      a pull brought these; the next begins there
    take(count, now_ms)              give me the next ones to handle
    finish(messages)                 handled, or sent back: done with
    put_back(messages, until_ms)     to be handled again, in their place
    overdue(now_ms)                  which are with a handler for too long?
    commit_offset                    everything before it is done: what may be told to the broker

    pulled --took--> waiting --take--> with a handler --finish--> done
                        ^-----put_back------'   '---hold---> held --commit--> done
                        ^--------------rollback-------------'

The offset is that of the first unfinished message, so a slow one is never skipped, whatever overtakes it; and it never goes back.

An orderly queue gives out one batch at a time, and only while its lock is held. Its handler may also commit by hand: what it
handled is held until `commit` finishes all of it or `rollback` puts all of it back.

A plain object: the shell around it pulls, runs handlers and knows the time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from functools import partial
from itertools import islice, repeat, starmap
from operator import attrgetter
from typing import Any, Generic, TypeVar

from skyrocket.client.consumer.limits import ConsumerLimits
from skyrocket.client.consumer.locks import QueueLease

M = TypeVar("M")


class Full(Enum):
    """Why a queue is pulled no further for the moment."""

    MESSAGES = "it has as many messages as it may hold"
    BYTES = "it has as many bytes as it may hold"
    SPAN = "its first unfinished message is too far behind its last"


class ConsumerQueue(Generic[M]):
    def __init__(
        self,
        next_offset: int,
        now_ms: int,
        *,
        orderly: bool = False,
        lease: QueueLease | None = None,
        limits: ConsumerLimits | None = None,
        offset_of: Callable[[M], int] = attrgetter("record.queue_offset"),
        size_of: Callable[[M], int] | None = None,
    ) -> None:
        """`lease` is for orderly queues that brokers lock: those of clustering consumers. Sizes are bodies' unless told."""
        assert lease is None or orderly, "only orderly queues are locked"
        self.limits = limits or ConsumerLimits()
        self.orderly = orderly
        self.lease = lease
        self.dropped = False
        self._stopped = False
        self._next_offset = next_offset
        self._pulled_ms = now_ms
        self._suspended_until_ms = 0
        self._offset_of = offset_of
        self._sizes_of: Callable[[Iterable[M]], Iterable[int]] = _body_sizes if size_of is None else partial(map, size_of)
        self._unfinished: dict[int, M] = {}
        self._offsets: deque[int] = deque()  # of _unfinished, ascending; finished ones leave it when they come to the front
        self._waiting: deque[M] = deque()  # ascending
        self._since_ms: dict[int, int] = {}  # of those with handlers, in the order of taking
        self._held: list[M] = []
        self._bytes = 0

    # --- what is here

    @property
    def next_offset(self) -> int:
        """Where the next pull begins."""
        return self._next_offset

    @property
    def commit_offset(self) -> int:
        return self._offsets[0] if self._offsets else self._next_offset

    @property
    def first_waiting_offset(self) -> int:
        """Of the next message that `take` could give."""
        return self._offset_of(self._waiting[0]) if self._waiting else self._next_offset

    @property
    def cached_messages(self) -> int:
        return len(self._unfinished)

    @property
    def cached_bytes(self) -> int:
        return self._bytes

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def in_flight(self) -> int:
        return len(self._since_ms)

    @property
    def span(self) -> int:
        """From the first unfinished message to the last that was taken in."""
        return self._offsets[-1] - self._offsets[0] if self._offsets else 0

    def has(self, message: M) -> bool:
        """False for one that is finished meanwhile, as when it was overdue: its handler's result does not count any more."""
        return self._offset_of(message) in self._unfinished

    def full(self) -> Full | None:
        if len(self._unfinished) > self.limits.cached_messages_max:
            return Full.MESSAGES
        if self._bytes > self.limits.cached_bytes_max:
            return Full.BYTES
        if not self.orderly and self.span > self.limits.span_max:
            return Full.SPAN
        return None

    # --- pulls

    def pulled(self, now_ms: int) -> None:
        """A pull was sent, or put off on purpose."""
        self._pulled_ms = now_ms

    def is_pull_expired(self, now_ms: int) -> bool:
        """Its pulling has stopped somewhere: better given up and begun anew."""
        return now_ms - self._pulled_ms > self.limits.pull_expires_ms

    def took(self, messages: Sequence[M], next_offset: int) -> int:
        """How many of them are new. Messages before where the pull was to begin have been here already: they are passed over."""
        if self.dropped:
            return 0
        offsets = list(map(self._offset_of, messages))
        if offsets and (offsets[0] < self._next_offset or not _ascends(offsets)):
            fresh = {offset: message for offset, message in zip(offsets, messages, strict=True) if offset >= self._next_offset}
            offsets = sorted(fresh)
            messages = [fresh[offset] for offset in offsets]
        self._unfinished.update(zip(offsets, messages, strict=True))
        self._offsets.extend(offsets)
        self._waiting.extend(messages)
        self._bytes += sum(self._sizes_of(messages))
        self._next_offset = max(self._next_offset, next_offset, offsets[-1] + 1 if offsets else 0)
        return len(offsets)

    # --- handlers

    def take(self, count: int, now_ms: int) -> list[M]:
        """The next messages to handle, at most `count`; none when there are none, or it is not time."""
        if not self._waiting or self._stopped or now_ms < self._suspended_until_ms:
            return []
        if self.orderly and self._since_ms:
            return []
        if self.lease is not None and not self.lease.is_held(now_ms):
            return []
        waiting = self._waiting
        if len(waiting) <= count:
            taken = list(waiting)
            waiting.clear()
        else:
            taken = list(starmap(waiting.popleft, repeat((), count)))
        self._since_ms.update(dict.fromkeys(map(self._offset_of, taken), now_ms))
        return taken

    def finish(self, messages: Iterable[M]) -> int | None:
        """The offset to commit when this moved it. None when it did not, or when the queue is no longer ours to commit."""
        offsets, unfinished, since_ms = self._offsets, self._unfinished, self._since_ms
        before = offsets[0] if offsets else self._next_offset
        messages = list(messages)
        done = list(map(self._offset_of, messages))
        gone = list(map(unfinished.pop, done, repeat(None)))
        deque(map(since_ms.pop, done, repeat(None)), maxlen=0)  # in C: this is done for each message
        self._bytes -= sum(self._sizes_of(messages if None not in gone else [each for each in gone if each is not None]))
        if done == list(islice(offsets, len(done))):  # the usual case: those at the front, in order
            deque(starmap(offsets.popleft, repeat((), len(done))), maxlen=0)
        while offsets and offsets[0] not in unfinished:
            offsets.popleft()
        after = offsets[0] if offsets else self._next_offset
        return after if after != before and not self.dropped else None

    def put_back(self, messages: Iterable[M], until_ms: int = 0) -> None:
        """Nothing of this queue is given out until then. Messages that are not with a handler any more are passed over."""
        back = [m for m in messages if self._since_ms.pop(self._offset_of(m), None) is not None]
        self._return(back, until_ms)

    def overdue(self, now_ms: int) -> list[M]:
        """Those with handlers for longer than allowed: send them back, then `finish` those for which that worked."""
        late = []
        for offset, since_ms in self._since_ms.items():
            if now_ms - since_ms <= self.limits.handler_ms:
                break
            late.append(self._unfinished[offset])
        return late

    # --- orderly handlers that commit by hand

    def hold(self, messages: Iterable[M]) -> None:
        """Handled, but not committed yet; the next ones may be taken."""
        self._held += [m for m in messages if self._since_ms.pop(self._offset_of(m), None) is not None]

    def commit(self) -> int | None:
        """All that is held is finished; what `finish` answers."""
        held, self._held = self._held, []
        return self.finish(held)

    def rollback(self, until_ms: int = 0) -> None:
        """All that is held is handled again."""
        held, self._held = self._held, []
        self._return(held, until_ms)

    # --- the end

    def stop(self) -> None:
        """Give out nothing more; what is with handlers may finish and move the offset. For a shutdown."""
        self._stopped = True

    def drop(self) -> None:
        """It is another's now: give out nothing, and no result moves the offset. Whoever wants it kept commits it before."""
        self._stopped = True
        self.dropped = True

    def _return(self, back: list[M], until_ms: int) -> None:
        self._suspended_until_ms = max(self._suspended_until_ms, until_ms)
        if back:
            self._waiting = deque(sorted([*back, *self._waiting], key=self._offset_of))


_body_of: Any = attrgetter("record.body")


def _body_sizes(messages: Iterable[Any]) -> Iterable[int]:
    return map(len, map(_body_of, messages))


def _ascends(offsets: list[int]) -> bool:
    return all(map(int.__lt__, offsets, offsets[1:]))
