"""A work batch: messages of one queue that a handler, or the user's own loop, works through one after another.

One thread takes messages while another may steal some or look at the results. The deques make each step atomic, so neither thread
needs a lock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import repeat, starmap

from skyrocket.client.consumer.assigned_queue import AssignedQueue
from skyrocket.client.consumer.handlers import HandlerFailure, Verdict
from skyrocket.client.received import Received


class WorkBatch:
    """Messages of one queue that were dispatched together, and their results."""

    __slots__ = (
        "_now_ms",
        "assigned",
        "current",
        "current_list",
        "done",
        "failures",
        "owner",
        "pending",
        "started_ms",
        "verdicts",
    )

    def __init__(self, assigned: AssignedQueue, messages: list[Received], started_ms: int, now_ms: Callable[[], int]) -> None:
        self.assigned = assigned
        self.pending = deque(messages)  # not started
        self.current: Received | None = None  # the message that the user's loop works on
        self.current_list: list[Received] = []  # the messages that a caller of `Consumer.messages` works on
        self.done: deque[Received] = deque()
        self.failures: deque[HandlerFailure] = deque()
        self.verdicts: deque[tuple[list[Received], Verdict]] = deque()  # of handlers with manual commits
        self.started_ms = started_ms
        self.owner: object = None  # the task or thread in which the user's loop runs
        self._now_ms = now_ms
        assigned.batches_in_progress += 1

    def take_next(self) -> Received | None:
        """Take the next message. None: no message is left, or the queue may not be consumed any more."""
        if not self.may_continue():
            return None
        try:
            return self.pending.popleft()
        except IndexError:
            return None

    def may_continue(self) -> bool:
        """Whether the queue is still assigned to this consumer, and locked if it is orderly."""
        process_queue = self.assigned.process_queue
        return not process_queue.dropped and (process_queue.lock is None or process_queue.lock.is_held(self._now_ms()))

    def take_list(self, first: Received, count: int) -> list[Received]:
        """Take the messages after `first` that have its topic. Returns `first` and those, at most `count` in all."""
        messages = [first]
        while len(messages) < count:
            try:
                message = self.pending.popleft()
            except IndexError:
                break
            if message.topic != first.topic:
                self.pending.appendleft(message)
                break
            messages.append(message)
        return messages

    def steal_half(self) -> list[Received]:
        """Take the second half of the pending messages away, for another worker."""
        stolen: list[Received] = []
        for _ in range((len(self.pending) + 1) // 2):
            try:
                stolen.append(self.pending.pop())
            except IndexError:
                break
        return stolen[::-1]

    def take_current(self) -> list[Received]:
        """Take the messages that the user's loop worked on when it stopped."""
        messages = self.current_list if self.current is None else [self.current]
        self.current, self.current_list = None, []
        return messages

    @property
    def has_current(self) -> bool:
        return self.current is not None or bool(self.current_list)

    def take_pending(self) -> list[Received]:
        """Take all pending messages away, to put them back into the process queue."""
        messages = []
        while True:
            try:
                messages.append(self.pending.pop())
            except IndexError:
                return messages[::-1]


def drain(messages: deque[Received]) -> list[Received]:
    """Remove and return what the deque holds now. Another thread may append meanwhile."""
    return list(starmap(messages.popleft, repeat((), len(messages))))  # runs in C: this happens for every message
