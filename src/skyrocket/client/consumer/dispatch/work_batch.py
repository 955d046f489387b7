"""A hand: messages of one queue that were given out together, to a handler or to a loop of the user, one after another.

One thread takes from it while another may look: deques give and take whole elements, so neither needs a lock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import repeat, starmap

from skyrocket.client.consumer.assigned_queue import HeldQueue
from skyrocket.client.consumer.handlers import Failure, Verdict
from skyrocket.client.received import Received


class Hand:
    __slots__ = ("_now_ms", "batch", "current", "done", "failures", "held", "rest", "since_ms", "taker", "verdicts")

    def __init__(self, held: HeldQueue, messages: list[Received], now_ms: Callable[[], int]) -> None:
        self.held = held
        self.rest = deque(messages)
        self.current: Received | None = None  # with the user's own loop
        self.batch: list[Received] = []  # the same, for who asks for lists
        self.done: deque[Received] = deque()
        self.failures: deque[Failure] = deque()
        self.verdicts: deque[tuple[list[Received], Verdict]] = deque()  # of handlers that commit by hand
        self.since_ms = now_ms()
        self.taker: object = None  # the task, or thread, in which the user's own loop runs
        self._now_ms = now_ms
        held.hands += 1

    def next(self) -> Received | None:
        """None: there are no more, or the queue is no longer ours to go on with."""
        if not self.may_go_on():
            return None
        try:
            return self.rest.popleft()
        except IndexError:
            return None

    def may_go_on(self) -> bool:
        """Whether the queue is still ours; an orderly one also locked for us."""
        state = self.held.state
        return not state.dropped and (state.lease is None or state.lease.is_held(self._now_ms()))

    def more(self, first: Received, count: int) -> list[Received]:
        """`first`, and those behind it of the same topic, so many in all."""
        found = [first]
        while len(found) < count:
            try:
                message = self.rest.popleft()
            except IndexError:
                break
            if message.topic != first.topic:
                self.rest.appendleft(message)
                break
            found.append(message)
        return found

    def half(self) -> list[Received]:
        """The second half of what nobody has begun with, taken away from whoever works on this hand."""
        found: list[Received] = []
        for _ in range((len(self.rest) + 1) // 2):
            try:
                found.append(self.rest.pop())
            except IndexError:
                break
        return found[::-1]

    def laid_down(self) -> list[Received]:
        """What the user's own loop had when it was left."""
        found = self.batch if self.current is None else [self.current]
        self.current, self.batch = None, []
        return found

    @property
    def is_in_use(self) -> bool:
        return self.current is not None or bool(self.batch)

    def given_up(self) -> list[Received]:
        """What nobody has begun with, taken away from whoever works on this hand."""
        found = []
        while True:
            try:
                found.append(self.rest.pop())
            except IndexError:
                return found[::-1]


def drained(messages: deque[Received]) -> list[Received]:
    """What is there now; another thread may append meanwhile."""
    return list(starmap(messages.popleft, repeat((), len(messages))))  # in C: this is done for each message
