"""The horizon: how far the log is appended, flushed and confirmed.

    commit log   | confirmed | flushed, perhaps | appended |
                             ^ confirmed                   ^ appended

A message is confirmed once every requirement has reached it: a flush, a replica's acknowledgement, a majority. Without any
requirement an append is confirmed at once. The confirmed position is the least of all requirements, and moves forward only.
Messages before it are acknowledged, dispatched to queues and index, and readable. Messages behind it are invisible outside the
store.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

REPLICAS: Final = "replicas"  # the requirement that enough slaves have a message
MAJORITY: Final = "majority"  # the requirement that a majority of a DLedger group has a message on disk


class Horizon:
    def __init__(self, position: int, needs: Iterable[str] = ()) -> None:
        self.appended = position
        self.flushed = position
        self.confirmed = position
        self._reached = dict.fromkeys(needs, position)
        self._counts_flush = "flushed" in self._reached

    def append(self, position: int) -> int:
        """Record that the log ends at `position`. Return the confirmed position."""
        assert position >= self.appended
        self.appended = position
        return self._advance()

    def truncate(self, position: int) -> None:
        """Record that the log ends at `position`: what lay behind it was not confirmed, and is gone."""
        assert position >= self.confirmed
        self.appended = position
        self.flushed = min(self.flushed, position)
        self._reached = {need: min(reached, position) for need, reached in self._reached.items()}

    def flush(self, position: int) -> int:
        """Record that everything before `position` is on disk. Return the confirmed position."""
        if position > self.flushed:
            self.flushed = min(position, self.appended)
            if self._counts_flush:
                self._reached["flushed"] = self.flushed
        return self._advance()

    def reach(self, need: str, position: int) -> int:
        """Record that the requirement `need` (a replica, a majority) has everything before `position`.

        Return the confirmed position.
        """
        self._reached[need] = max(position, self._reached[need])
        return self._advance()

    def require(self, need: str, position: int) -> None:
        """Add a requirement. What was confirmed stays confirmed."""
        self._reached[need] = position
        self._counts_flush = "flushed" in self._reached

    def release(self, need: str) -> int:
        """Drop a requirement. Return the confirmed position."""
        self._reached.pop(need, None)
        self._counts_flush = "flushed" in self._reached
        return self._advance()

    def reached(self, need: str) -> int:
        """Return how far a requirement is; as far as the log, if there is no such requirement."""
        return self._reached.get(need, self.appended)

    def cut(self, position: int) -> None:
        """Record that a slave gives up what its master does not have. It is the only way in which the horizon goes back."""
        self.appended = position
        self.flushed = min(self.flushed, position)
        self.confirmed = min(self.confirmed, position)
        self._reached = {need: min(reached, position) for need, reached in self._reached.items()}

    def restart(self, position: int) -> None:
        """Record that the log is empty and goes on at `position`: its node takes everything from its group again."""
        self.appended = self.flushed = self.confirmed = position
        self._reached = dict.fromkeys(self._reached, position)

    def requires(self, need: str) -> bool:
        return need in self._reached

    @property
    def confirms_at_once(self) -> bool:
        """Whether an append is confirmed without anything else."""
        return not self._reached

    def _advance(self) -> int:
        if self._reached:
            self.confirmed = max(self.confirmed, min(self.appended, *self._reached.values()))
        else:
            self.confirmed = self.appended
        return self.confirmed
