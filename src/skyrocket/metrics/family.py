"""What a metric is, and what a collector reads of it at scrape time.

    Family      name, kind, help text and label names: one constant for each metric
    Measured    a family, and its rows now: label values with a number or a histogram

A collector is a function that returns `Measured`s. It reads figures that the server has anyway, so that nothing is counted for
metrics alone. Rows may be a generator: the page takes them in slices, and the event loop serves others in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import NamedTuple

from skyrocket.metrics.histogram import HistogramState


class MetricKind(StrEnum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Fold(StrEnum):
    """How the rows beyond the limit of a metric become one row."""

    SUM = "sum"
    MAX = "max"


LabelValues = tuple[str, ...]
Row = tuple[LabelValues, float | HistogramState]


class Family(NamedTuple):
    name: str
    kind: MetricKind
    note: str  # one sentence: the HELP line
    labels: tuple[str, ...] = ()
    fold: Fold = Fold.SUM


class Measured(NamedTuple):
    family: Family
    rows: Iterable[Row]


Collector = Callable[[], Iterable[Measured]]


def counter(name: str, note: str, *labels: str) -> Family:
    return Family(name, MetricKind.COUNTER, note, labels)


def gauge(name: str, note: str, *labels: str, fold: Fold = Fold.SUM) -> Family:
    return Family(name, MetricKind.GAUGE, note, labels, fold)


def histogram(name: str, note: str, *labels: str) -> Family:
    return Family(name, MetricKind.HISTOGRAM, note, labels)


def single(family: Family, value: float) -> Measured:
    """The one row of a family without labels."""
    return Measured(family, [((), value)])
