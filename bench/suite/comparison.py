"""Ratios of a run, and whether one of them is a third worse than the table in the repository.

A ratio compares our broker with Apache's in one run, so the speed of the machine cancels out:

    rate    ours / Apache's    larger is better
    CPU     ours / Apache's    smaller is better
    p50     ours / Apache's    smaller is better
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import msgspec

from bench.suite.bars import CPU, P50, RATE, figure_of
from bench.suite.generator import ROOT
from bench.suite.loads import BY_NAME
from bench.suite.record import APACHE, OURS, RunRecord

EXPECTED = ROOT / "bench" / "expected.json"
TOLERANCE = 4 / 3


class Compared(NamedTuple):
    load: str
    figure: str
    ratio: float
    expected: float | None  # None: the table has no such row yet

    @property
    def change(self) -> float:
        """How many times worse it is than expected; below 1 it is better."""
        if not self.expected:
            return 1.0
        return self.expected / self.ratio if self.figure == RATE else self.ratio / self.expected

    @property
    def is_worse(self) -> bool:
        return self.change > TOLERANCE

    @property
    def line(self) -> str:
        title = f"{BY_NAME[self.load].title}, {self.figure}"
        if self.expected is None:
            return f"{title:<48} {self.ratio:8.3f}  (not in the table)"
        verdict = f"worse: {self.change:.2f} times what the table says" if self.is_worse else "good"
        return f"{title:<48} {self.ratio:8.3f}  expected {self.expected:8.3f}  {verdict}"


def ratios(record: RunRecord) -> dict[str, dict[str, float]]:
    """By load and figure. A load whose latency counts has no rate to compare."""
    found: dict[str, dict[str, float]] = {}
    for name, load in BY_NAME.items():
        ours, theirs = record.find(name, OURS), record.find(name, APACHE)
        for figure in (P50,) if load.is_calm else (RATE, CPU):
            mine, other = figure_of(ours, figure), figure_of(theirs, figure)
            if mine and other:
                found.setdefault(name, {})[figure] = mine / other
    return found


def compare(measured: dict[str, dict[str, float]], expected: dict[str, dict[str, float]]) -> list[Compared]:
    return [
        Compared(load, figure, ratio, expected.get(load, {}).get(figure))
        for load, of_load in measured.items()
        for figure, ratio in of_load.items()
    ]


def read_expected(path: Path = EXPECTED) -> dict[str, dict[str, float]]:
    if not path.exists():
        return {}
    return msgspec.json.decode(path.read_bytes(), type=dict[str, dict[str, float]])


def write_expected(measured: dict[str, dict[str, float]], path: Path = EXPECTED) -> None:
    rounded = {load: {figure: round(ratio, 4) for figure, ratio in of_load.items()} for load, of_load in measured.items()}
    path.write_bytes(msgspec.json.format(msgspec.json.encode(rounded), indent=2) + b"\n")
