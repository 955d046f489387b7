"""Answers that wait until their messages are confirmed: flushed to disk, with sync flush.

    park(answer)             the answer's messages are appended and not confirmed yet: keep it
    release(confirmed)       the horizon moved: which answers may leave?
    expire(now_ms)           time has passed: which answers have waited too long?

`ParkedAnswers` is the table; it has no clock and no sockets. `ConfirmedAnswers` is the shell around it: handlers give it each
answer, the broker calls it when the horizon moves and when time passes, and it writes to the connections.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple

from skyrocket.net.connection import Connection
from skyrocket.protocol.command import Command
from skyrocket.protocol.responses import ResponseCode
from skyrocket.store.horizon import Horizon

SYNC_FLUSH_TIMEOUT_MS = 5_000  # Apache's syncFlushTimeout: after it the answer is FLUSH_DISK_TIMEOUT, stored but not flushed
PARKED_ANSWERS_MAX = 100_000  # beyond it an answer leaves at once


class ParkedAnswer(NamedTuple):
    """An answer that leaves when everything before `position` is confirmed."""

    position: int
    since_ms: int
    connection: Connection
    requests: Callable[[], Iterable[Command]]  # the requests that it answers: each gets FLUSH_DISK_TIMEOUT if it expires
    answer: bytes


class ParkedAnswers:
    def __init__(self, answers_max: int = PARKED_ANSWERS_MAX) -> None:
        self._answers_max = answers_max
        self._parked: deque[ParkedAnswer] = deque()  # in the order of position, as appends are

    def __len__(self) -> int:
        return len(self._parked)

    def park(self, parked: ParkedAnswer) -> bool:
        """Keep the answer. Return False when the table is full."""
        if len(self._parked) >= self._answers_max:
            return False
        self._parked.append(parked)
        return True

    def release(self, confirmed: int) -> list[ParkedAnswer]:
        """Take out the answers whose messages all lie before `confirmed`."""
        released = []
        while self._parked and self._parked[0].position <= confirmed:
            released.append(self._parked.popleft())
        return released

    def expire(self, now_ms: int, timeout_ms: int) -> list[ParkedAnswer]:
        """Take out the answers that have waited longer than `timeout_ms`."""
        expired = []
        while self._parked and now_ms - self._parked[0].since_ms > timeout_ms:
            expired.append(self._parked.popleft())
        return expired


class ConfirmedAnswers:
    def __init__(self, horizon: Horizon, wall_ms: Callable[[], int], parked: ParkedAnswers | None = None) -> None:
        self._horizon = horizon
        self._wall_ms = wall_ms
        self._parked = ParkedAnswers() if parked is None else parked

    def send(self, position: int, connection: Connection, command: Command, answer: bytes) -> None:
        """Send the answer to `command` once everything before `position` is confirmed, or at once when too many answers wait."""
        self.send_all(position, connection, lambda: (command,), answer)

    def send_all(self, position: int, connection: Connection, requests: Callable[[], Iterable[Command]], answer: bytes) -> None:
        """Like `send`, for many requests of one connection whose answers lie one behind the other in `answer`."""
        must_wait = position > self._horizon.confirmed
        if not must_wait or not self._parked.park(ParkedAnswer(position, self._wall_ms(), connection, requests, answer)):
            connection.send(answer)

    def release(self) -> None:
        """Send the answers whose messages the horizon has passed. The broker calls this when the horizon has moved."""
        for parked in self._parked.release(self._horizon.confirmed):
            parked.connection.send(parked.answer)

    def check_time(self, now_ms: int) -> None:
        """Answer FLUSH_DISK_TIMEOUT to the requests that have waited too long: the messages are stored, maybe not on disk."""
        for parked in self._parked.expire(now_ms, SYNC_FLUSH_TIMEOUT_MS):
            remark = "The message is stored; the flush to disk takes too long."
            for command in parked.requests():
                parked.connection.send_command(command.response(ResponseCode.FLUSH_DISK_TIMEOUT, remark=remark))
