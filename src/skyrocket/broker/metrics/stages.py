"""Where time goes between a request and its answer: one histogram for each stage.

    request ─▶ queue ─▶ append ─▶ ┬─ flush ────┬─▶ answer
                                  └─ replicate ┘
                                     park: both, for an answer that waits for them

| stage     | observed                         | from … to                                                                   |
|-----------|----------------------------------|-----------------------------------------------------------------------------|
| queue     | one turn of the loop in 64       | the first request of the turn was read … its requests are handled           |
| append    | one turn of the loop in 64       | the first write of records to the commit log from then on                   |
| flush     | every flush                      | the flush was asked of its thread … the loop knows that it is done          |
| replicate | one append in eight              | the append … as many copies as the promise needs have it                    |
| park      | every group of released answers  | the oldest of the answers was parked … all are sent                         |
| answer    | one turn of the loop in 64       | the requests of the turn are handled … the answers are written to the sockets |
|           |                                  | sends of the fast path: their records are in the log … the same             |

The runtime information of the broker (28) has a row for each stage, for administrators without Prometheus:

    stageMillis_append: 0.25:180 0.5:112 inf:1    180 took up to 0.25 ms, 112 more up to 0.5 ms, one longer than all bounds
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from math import inf
from time import perf_counter
from typing import Final, Protocol

from skyrocket.metrics.histogram import HistogramState
from skyrocket.metrics.turn_times import TurnTimes

STAGE_ROW: Final = "stageMillis_"


class ObservedLog(Protocol):
    """The commit log, as far as it is observed."""

    on_written: Callable[[float], None] | None  # gets the seconds that a write took


class ObservedAnswers(Protocol):
    """The answers to sends, as far as they are observed."""

    on_written: Callable[[float], None] | None  # gets the seconds that it took to make and write the answers of an append


class StageTimes(TurnTimes):
    """The histograms. Parts of the broker call the methods (`stage_watch`)."""

    def __init__(self, clock: Callable[[], float] = perf_counter) -> None:
        super().__init__("append", "flush", "replicate", "park")
        self._clock = clock
        self.record_flush = self._stages["flush"].observe
        self._log: ObservedLog | None = None
        self._answers: ObservedAnswers | None = None
        self.on_round: Callable[[], None] = lambda: None  # called every 20 ms while there is work
        self._awaited: tuple[int, float] | None = None  # an append whose copies are awaited: the end of the log, and when

    # --- rounds of the event loop

    def record_round(self, late_ms: int) -> None:
        super().record_round(late_ms)
        self.on_round()

    # --- appends: a client that waits for each answer makes one of each message, so they are observed as turns are

    def watch_appends(self, log: ObservedLog, answers: ObservedAnswers) -> None:
        self._log, self._answers = log, answers
        log.on_written, answers.on_written = self.record_append, self.record_answer

    def record_turn(self, waited_s: float, written_s: float | None) -> None:
        super().record_turn(waited_s, written_s)
        if self._log is not None and self._answers is not None:
            self.watch_appends(self._log, self._answers)

    def record_append(self, took_s: float) -> None:
        self._stages["append"].observe(took_s)
        if self._log is not None:
            self._log.on_written = None  # until the next turn that is observed

    def record_answer(self, took_s: float) -> None:
        self._stages["answer"].observe(took_s)
        if self._answers is not None:
            self._answers.on_written = None  # likewise

    def record_parked(self, waited_ms: int) -> None:
        self._stages["park"].observe(waited_ms / 1000)

    def figures(self) -> dict[str, str]:
        """Return the rows of the runtime information: the counts since the start. A stage with nothing to do has none."""
        counts = {stage: format_counts(times.state()) for stage, times in self._stages.items()}
        return {f"{STAGE_ROW}{stage}": text for stage, text in counts.items() if text}

    # --- copies: one append is watched at a time

    def watch_append(self, log_end: int) -> None:
        if self._awaited is None:
            self._awaited = (log_end, self._clock())

    def record_copied(self, position: int) -> None:
        """Record that the copies have everything before `position`."""
        if self._awaited is not None and self._awaited[0] <= position:
            self._stages["replicate"].observe(self._clock() - self._awaited[1])
            self._awaited = None


def format_counts(state: HistogramState) -> str:
    """Return how many durations were up to each bound, in milliseconds, and more than the one before. Empty ones are left out."""
    counts = (up_to - before for before, up_to in pairwise((0, *state.counts)))
    return " ".join(f"{bound * 1000:g}:{count}" for bound, count in zip((*state.bounds, inf), counts, strict=True) if count)
