"""The one horizon: appended, flushed, confirmed.

A message is confirmed when everything that its promise needs has reached it: nothing but the append, a flush, a replica's
acknowledgement… The horizon is the least of those positions and moves forward only. What lies before it is answered, put into
queues and index, and read; what lies behind it does not exist for anyone outside.
"""

from __future__ import annotations

from collections.abc import Iterable


class Horizon:
    def __init__(self, position: int, needs: Iterable[str] = ()) -> None:
        self.appended = position
        self.flushed = position
        self.confirmed = position
        self._reached = dict.fromkeys(needs, position)
        self._counts_flush = "flushed" in self._reached

    def append(self, position: int) -> int:
        assert position >= self.appended
        self.appended = position
        return self._move()

    def flush(self, position: int) -> int:
        """Everything before `position` is on disk."""
        if position > self.flushed:
            self.flushed = min(position, self.appended)
            if self._counts_flush:
                self._reached["flushed"] = self.flushed
        return self._move()

    def reach(self, need: str, position: int) -> int:
        """Whatever `need` names (a replica, a majority) has everything before `position`."""
        self._reached[need] = max(position, self._reached[need])
        return self._move()

    def require(self, need: str, position: int) -> None:
        """From now on a message needs this too. What was confirmed stays confirmed."""
        self._reached[need] = position
        self._counts_flush = "flushed" in self._reached

    def release(self, need: str) -> int:
        self._reached.pop(need, None)
        self._counts_flush = "flushed" in self._reached
        return self._move()

    def _move(self) -> int:
        if self._reached:
            self.confirmed = max(self.confirmed, min(self.appended, *self._reached.values()))
        else:
            self.confirmed = self.appended
        return self.confirmed
