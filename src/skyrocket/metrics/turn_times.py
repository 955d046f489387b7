"""Times of the event loop: how long requests waited for their turn, how long answers took to write, how late the loop was.

They are observed in one turn of 64 (`net/loop_turn.py`) and in every round (`net/lateness.py`), however many requests came.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from skyrocket.metrics.family import Measured, histogram
from skyrocket.metrics.histogram import Histogram

STAGE_SECONDS: Final = histogram(
    "skyrocket_stage_seconds", "Time that requests spent in a stage, observed by turn, append or flush.", "stage"
)
PAUSE_SECONDS: Final = histogram("skyrocket_loop_pause_seconds", "How late the event loop was, for each round of its work.")


class TurnTimes:
    """The stages `queue` and `answer`, which every server has. A server with more stages adds them."""

    def __init__(self, *more_stages: str) -> None:
        self._stages = {stage: Histogram() for stage in ("queue", *more_stages, "answer")}
        self._pauses = Histogram()
        self._queue, self._answer = self._stages["queue"].observe, self._stages["answer"].observe

    def record_turn(self, waited_s: float, written_s: float | None) -> None:
        """Record a turn of the loop: how long its requests waited, and how long it took to write answers, if there were any."""
        self._queue(waited_s)
        if written_s is not None:
            self._answer(written_s)

    def record_round(self, late_ms: int) -> None:
        """Record how late a round of the loop was."""
        self._pauses.observe(late_ms / 1000)

    def collect(self) -> Iterable[Measured]:
        yield Measured(STAGE_SECONDS, [((stage,), times.state()) for stage, times in self._stages.items()])
        yield Measured(PAUSE_SECONDS, [((), self._pauses.state())])
