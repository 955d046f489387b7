"""Holds messages back until what they tell is durable."""

from __future__ import annotations

from typing import Final, TypeAlias

from skyrocket.raft.ports import LogPoint, Reply, Send, SendEntries

Outgoing: TypeAlias = Send | SendEntries | Reply

HELD_MAX: Final = 10_000


class Outbox:
    """The messages that wait for the disk, in their order. Beyond `HELD_MAX` a message is dropped, as a network may drop it."""

    def __init__(self) -> None:
        self._held: list[Outgoing] = []
        self._state = 0
        self._log = LogPoint(0, -1)

    def __len__(self) -> int:
        return len(self._held)

    def offer(self, message: Outgoing) -> bool:
        """Whether the message may leave now. Otherwise it is held, and a later call returns it."""
        after = message.after
        if after.state <= self._state and self._covers(after.log):
            return True
        if len(self._held) < HELD_MAX:
            self._held.append(message)
        return False

    def state_durable(self, token: int) -> list[Outgoing]:
        """Return the messages that may leave now."""
        self._state = max(self._state, token)
        return self._release()

    def log_durable(self, point: LogPoint) -> list[Outgoing]:
        """Return the messages that may leave now. Messages about a log that was truncated since are forgotten."""
        self._log = max(self._log, point)
        return self._release()

    def _covers(self, point: LogPoint | None) -> bool:
        return point is None or (point.epoch == self._log.epoch and point.index <= self._log.index)

    def _release(self) -> list[Outgoing]:
        free: list[Outgoing] = []
        held: list[Outgoing] = []
        for message in self._held:
            point = message.after.log
            if point is not None and point.epoch < self._log.epoch:
                continue
            if message.after.state <= self._state and self._covers(point):
                free.append(message)
            else:
                held.append(message)
        self._held = held
        return free
