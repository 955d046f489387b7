"""Answers that wait until their messages are confirmed: flushed to disk, with sync flush; copied by slaves, with SYNC_MASTER.

    park(answer)             the answer's messages are appended and not confirmed yet: keep it
    release(confirmed)       the horizon moved: which answers may leave?
    expire(now_ms)           time has passed: which answers have waited too long?

`ParkedAnswers` is the table; it has no clock and no sockets. `ConfirmedAnswers` is the shell around it: handlers give it each
answer, the broker calls it when the horizon moves and when time passes, and it writes to the connections.

A success leaves only behind the horizon. While the table is full, handlers refuse new messages before they store them
(`check_room`). An answer that still finds no place leaves at once, and so does one that waited too long: its message is stored,
and nobody knows yet whether it is on disk, or at enough slaves.

| what the message lacks | how long its answer waits | the answer then                                       |
|------------------------|---------------------------|-------------------------------------------------------|
| copies at slaves       | slaveTimeout              | FLUSH_SLAVE_TIMEOUT, also if it is not on disk either |
| a flush                | SYNC_FLUSH_TIMEOUT_MS     | FLUSH_DISK_TIMEOUT                                    |
| a majority of a group  | MAJORITY_TIMEOUT_MS       | SYSTEM_ERROR; also at once if the node does not lead  |

The table keeps encoded answers and nothing of the requests, so its memory is what `limits` says, however large the messages are.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from skyrocket.broker.limits import PARKED_ANSWER_BYTES_MAX, PARKED_ANSWERS_MAX
from skyrocket.net.connection import Connection
from skyrocket.net.outside_log import OutsideLog
from skyrocket.net.router import RefusedError
from skyrocket.protocol.command import decode_command, encode_command
from skyrocket.protocol.frame import FrameSplitter
from skyrocket.protocol.responses import ResponseCode
from skyrocket.store.horizon import MAJORITY, REPLICAS, Horizon
from skyrocket.store.log.segments import OFFSET_MAX

log = logging.getLogger(__name__)
outside = OutsideLog(log)  # a disk that takes long is told of a few times a minute, not with each release

SYNC_FLUSH_TIMEOUT_MS = 5_000  # Apache's syncFlushTimeout: after it the answer is FLUSH_DISK_TIMEOUT, stored but not flushed
MAJORITY_TIMEOUT_MS = 2_500  # DLedger's maxWaitAckTimeMs

_LATE = "The message is stored; the flush to disk takes too long."
_ALONE = "The message is stored; too few slaves have copied it in time."
_NO_MAJORITY = "in-sync replicas not enough: the message is stored here, and no majority of the group has it yet."
_CROWDED = "The message is stored and not flushed to disk; too many answers wait for a flush already."
_CROWDED_ALONE = "The message is stored and not copied by enough slaves; too many answers wait for that already."


class ParkedAnswer(NamedTuple):
    """One or more encoded answers to a connection. They leave when everything before `position` is confirmed."""

    position: int
    since_ms: int
    connection: Connection
    answer: bytes


class ParkedAnswers:
    def __init__(self, answers_max: int = PARKED_ANSWERS_MAX, bytes_max: int = PARKED_ANSWER_BYTES_MAX) -> None:
        self._answers_max = answers_max
        self._bytes_max = bytes_max
        self._parked: deque[ParkedAnswer] = deque()  # in the order of position, as appends are
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._parked)

    @property
    def has_room(self) -> bool:
        return self.size_bytes < self._bytes_max and len(self._parked) < self._answers_max

    def park(self, parked: ParkedAnswer) -> bool:
        """Keep the answer. Return False when there is no room for it."""
        size_bytes = self.size_bytes + len(parked.answer)
        if size_bytes > self._bytes_max or len(self._parked) >= self._answers_max:
            return False
        self.size_bytes = size_bytes
        self._parked.append(parked)
        return True

    def release(self, confirmed: int) -> list[ParkedAnswer]:
        """Take out the answers whose messages all lie before `confirmed`."""
        released = []
        while self._parked and self._parked[0].position <= confirmed:
            released.append(self._take_first())
        return released

    def expire(self, now_ms: int, timeout_ms: int, replicated: int = OFFSET_MAX, slave_timeout_ms: int = 0) -> list[ParkedAnswer]:
        """Take out the answers that have waited longer than `timeout_ms`.

        Those whose messages do not all lie before `replicated` wait no longer than `slave_timeout_ms`.
        """
        expired = []
        while self._parked and now_ms - self._parked[0].since_ms > timeout_ms:
            expired.append(self._take_first())
        while self._parked and self._is_alone(self._parked[0], now_ms, replicated, slave_timeout_ms):
            expired.append(self._take_first())
        if self._parked and self._parked[0].position <= replicated < self._parked[-1].position:
            alone = [one for one in self._parked if self._is_alone(one, now_ms, replicated, slave_timeout_ms)]
            if alone:  # behind others that only wait for the disk
                gone = set(map(id, alone))
                self._parked = deque(one for one in self._parked if id(one) not in gone)
                self.size_bytes -= sum(len(one.answer) for one in alone)
                expired += alone
        return expired

    @staticmethod
    def _is_alone(parked: ParkedAnswer, now_ms: int, replicated: int, slave_timeout_ms: int) -> bool:
        return parked.position > replicated and now_ms - parked.since_ms > slave_timeout_ms

    def take_all(self) -> list[ParkedAnswer]:
        taken, self._parked, self.size_bytes = list(self._parked), deque(), 0
        return taken

    def _take_first(self) -> ParkedAnswer:
        first = self._parked.popleft()
        self.size_bytes -= len(first.answer)
        return first


class ConfirmedAnswers:
    def __init__(
        self,
        horizon: Horizon,
        now_ms: Callable[[], int],
        parked: ParkedAnswers | None = None,
        slave_timeout_ms: Callable[[], int] = lambda: SYNC_FLUSH_TIMEOUT_MS,
        slow_ms: Callable[[], int] = lambda: 0,
    ) -> None:
        """`now_ms` is a clock that never jumps: answers wait for a duration. Those that waited `slow_ms` are logged; 0: none."""
        self._slow_ms = slow_ms
        self._is_group = horizon.requires(MAJORITY)
        self._copies = MAJORITY if self._is_group else REPLICAS
        self._copy_timeout_ms: Callable[[], int] = slave_timeout_ms
        if self._is_group:
            self._copy_timeout_ms = lambda: MAJORITY_TIMEOUT_MS
        self._horizon = horizon
        self._now_ms = now_ms
        self._parked = ParkedAnswers() if parked is None else parked
        self.on_written: Callable[[float], None] | None = None  # gets how long it took to make and write the answers of an append
        self.on_released: Callable[[int], None] | None = None  # gets how many ms the oldest released answer waited
        self.on_unconfirmed: Callable[[int, ResponseCode, int], None] | None = None  # position, code and number of such answers

    @property
    def waiting(self) -> int:
        """How many answers wait."""
        return len(self._parked)

    @property
    def has_room(self) -> bool:
        """Whether another answer can be parked. If not, store no message that somebody waits for."""
        return self._parked.has_room

    def check_room(self) -> None:
        """Raise RefusedError while too many answers wait for a flush."""
        if not self._parked.has_room:
            waiting, size_bytes = len(self._parked), self._parked.size_bytes
            raise RefusedError(
                ResponseCode.SYSTEM_BUSY,
                f"The {self._what_is_slow()} busy: {waiting} answers ({size_bytes} bytes) wait for {self._what_is_missing()}. "
                f"Nothing was stored: try again.",
            )

    def _what_is_slow(self) -> str:
        return "slaves are" if self._horizon.reached(self._copies) < self._horizon.flushed else "disk is"

    def _what_is_missing(self) -> str:
        return "slaves" if self._horizon.reached(self._copies) < self._horizon.flushed else "a flush"

    def send(self, position: int, connection: Connection, answer: bytes, *, is_last: bool = False) -> None:
        """Send encoded answers once everything before `position` is confirmed.

        `answer` has one frame for each request. Answers that find no place to wait leave at once, as if they had waited too long.
        `is_last`: the connection gets no others in this turn, so they need not wait for its end.
        """
        if position <= self._horizon.confirmed:
            if is_last:
                connection.send_now(answer)
            else:
                connection.send(answer)
        elif not self._parked.park(ParkedAnswer(position, self._now_ms(), connection, answer)):
            connection.send(self._answer_unconfirmed(position, answer, _CROWDED, _CROWDED_ALONE))

    def release(self) -> None:
        """Send the answers whose messages the horizon has passed. The broker calls this when the horizon has moved."""
        released = self._parked.release(self._horizon.confirmed)
        for parked in released:
            parked.connection.send(parked.answer)
        if released:
            waited_ms = self._now_ms() - released[0].since_ms
            if waited_ms and self._is_slow(waited_ms):
                outside.warning("Sends were confirmed after %d ms: the disk, or the copies, take long.", waited_ms)
            if self.on_released is not None:
                self.on_released(waited_ms)

    def _is_slow(self, waited_ms: int) -> bool:
        return waited_ms >= self._slow_ms() > 0

    def fail_all(self, why: str) -> None:
        """Answer all that wait with an error: this node of a group leads no more, and cannot say what becomes of them."""
        for parked in self._parked.take_all():
            parked.connection.send(self._turn_into(ResponseCode.SYSTEM_ERROR, parked.position, parked.answer, why))

    def check_time(self, now_ms: int) -> None:
        """Answer the requests that have waited too long: the messages are stored, maybe not on disk or at slaves."""
        replicated = self._horizon.reached(self._copies)
        expired = self._parked.expire(now_ms, SYNC_FLUSH_TIMEOUT_MS, replicated, self._copy_timeout_ms())
        waited_ms = max((now_ms - parked.since_ms for parked in expired), default=0)
        if expired and self._is_slow(waited_ms):
            outside.warning("%d answers to sends left after %d ms without a confirmation.", len(expired), waited_ms)
        for parked in expired:
            parked.connection.send(self._answer_unconfirmed(parked.position, parked.answer, _LATE, _ALONE))

    def _answer_unconfirmed(self, position: int, answer: bytes, unflushed: str, alone: str) -> bytes:
        if self._is_group:
            return self._turn_into(ResponseCode.SYSTEM_ERROR, position, answer, _NO_MAJORITY)
        if position > self._horizon.reached(REPLICAS):
            return self._turn_into(ResponseCode.FLUSH_SLAVE_TIMEOUT, position, answer, alone)
        return self._turn_into(ResponseCode.FLUSH_DISK_TIMEOUT, position, answer, unflushed)

    def _turn_into(self, code: ResponseCode, position: int, answer: bytes, remark: str) -> bytes:
        """Turn encoded successes into another code. The other fields stay: Apache's clients read the message's id from them."""
        commands = [decode_command(frame) for frame in FrameSplitter(len(answer)).feed(answer)]
        for command in commands:
            command.code, command.remark = code, remark
        if self.on_unconfirmed is not None:
            self.on_unconfirmed(position, code, len(commands))
        return b"".join(map(encode_command, commands))
