"""The process queue: the client-side state of one queue, from pulled messages to the offset that may be committed.

    add(messages, next_offset)       a pull returned these messages; the next pull starts at next_offset
    take(count, now_ms)              take the next messages for a handler
    finish(messages)                 consumed, or sent back to the broker
    put_back(messages, until_ms)     handle again, in their old place
    overdue(now_ms)                  messages that have been with a handler for too long
    commit_offset                    everything before it is finished: the offset to commit

    pulled --add--> waiting --take--> with a handler --finish--> finished
                       ^-----put_back------'   '--hold_for_commit--> uncommitted --commit--> finished
                       ^------------------------rollback----------------'

`commit_offset` is the offset of the first unfinished message. So a slow message is never skipped, even when later ones overtake
it. The offset never goes back.

An orderly queue gives one batch at a time to a handler, and only while its lock is held. With manual commits, handled messages
stay uncommitted until `commit` finishes all of them or `rollback` puts all of them back.

The class is pure: the code around it pulls, runs handlers and passes the time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from itertools import islice, repeat, starmap
from operator import attrgetter
from typing import Any, Final, Generic, TypeVar

from skyrocket.client.consumer.limits import ConsumerLimits
from skyrocket.client.consumer.locks import QueueLock
from skyrocket.compiled import twin

M = TypeVar("M")
"""A message: its attributes `queue_offset` and `size_bytes` are used here."""

_offset_of: Final[Callable[[Any], int]] = attrgetter("queue_offset")
_size_of: Final[Callable[[Any], int]] = attrgetter("size_bytes")


class CacheLimit(Enum):
    """The bound that stops the pulls of a queue for the moment."""

    MESSAGES = "too many messages are cached"
    BYTES = "too many bytes are cached"
    SPAN = "the first unfinished message is too far behind the last"


class ProcessQueue(Generic[M]):
    """The client-side state of one queue."""

    def __init__(
        self,
        next_offset: int,
        now_ms: int,
        *,
        orderly: bool = False,
        lock: QueueLock | None = None,
        limits: ConsumerLimits | None = None,
    ) -> None:
        """`lock` is for orderly queues of clustering consumers, which the broker locks."""
        assert lock is None or orderly, "only orderly queues are locked"
        self.limits = limits or ConsumerLimits()
        self.orderly = orderly
        self.lock = lock
        self.dropped = False
        self._stopped = False
        self._next_offset = next_offset
        self._pulled_ms = now_ms
        self._suspended_until_ms = 0
        self._unfinished: dict[int, M] = {}
        self._offsets: deque[int] = deque()  # of _unfinished, ascending; a finished one leaves when it reaches the front
        self._waiting: deque[M] = deque()  # ascending
        self._taken_ms: dict[int, int] = {}  # offset -> when it went to a handler, in the order of taking
        self._uncommitted: list[M] = []
        self._bytes = 0

    # --- state

    @property
    def next_offset(self) -> int:
        """The offset at which the next pull starts."""
        return self._next_offset

    @property
    def commit_offset(self) -> int:
        return self._offsets[0] if self._offsets else self._next_offset

    @property
    def first_waiting_offset(self) -> int:
        """The offset of the next message that `take` can return."""
        return _offset_of(self._waiting[0]) if self._waiting else self._next_offset

    @property
    def cached_messages(self) -> int:
        return len(self._unfinished)

    @property
    def cached_bytes(self) -> int:
        return self._bytes

    @property
    def waiting(self) -> int:
        """The number of messages that wait for a handler."""
        return len(self._waiting)

    @property
    def in_flight(self) -> int:
        """The number of messages that are with a handler."""
        return len(self._taken_ms)

    @property
    def span(self) -> int:
        """The distance from the first unfinished message to the last message added."""
        return self._offsets[-1] - self._offsets[0] if self._offsets else 0

    def is_unfinished(self, message: M) -> bool:
        """Whether the message still needs a result. False after it was sent back as overdue, for example."""
        return _offset_of(message) in self._unfinished

    def reached_limit(self) -> CacheLimit | None:
        """Return the bound that stops further pulls, or None."""
        if len(self._unfinished) > self.limits.cached_messages_max:
            return CacheLimit.MESSAGES
        if self._bytes > self.limits.cached_bytes_max:
            return CacheLimit.BYTES
        if not self.orderly and self.span > self.limits.span_max:
            return CacheLimit.SPAN
        return None

    # --- pulls

    def note_pull(self, now_ms: int) -> None:
        """Note that a pull was sent, or delayed on purpose."""
        self._pulled_ms = now_ms

    def is_pull_expired(self, now_ms: int) -> bool:
        """Whether the pull loop of the queue has stalled, so that the queue should restart."""
        return now_ms - self._pulled_ms > self.limits.pull_expires_ms

    def add(self, messages: Sequence[M], next_offset: int) -> int:
        """Add pulled messages. Returns how many are new: those before the offset of the pull were here already."""
        if self.dropped:
            return 0
        if not messages:
            self._next_offset = max(self._next_offset, next_offset)
            return 0
        added_bytes = add_ascending(messages, self._next_offset, self._unfinished, self._offsets)
        if added_bytes is None:
            fresh = {offset: message for message in messages if (offset := _offset_of(message)) >= self._next_offset}
            messages = [fresh[offset] for offset in sorted(fresh)]
            added_bytes = add_ascending(messages, self._next_offset, self._unfinished, self._offsets) or 0
        self._waiting.extend(messages)
        self._bytes += added_bytes
        self._next_offset = max(self._next_offset, next_offset, self._offsets[-1] + 1 if messages else 0)
        return len(messages)

    # --- handlers

    def take(self, count: int, now_ms: int) -> list[M]:
        """Take the next messages for a handler, at most `count`. Empty when none may be taken now."""
        if not self._waiting or self._stopped or now_ms < self._suspended_until_ms:
            return []
        if self.orderly and self._taken_ms:
            return []
        if self.lock is not None and not self.lock.is_held(now_ms):
            return []
        waiting = self._waiting
        if len(waiting) <= count:
            taken = list(waiting)
            waiting.clear()
        else:
            taken = list(starmap(waiting.popleft, repeat((), count)))
        note_taken(taken, now_ms, self._taken_ms)
        return taken

    def finish(self, messages: Iterable[M]) -> int | None:
        """Finish messages. Returns the offset to commit if it moved, else None; also None if the queue was dropped."""
        offsets = self._offsets
        before = offsets[0] if offsets else self._next_offset
        self._bytes -= remove_finished(list(messages), self._unfinished, self._taken_ms, offsets)
        after = offsets[0] if offsets else self._next_offset
        return after if after != before and not self.dropped else None

    def put_back(self, messages: Iterable[M], until_ms: int = 0) -> None:
        """Return messages to the waiting ones, and suspend the queue until `until_ms`.

        Messages that are no longer with a handler are ignored.
        """
        returned = [m for m in messages if self._taken_ms.pop(_offset_of(m), None) is not None]
        self._return_to_waiting(returned, until_ms)

    def overdue(self, now_ms: int) -> list[M]:
        """Return the messages that have been with a handler for too long. Send them back, then `finish` them."""
        late = []
        for offset, taken_ms in self._taken_ms.items():
            if now_ms - taken_ms <= self.limits.handler_ms:
                break
            late.append(self._unfinished[offset])
        return late

    # --- orderly handlers with manual commits

    def hold_for_commit(self, messages: Iterable[M]) -> None:
        """Keep handled messages uncommitted. The next messages may be taken."""
        self._uncommitted += [m for m in messages if self._taken_ms.pop(_offset_of(m), None) is not None]

    def commit(self) -> int | None:
        """Finish all uncommitted messages. Returns what `finish` returns."""
        messages, self._uncommitted = self._uncommitted, []
        return self.finish(messages)

    def rollback(self, until_ms: int = 0) -> None:
        """Return all uncommitted messages to the waiting ones, and suspend the queue until `until_ms`."""
        messages, self._uncommitted = self._uncommitted, []
        self._return_to_waiting(messages, until_ms)

    # --- end

    def stop(self) -> None:
        """Let no more messages be taken. Handlers may still finish theirs and so move the offset. For a shutdown."""
        self._stopped = True

    def drop(self) -> None:
        """Give the queue up to another member: no messages are taken, and no result moves the offset. Commit before."""
        self._stopped = True
        self.dropped = True

    def _return_to_waiting(self, messages: list[M], until_ms: int) -> None:
        self._suspended_until_ms = max(self._suspended_until_ms, until_ms)
        if messages:
            self._waiting = deque(sorted([*messages, *self._waiting], key=_offset_of))


# --- what happens for every message, and so has compiled twins


def _add_ascending(messages: Sequence[Any], next_offset: int, unfinished: dict[int, Any], offsets: deque[int]) -> int | None:
    """Add messages whose offsets ascend from `next_offset` or later. Returns the bytes of their bodies.

    None: their offsets do not, and nothing was added.
    """
    added = list(map(_offset_of, messages))
    if added and (added[0] < next_offset or not _is_ascending(added)):
        return None
    unfinished.update(zip(added, messages, strict=True))
    offsets.extend(added)
    return sum(map(_size_of, messages))


def _note_taken(messages: list[Any], now_ms: int, taken_ms: dict[int, int]) -> None:
    """Note when messages went to a handler."""
    taken_ms.update(dict.fromkeys(map(_offset_of, messages), now_ms))


def _remove_finished(messages: list[Any], unfinished: dict[int, Any], taken_ms: dict[int, int], offsets: deque[int]) -> int:
    """Remove messages, and the offsets before the first unfinished one. Returns the bytes of those that were unfinished."""
    done = list(map(_offset_of, messages))
    gone = list(map(unfinished.pop, done, repeat(None)))
    deque(map(taken_ms.pop, done, repeat(None)), maxlen=0)
    if done == list(islice(offsets, len(done))):  # the usual case: the first messages, in order
        deque(starmap(offsets.popleft, repeat((), len(done))), maxlen=0)
    while offsets and offsets[0] not in unfinished:
        offsets.popleft()
    return sum(map(_size_of, gone if None not in gone else [each for each in gone if each is not None]))


def _is_ascending(offsets: list[int]) -> bool:
    if offsets == list(range(offsets[0], offsets[0] + len(offsets))):  # nearly always, and quicker to see
        return True
    return all(map(int.__lt__, offsets, offsets[1:]))


add_ascending = twin("process_queue", _add_ascending)
note_taken = twin("process_queue", _note_taken)
remove_finished = twin("process_queue", _remove_finished)
