"""The timer slot that is being delivered: its messages, sorted by due time, without those that were recalled.

A slot that starts at S holds the messages due in (S, S + precision]. Its units are read from the timer log, last to first, and
each is kept as one integer (due time and position in the timer log), so that a slot can hold a million of them. A message that
came too late for its own slot is due before S, so that its integer is negative.
"""

from __future__ import annotations

from bisect import bisect_right
from operator import neg

NOTHING_MS = 0  # no message is due until then

_POSITION_BITS = 47  # position in the timer log; the higher bits are ms since the slot's start
_POSITION_MASK = (1 << _POSITION_BITS) - 1


class TimerSlot:
    def __init__(self, start_ms: int, precision_ms: int, last_unit: int, units: int = 0) -> None:
        self.start_ms = start_ms
        self.end_ms = start_ms + precision_ms
        self.next_unit = last_unit  # the next unit of the chain to read; negative at its end
        self.units_left = units  # by the wheel's count; if not 0 at the chain's end, the log is damaged
        self.recalled: set[str] = set()  # unique keys
        self.has_delivered = False
        self._due: list[int] = []  # descending: the earliest is last
        self._is_sorted = True

    @property
    def is_read(self) -> bool:
        return self.next_unit < 0

    def __len__(self) -> int:
        return len(self._due)

    def add(self, due_ms: int, position: int) -> None:
        """Add a message. One that came too late for its own slot keeps its due time."""
        after_ms = min(due_ms, self.end_ms) - self.start_ms
        self._due.append(after_ms << _POSITION_BITS | position)
        self._is_sorted = False

    def take(self, now_ms: int, most: int) -> list[int]:
        """Remove and return the due messages, earliest first. `position_of` decodes them."""
        limit = (now_ms - self.start_ms + 1) << _POSITION_BITS
        due = self._sort_due()
        first = bisect_right(due, -limit, lo=max(0, len(due) - most), key=neg)
        taken = due[first:]
        del due[first:]
        taken.reverse()
        self.has_delivered = self.has_delivered or bool(taken)
        return taken

    def put_back(self, taken: list[int]) -> None:
        """Put back messages that were not delivered."""
        self._due += taken
        self._is_sorted = False

    def _sort_due(self) -> list[int]:
        if not self._is_sorted:
            self._due.sort(reverse=True)  # cheap: most were read in this order
            self._is_sorted = True
        return self._due

    def next_due_ms(self) -> int | None:
        return self.start_ms + (self._sort_due()[-1] >> _POSITION_BITS) if self._due else None

    def is_due(self, now_ms: int) -> bool:
        next_ms = self.next_due_ms()
        return next_ms is not None and next_ms <= now_ms

    def is_over(self, now_ms: int) -> bool:
        """Whether no message is left and none can be added."""
        return self.is_read and not self._due and now_ms >= self.end_ms

    def delivered_until_ms(self) -> int:
        """Return the time up to which all due messages are delivered."""
        if not self.is_read:
            return NOTHING_MS
        next_ms = self.next_due_ms()
        return self.end_ms if next_ms is None else next_ms - 1


def position_of(number: int) -> int:
    """Return the position in the timer log of a number that `take` returned."""
    return number & _POSITION_MASK
