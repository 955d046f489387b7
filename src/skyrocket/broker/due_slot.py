"""The slot of time that is being delivered: its messages in the order in which they are due, without those that were taken back.

A slot that starts at S has what is due in (S, S + precision]. Its units are read from the timer log, from the last to the first,
and kept as numbers, so that a million of them in one second is no trouble: when it is due, and where in the log.
"""

from __future__ import annotations

import heapq

_POSITION_BITS = 47  # of a position in the timer log; behind them, ms since the start of the slot
_POSITION_MASK = (1 << _POSITION_BITS) - 1


class DueSlot:
    def __init__(self, start_ms: int, precision_ms: int, last_unit: int, units: int = 0) -> None:
        self.start_ms = start_ms
        self.end_ms = start_ms + precision_ms
        self.next_unit = last_unit  # where to read on in the chain; less than 0 at its end
        self.units_left = units  # by the wheel's count; 0 at the chain's end, or the log is damaged
        self.taken_back: set[str] = set()  # unique keys
        self.gave_out = False
        self._due: list[int] = []  # a heap

    @property
    def is_read(self) -> bool:
        return self.next_unit < 0

    def __len__(self) -> int:
        return len(self._due)

    def add(self, due_ms: int, position: int) -> None:
        """What came too late for its own slot is due at the start of this one."""
        after_ms = min(max(due_ms, self.start_ms + 1), self.end_ms) - self.start_ms
        heapq.heappush(self._due, after_ms << _POSITION_BITS | position)

    def take(self, now_ms: int, most: int) -> list[int]:
        """Positions of what is due, the earliest first."""
        limit = (now_ms - self.start_ms + 1) << _POSITION_BITS
        due = self._due
        taken: list[int] = []
        while due and len(taken) < most and due[0] < limit:
            taken.append(heapq.heappop(due))
        self.gave_out = self.gave_out or bool(taken)
        return taken

    def give_back(self, taken: list[int]) -> None:
        """They were not delivered after all."""
        for number in taken:
            heapq.heappush(self._due, number)

    def next_due_ms(self) -> int | None:
        return self.start_ms + (self._due[0] >> _POSITION_BITS) if self._due else None

    def is_due(self, now_ms: int) -> bool:
        next_ms = self.next_due_ms()
        return next_ms is not None and next_ms <= now_ms

    def is_over(self, now_ms: int) -> bool:
        """Nothing is left, and nothing can be added."""
        return self.is_read and not self._due and now_ms >= self.end_ms

    def delivered_until_ms(self) -> int:
        """Whatever is due until then was delivered."""
        if not self.is_read:
            return self.start_ms
        next_ms = self.next_due_ms()
        return self.end_ms if next_ms is None else next_ms - 1


def position_of(number: int) -> int:
    """Where in the log, of what `take` returned."""
    return number & _POSITION_MASK
