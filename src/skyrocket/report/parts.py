"""The parts of a report as plain values: what is shown, not how."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class Severity(StrEnum):
    """How urgent a finding is. The page shows it as a word and a sign, not by colour alone."""

    GOOD = "good"
    INFORMATION = "information"
    WARNING = "warning"
    PROBLEM = "problem"


class SummaryRow(NamedTuple):
    """One figure at the top of the page."""

    label: str
    value: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class ReportTable:
    """Rows of cells. Numbers are aligned to the right. `empty` is shown instead of a table without rows."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[object]]
    empty: str = "No rows."
    note: str = ""


class LineSeries(NamedTuple):
    """One line: points (x, y) in the order of x."""

    name: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class LineChart:
    """Lines over time. Every x is in milliseconds since 1970, and is shown in UTC."""

    title: str
    series: Sequence[LineSeries]
    unit: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class BarChart:
    """Horizontal bars, one for each label."""

    title: str
    bars: Sequence[tuple[str, float]]
    unit: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class HistogramChart:
    """How many values lie in each bin. Bin i has the label `labels[i]` and the count `counts[i]`."""

    title: str
    labels: Sequence[str]
    counts: Sequence[int]
    unit: str = ""
    note: str = ""


class ColumnSeries(NamedTuple):
    """One kind of columns: a value for each label of the chart."""

    name: str
    values: Sequence[float]


@dataclass(frozen=True, slots=True)
class ColumnChart:
    """Columns of several kinds side by side at each label, such as two histograms with common bins."""

    title: str
    labels: Sequence[str]
    series: Sequence[ColumnSeries]
    unit: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class HeatMap:
    """A value for each row and column, shown by shade. None: there is no value."""

    title: str
    columns: Sequence[str]
    rows: Sequence[str]
    values: Sequence[Sequence[float | None]]
    unit: str = ""
    note: str = ""


class Advice(NamedTuple):
    """A finding: what is so, what follows, and the figures behind it."""

    severity: Severity
    sentence: str
    evidence: str = ""


@dataclass(frozen=True, slots=True)
class Note:
    """Findings and paragraphs under a heading."""

    title: str
    advice: Sequence[Advice] = ()
    paragraphs: Sequence[str] = ()


Section = ReportTable | LineChart | BarChart | HistogramChart | ColumnChart | HeatMap | Note


@dataclass(frozen=True, slots=True)
class ReportPage:
    """A whole report."""

    title: str
    summary: Sequence[SummaryRow] = ()
    sections: Sequence[Section] = ()
    subtitle: str = ""
