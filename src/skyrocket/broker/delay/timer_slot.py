"""The slot of time that is being delivered: its messages in the order in which they are due, without those that were taken back.

A slot that starts at S has what is due in (S, S + precision]. Its units are read from the timer log, from the last to the first,
and kept as numbers, so that a million of them in one second is no trouble: when it is due, and where in the log.
"""

from __future__ import annotations

from bisect import bisect_right
from operator import neg

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
        self._due: list[int] = []  # the earliest last
        self._is_sorted = True

    @property
    def is_read(self) -> bool:
        return self.next_unit < 0

    def __len__(self) -> int:
        return len(self._due)

    def add(self, due_ms: int, position: int) -> None:
        """What came too late for its own slot is due at the start of this one."""
        after_ms = min(max(due_ms, self.start_ms + 1), self.end_ms) - self.start_ms
        self._due.append(after_ms << _POSITION_BITS | position)
        self._is_sorted = False

    def take(self, now_ms: int, most: int) -> list[int]:
        """Positions of what is due, the earliest first."""
        limit = (now_ms - self.start_ms + 1) << _POSITION_BITS
        due = self._sorted()
        first = bisect_right(due, -limit, lo=max(0, len(due) - most), key=neg)
        taken = due[first:]
        del due[first:]
        taken.reverse()
        self.gave_out = self.gave_out or bool(taken)
        return taken

    def give_back(self, taken: list[int]) -> None:
        """They were not delivered after all."""
        self._due += taken
        self._is_sorted = False

    def _sorted(self) -> list[int]:
        if not self._is_sorted:
            self._due.sort(reverse=True)  # little work: most were read in this order
            self._is_sorted = True
        return self._due

    def next_due_ms(self) -> int | None:
        return self.start_ms + (self._sorted()[-1] >> _POSITION_BITS) if self._due else None

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
