"""How long people wait for the sign-up page: histograms with common bins, and percentiles. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final, NamedTuple

from skyrocket.pipelines.backlog.latency import PERCENTILES, percentile

# About four bins for each power of ten from 1 ms to 10 s, so that both versions of the demo show a shape.
EDGES_MS: Final = (0, 1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500, 700, 1_000, 1_500, 2_000, 3_000, 5_000)


class PageLatencies(NamedTuple):
    """Latencies of one version. Bin i has those from EDGES_MS[i] up to the next edge; the last bin has no end."""

    name: str
    counts: tuple[int, ...]
    percentiles_ms: tuple[int, ...]  # in the order of PERCENTILES: 50, 90, 99, 100; empty without values

    @property
    def total(self) -> int:
        return sum(self.counts)

    def percentile_ms(self, percent: int) -> int | None:
        """Return one of PERCENTILES; None without values."""
        return self.percentiles_ms[PERCENTILES.index(percent)] if self.percentiles_ms else None

    def shares(self) -> tuple[float, ...]:
        """Return the bins in percent, so that loads of different length can be compared."""
        return tuple(100 * count / self.total if self.total else 0.0 for count in self.counts)


def make_histogram(name: str, latencies_ms: Sequence[float]) -> PageLatencies:
    """Count latencies."""
    counts = [0] * len(EDGES_MS)
    for value in latencies_ms:
        counts[max(0, bisect_right(EDGES_MS, value) - 1)] += 1
    ordered = sorted(round(max(0.0, value)) for value in latencies_ms)
    return PageLatencies(name, tuple(counts), tuple(percentile(ordered, one) for one in PERCENTILES) if ordered else ())


def used_bins(histograms: Sequence[PageLatencies]) -> range:
    """Return the bins from the first to the last that any histogram uses: empty ones at both ends are not shown."""
    used = [index for index in range(len(EDGES_MS)) if any(one.counts[index] for one in histograms)]
    return range(used[0], used[-1] + 1) if used else range(0)


def bin_label(index: int) -> str:
    """Name a bin by its lower edge."""
    edge = EDGES_MS[index]
    return f"{edge / 1000:g} s" if edge >= 1000 else f"{edge} ms"
