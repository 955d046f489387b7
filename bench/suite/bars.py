"""The bars: what a load on our broker must reach beside another server, or beside another load."""

from __future__ import annotations

from typing import NamedTuple

from bench.suite.loads import BY_NAME
from bench.suite.record import APACHE, KAFKA, OURS, Result, RunRecord

RATE, CPU, P50, REFUSED = "rate", "CPU", "p50", "refused"
MILLISECOND_US = 1000.0


class Bar(NamedTuple):
    """`limit` bounds the ratio of a figure to that of `server`, or of our own `beside_load`; without a server, the figure."""

    load: str
    figure: str
    limit: float
    server: str = APACHE
    beside_load: str = ""

    @property
    def is_floor(self) -> bool:
        return self.figure == RATE

    @property
    def title(self) -> str:
        return BY_NAME[self.load].title

    @property
    def beside(self) -> str:
        return BY_NAME[self.beside_load].title if self.beside_load else self.server


class Judgement(NamedTuple):
    """`ratio` is None when one of the two figures was not measured. For a bar without a server it is our figure itself."""

    bar: Bar
    ours: float | None
    other: float | None
    ratio: float | None

    @property
    def is_met(self) -> bool | None:
        if self.ratio is None:
            return None
        return self.ratio >= self.bar.limit if self.bar.is_floor else self.ratio <= self.bar.limit


BARS = [
    Bar("send-4x64", RATE, 4),
    Bar("send-4x64", CPU, 1 / 8),
    Bar("sync-16", RATE, 2.5),
    Bar("sync-16", CPU, 1 / 4),
    Bar("sync-64", RATE, 2.5),
    Bar("sync-64", CPU, 1 / 4),
    Bar("sync-1", P50, 0.6),
    Bar("batch-4x8", RATE, 2),
    Bar("batch-4x8", CPU, 1 / 4),
    Bar("batch-4x8", CPU, 1, KAFKA),
    Bar("batch-4x64", RATE, 2),
    Bar("batch-4x64", CPU, 1 / 4),
    Bar("batch-4x64", CPU, 1, KAFKA),
    Bar("batch-4x64", REFUSED, 0, ""),
    Bar("binary-4x64", RATE, 1 / 1.15, OURS, "send-4x64"),
    Bar("binary-4x64", CPU, 1.15, OURS, "send-4x64"),
    Bar("sync-flush-64", RATE, 1.5),
    Bar("java-producer", RATE, 2),
    Bar("pull-tail", RATE, 2),
    Bar("pull-tail", CPU, 1 / 3),
    Bar("delivery", P50, 1 / 3),
    Bar("delivery", P50, MILLISECOND_US, ""),
    Bar("java-delivery", P50, MILLISECOND_US, ""),
    Bar("transaction", CPU, 1 / 3),
]


def figure_of(result: Result | None, figure: str) -> float | None:
    if result is None:
        return None
    return {RATE: result.rate, CPU: result.cpu_us, P50: result.p50, REFUSED: result.refused}[figure]


def judge(record: RunRecord, bar: Bar) -> Judgement:
    ours = figure_of(record.find(bar.load, OURS), bar.figure)
    if not bar.server:
        return Judgement(bar, ours, None, ours)
    other = figure_of(record.find(bar.beside_load or bar.load, bar.server), bar.figure)
    return Judgement(bar, ours, other, ours / other if ours is not None and other else None)
