"""The lock of an orderly consumer on one queue: the broker gives it, and it is good only while it is asked for again.

    granted(asked_ms)     the broker says the queue is ours
    refused()             the broker says it is another's
    is_held(now_ms)       may a handler be started?
    is_due(now_ms)        is it time to ask again?

Time counts from the moment of asking, not of the answer: the broker's own clock for the lock cannot have begun earlier.
"""

from __future__ import annotations

from skyrocket.client.consumer_limits import ConsumerLimits


class QueueLease:
    __slots__ = ("_limits", "_since_ms")

    def __init__(self, limits: ConsumerLimits | None = None) -> None:
        self._limits = limits or ConsumerLimits()
        self._since_ms: int | None = None

    def granted(self, asked_ms: int) -> None:
        if self._since_ms is None or asked_ms > self._since_ms:  # answers may come in another order than the questions
            self._since_ms = asked_ms

    def refused(self) -> bool:
        """Whether it was ours until now. Then another may consume what is cached here: give the queue up and begin anew."""
        was_held = self._since_ms is not None
        self._since_ms = None
        return was_held

    def is_held(self, now_ms: int) -> bool:
        return self._since_ms is not None and now_ms - self._since_ms <= self._limits.lock_expires_ms

    def is_due(self, now_ms: int) -> bool:
        return self._since_ms is None or now_ms - self._since_ms >= self._limits.lock_renew_ms
