"""One delay level: which of the messages at the head of its queue are due, and when to look again.

A level's messages wait equally long, so they come due in the order of their queue, and only its head has to be looked at. Each
queue entry says when its message is to be delivered. Such a time can be further away than the level's delay, when the clock was
set back or the level was made shorter: then everything that is in the queue by now waits that delay once more, at the longest.
"""

from __future__ import annotations

from collections.abc import Sequence


class DelayLevel:
    def __init__(self, level: int, delay_ms: int) -> None:
        self.level = level
        self.queue_id = level - 1
        self.next_ms: int | None = 0  # when to look; None: when something new is there
        self._delay_ms = delay_ms
        self._bounded_until = 0  # messages before this offset …
        self._bound_ms = 0  # … are due then at the latest

    def look(self, times_ms: Sequence[int], offset: int, most: int, now_ms: int) -> int:
        """How many messages from `offset` on are due, when the entries there say these times; the queue ends at `most`."""
        due = self._due(times_ms, offset, most, now_ms)
        if due == len(times_ms):
            self.next_ms = now_ms if offset + due < most else None
        return due

    def _due(self, times_ms: Sequence[int], offset: int, most: int, now_ms: int) -> int:
        if not times_ms or max(times_ms) <= now_ms:
            return len(times_ms)
        for at, time_ms in enumerate(times_ms):
            due_ms = self._bounded(time_ms, offset + at, most, now_ms)
            if due_ms > now_ms:
                self.next_ms = due_ms
                return at
        return len(times_ms)

    def _bounded(self, time_ms: int, offset: int, most: int, now_ms: int) -> int:
        if offset < self._bounded_until:
            time_ms = min(time_ms, self._bound_ms)
        latest_ms = now_ms + self._delay_ms
        if time_ms > latest_ms:
            self._bounded_until, self._bound_ms = most, latest_ms
        return min(time_ms, latest_ms)
