"""The window of pulls in flight for one range of a queue, and what their responses change. Pure.

    next_pulls()                  the pulls to send now
    complete_expected(count)      the next responses were as expected
    complete_head(next_offset)    a response was not as expected: which of its offsets count?
    restart()                     the connection is gone, and with it all responses

Without a filter a queue's offsets have no gaps. So the next pull's offset is known before the last response arrives, if the
number of messages per response is known. Brokers limit it by count and by bytes, with other limits for messages on disk. So the
window learns the `stride` from responses. If a response is shorter than its stride, the pulls after it are useless, and their
offsets are pulled again. Every `PROBE_EVERY` pulls, one asks for more than the stride, to find out whether the broker would
return more; if it does not, nothing is lost.

With a filter only the response says where the next pull starts, so one pull at a time is in flight.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final, NamedTuple

PROBE_EVERY: Final = 32  # pulls
PROBE_TIMES: Final = 4  # the stride


class PlannedPull(NamedTuple):
    number: int  # the request's opaque
    offset: int
    upto: int  # where the next pull starts if the response is as expected
    messages: int  # to request


class OffsetRange(NamedTuple):
    """The offsets from `start` up to, but not including, `stop`."""

    start: int
    stop: int


@dataclass(slots=True)
class PullWindow:
    position: int  # all offsets before it are complete
    stop: int
    most: int  # messages of one pull
    ahead: int  # pulls in flight at once
    is_filtered: bool = False
    stride: int = 0  # 0: not known yet
    _next: int = field(init=False)
    _in_flight: deque[PlannedPull] = field(default_factory=deque)
    _stale: int = 0  # pulls in flight whose responses are useless
    _number: int = 0
    _since_probe: int = 0

    def __post_init__(self) -> None:
        self._next = self.position

    @property
    def is_done(self) -> bool:
        return self.position >= self.stop

    @property
    def in_flight(self) -> int:
        return len(self._in_flight) + self._stale

    @property
    def head(self) -> int | None:
        """Return the number of the pull whose response is needed next."""
        return self._in_flight[0].number if self._in_flight else None

    @property
    def expected(self) -> list[PlannedPull]:
        """Return the pulls whose responses are needed next, in order."""
        return list(self._in_flight)

    def complete_expected(self, count: int) -> None:
        """Complete the first pulls, whose responses were as expected. The stride stays."""
        for _ in range(count):
            self.position = self._in_flight.popleft().upto

    def next_pulls(self) -> list[PlannedPull]:
        """Return the pulls to send now, and count them as in flight."""
        if self.is_filtered or not self.stride:
            return self._single_pull()
        pulls: list[PlannedPull] = []
        number, offset, stop, stride = self._number, self._next, self.stop, self.stride
        for _ in range(self.ahead - self.in_flight):
            if offset >= stop:
                break
            number += 1
            self._since_probe += 1
            upto, count = min(offset + stride, stop), stride
            if self._since_probe >= PROBE_EVERY:
                self._since_probe, count = 0, stride * PROBE_TIMES
            pulls.append(PlannedPull(number, offset, upto, min(count, stop - offset, self.most)))
            offset = upto
        self._number, self._next = number, offset
        self._in_flight.extend(pulls)
        return pulls

    def _single_pull(self) -> list[PlannedPull]:
        """Return one pull if none is in flight: its response decides about the next."""
        if self._next >= self.stop or self.in_flight:
            return []
        self._number += 1
        count = self.most if self.is_filtered else min(self.most, self.stop - self._next)
        pull = PlannedPull(self._number, self._next, self.stop, count)
        self._in_flight.append(pull)
        self._next = self.stop
        return [pull]

    def is_wanted(self, number: int) -> bool:
        """Return whether a response is to be kept until it is at the head."""
        return bool(self._in_flight) and number >= self._in_flight[0].number

    def drop_stale(self) -> None:
        """Count a useless response as arrived."""
        self._stale -= 1

    def complete_head(self, next_offset: int) -> OffsetRange:
        """Complete the pull at the head, after which the broker continues at `next_offset`.

        Return the offsets of the response that count: from the pull's offset up to the start of the next pull in flight.
        """
        pull = self._in_flight.popleft()
        if self.is_filtered:
            self._continue_at(next_offset)
            return OffsetRange(pull.offset, min(next_offset, self.stop))
        stop = min(next_offset, self.stop)
        if stop < pull.upto:
            self._continue_at(stop)
        elif self._in_flight:
            stop = pull.upto  # the next response repeats the rest
        else:
            self._next = stop
        self.position = stop
        self._learn(pull, next_offset)
        return OffsetRange(pull.offset, stop)

    def _learn(self, pull: PlannedPull, next_offset: int) -> None:
        got = next_offset - pull.offset
        if got <= 0 or (pull.upto >= self.stop and next_offset >= self.stop):
            return  # the last response of a range may be short for no other reason
        if not self.stride:
            self.stride = got
        elif next_offset < pull.upto:
            self.stride = max(1, got - got // 8)  # message sizes vary: the next response may be shorter still
        elif 4 * got >= 5 * self.stride:
            self.stride += (got - self.stride + 1) // 2

    def _continue_at(self, offset: int) -> None:
        self.position = self._next = offset
        self._stale += len(self._in_flight)
        self._in_flight.clear()

    def skip_to(self, offset: int) -> None:
        """Continue at an offset because the messages before it do not exist."""
        self._in_flight.popleft()
        self._continue_at(offset)

    def skip_rest(self) -> None:
        """End the range because no further message of it exists."""
        self._continue_at(self.stop)

    def restart(self) -> None:
        """Start again with nothing in flight. The stride is learned again: the broker may be another, or read from disk."""
        self._in_flight.clear()
        self._stale = 0
        self._next = self.position
        self.stride = 0
