"""Which pulls of a range are under way, and what their answers make of it. Pure.

    asks()                        pulls to be sent now
    as_expected(count)            so many answers came, and were what they should be
    answered(next)                an answer came that was not: which offsets of it count?
    restart()                     the connection is gone, and all answers with it

Without a filter a queue's offsets have no gaps, so where the next pull begins is known before the answer to the last one is
here, if one knows how many messages a broker gives at once. Brokers have their own bounds, by number and by bytes, and others
for what they must fetch from disk: so the `stride` is learnt from answers. When one has less than it should, those behind it
are of no use, and are asked for again. Now and then a pull asks for more than the stride, to see whether there would be;
nothing is lost when there is not.

With a filter only the answer tells where to go on, so there is one pull at a time.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final, NamedTuple

PROBE_EVERY: Final = 32  # pulls
PROBE_TIMES: Final = 4  # the stride


class Ask(NamedTuple):
    number: int
    offset: int
    upto: int  # where the next one begins, if this one has what it should
    messages: int  # asked for


class Part(NamedTuple):
    """Of an answer: the messages from `start` up to and without `stop`."""

    start: int
    stop: int


@dataclass(slots=True)
class PullAhead:
    position: int  # what is before it has been answered
    stop: int
    most: int  # messages of one pull
    ahead: int  # pulls under way at once
    is_filtered: bool = False
    stride: int = 0  # 0: not known yet
    _next: int = field(init=False)
    _under_way: deque[Ask] = field(default_factory=deque)
    _stale: int = 0  # pulls under way whose answers are of no use
    _number: int = 0
    _since_probe: int = 0

    def __post_init__(self) -> None:
        self._next = self.position

    @property
    def is_done(self) -> bool:
        return self.position >= self.stop

    @property
    def under_way(self) -> int:
        return len(self._under_way) + self._stale

    @property
    def head(self) -> int | None:
        """The number of the pull whose answer is wanted next."""
        return self._under_way[0].number if self._under_way else None

    @property
    def expected(self) -> list[Ask]:
        """The pulls whose answers are wanted next, in their order."""
        return list(self._under_way)

    def as_expected(self, count: int) -> None:
        """So many of them were answered with what they should have: nothing is learnt from it."""
        for _ in range(count):
            self.position = self._under_way.popleft().upto

    def asks(self) -> list[Ask]:
        if self.is_filtered or not self.stride:
            return self._first_ask()
        asks: list[Ask] = []
        number, offset, stop, stride = self._number, self._next, self.stop, self.stride
        for _ in range(self.ahead - self.under_way):
            if offset >= stop:
                break
            number += 1
            self._since_probe += 1
            upto, count = min(offset + stride, stop), stride
            if self._since_probe >= PROBE_EVERY:
                self._since_probe, count = 0, stride * PROBE_TIMES
            asks.append(Ask(number, offset, upto, min(count, stop - offset, self.most)))
            offset = upto
        self._number, self._next = number, offset
        self._under_way.extend(asks)
        return asks

    def _first_ask(self) -> list[Ask]:
        """One at a time: what its answer has decides about the next."""
        if self._next >= self.stop or self.under_way:
            return []
        self._number += 1
        count = self.most if self.is_filtered else min(self.most, self.stop - self._next)
        ask = Ask(self._number, self._next, self.stop, count)
        self._under_way.append(ask)
        self._next = self.stop
        return [ask]

    def is_wanted(self, number: int) -> bool:
        """Whether an answer is to be kept until its turn comes."""
        return bool(self._under_way) and number >= self._under_way[0].number

    def dropped(self) -> None:
        """An answer came that nobody wants any more."""
        self._stale -= 1

    def answered(self, next_offset: int) -> Part:
        """The pull at the head was answered, and the broker would go on at `next_offset`. What counts of it begins where it was
        asked for, and ends before the pull that follows."""
        ask = self._under_way.popleft()
        if self.is_filtered:
            self._go_on(next_offset)
            return Part(ask.offset, min(next_offset, self.stop))
        stop = min(next_offset, self.stop)
        if stop < ask.upto:
            self._go_on(stop)
        elif self._under_way:
            stop = ask.upto  # the rest comes again with the next one
        else:
            self._next = stop
        self.position = stop
        self._learn(ask, next_offset)
        return Part(ask.offset, stop)

    def _learn(self, ask: Ask, next_offset: int) -> None:
        got = next_offset - ask.offset
        if got <= 0 or (ask.upto >= self.stop and next_offset >= self.stop):
            return  # a rest says nothing
        if not self.stride:
            self.stride = got
        elif next_offset < ask.upto:
            self.stride = max(1, got - got // 8)  # sizes vary: the next one may have less still
        elif 4 * got >= 5 * self.stride:
            self.stride += (got - self.stride + 1) // 2

    def _go_on(self, offset: int) -> None:
        self.position = self._next = offset
        self._stale += len(self._under_way)
        self._under_way.clear()

    def skip_to(self, offset: int) -> None:
        """The messages before it are not there."""
        self._under_way.popleft()
        self._go_on(offset)

    def skip_rest(self) -> None:
        """Nothing more of the range is there."""
        self._go_on(self.stop)

    def restart(self) -> None:
        """Nothing is under way any more. What a broker gives is to be learnt anew: it may be another, or have it on disk now."""
        self._under_way.clear()
        self._stale = 0
        self._next = self.position
        self.stride = 0
