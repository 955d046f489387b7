"""Where time goes between a request and its answer: one histogram for each stage.

    request ─▶ queue ─▶ append ─▶ ┬─ flush ────┬─▶ answer
                                  └─ replicate ┘
                                     park: both, for an answer that waits for them

| stage     | observed                         | from … to                                                                   |
|-----------|----------------------------------|-----------------------------------------------------------------------------|
| queue     | one turn of the loop in eight    | the first request of the turn was read … its requests are handled           |
| append    | every append                     | the write of the records to the commit log                                  |
| flush     | every flush                      | the flush was asked of its thread … the loop knows that it is done          |
| replicate | one append in eight              | the append … as many copies as the promise needs have it                    |
| park      | every group of released answers  | the oldest of the answers was parked … all are sent                         |
| answer    | one turn of the loop in eight    | the requests of the turn are handled … the answers are written to the sockets |
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

from skyrocket.metrics.turn_times import TurnTimes


class StageTimes(TurnTimes):
    """The histograms. Parts of the broker call the methods; without metrics there is no such object, and nothing is observed."""

    def __init__(self, clock: Callable[[], float] = perf_counter) -> None:
        super().__init__("append", "flush", "replicate", "park")
        self._clock = clock
        self.record_append = self._stages["append"].observe
        self.record_flush = self._stages["flush"].observe
        self._awaited: tuple[int, float] | None = None  # an append whose copies are awaited: the end of the log, and when

    def record_parked(self, waited_ms: int) -> None:
        self._stages["park"].observe(waited_ms / 1000)

    # --- copies: one append is watched at a time

    def watch_append(self, log_end: int) -> None:
        if self._awaited is None:
            self._awaited = (log_end, self._clock())

    def record_copied(self, position: int) -> None:
        """Record that the copies have everything before `position`."""
        if self._awaited is not None and self._awaited[0] <= position:
            self._stages["replicate"].observe(self._clock() - self._awaited[1])
            self._awaited = None
