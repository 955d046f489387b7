"""The page of metrics: asks every collector, and writes what they say, in slices that do not hold up the event loop.

Several scrapers share a page: one is built at a time, and not more than one in a second, however many ask.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from time import perf_counter
from typing import Final, Protocol, TypeVar

from skyrocket.metrics.exposition import ExpositionWriter
from skyrocket.metrics.family import Collector, Family, LabelValues, gauge, single
from skyrocket.metrics.histogram import HistogramState
from skyrocket.metrics.series_limit import SeriesLimit

FRESH_S: Final = 1.0  # a page that is younger is given out again
SLICE_S: Final = 0.001  # of work, then the event loop serves others
ROWS_PER_LOOK: Final = 16  # between two looks at the clock

BUILD_SECONDS: Final = gauge("skyrocket_metrics_build_seconds", "Time that the event loop spent on the last page of metrics.")

Preparation = Callable[[], Awaitable[None]]
"""Reads what a collector needs and the event loop must not wait for, such as the disk."""


Part_co = TypeVar("Part_co", covariant=True)


class MetricsWriter(Protocol[Part_co]):
    """Writes metrics in some format: the head of a family, then its rows."""

    def head(self, family: Family) -> Part_co: ...

    def row(self, family: Family, values: LabelValues, value: float | HistogramState) -> Part_co: ...


class SliceClock:
    """Says when a slice of work is over, and adds up how long all slices took.

    if slices.is_over():
        await slices.pause()
    """

    def __init__(self, clock: Callable[[], float] = perf_counter) -> None:
        self._clock = clock
        self._began_s = clock()
        self._rows = 0
        self.worked_s = 0.0

    def is_over(self) -> bool:
        """Whether the slice has lasted long enough. Call it after each row."""
        self._rows += 1
        return self._rows % ROWS_PER_LOOK == 0 and self._clock() - self._began_s >= SLICE_S

    async def pause(self) -> None:
        """Let the event loop serve others."""
        self.stop()
        await asyncio.sleep(0)
        self._began_s = self._clock()

    def stop(self) -> None:
        now_s = self._clock()
        self.worked_s += now_s - self._began_s
        self._began_s = now_s


class MetricsPage:
    def __init__(
        self,
        server_labels: Mapping[str, str],
        series_max: Callable[[], int],
        collectors: Sequence[Collector],
        preparations: Sequence[Preparation] = (),
        clock: Callable[[], float] = perf_counter,
    ) -> None:
        self.server_labels = server_labels
        self._writer = ExpositionWriter(server_labels)
        self._series_max = series_max
        self._collectors = collectors
        self._preparations = preparations
        self._clock = clock
        self._limits: dict[Family, SeriesLimit] = {}
        self._building = asyncio.Lock()
        self._built_s = -FRESH_S
        self._page = b""

    async def render(self) -> bytes:
        async with self._building:
            if self._clock() - self._built_s >= FRESH_S:
                self._page = "".join(await self._build(self._writer)).encode(errors="replace")
                self._built_s = self._clock()
            return self._page

    async def write(self, writer: MetricsWriter[Part_co]) -> list[Part_co]:
        """Let another writer write all metrics: for an exporter."""
        async with self._building:
            return await self._build(writer)

    async def _build(self, writer: MetricsWriter[Part_co]) -> list[Part_co]:
        for prepare in self._preparations:
            await prepare()
        slices, parts, most = SliceClock(self._clock), list[Part_co](), self._series_max()
        for collect in self._collectors:
            for family, rows in collect():
                parts.append(writer.head(family))
                limit = self._limits.setdefault(family, SeriesLimit(family))
                for values, value in rows:
                    if limit.take(values, value, most):
                        parts.append(writer.row(family, values, value))
                    if slices.is_over():
                        await slices.pause()
                if (other := limit.finish(most)) is not None:
                    parts.append(writer.row(family, *other))
        slices.stop()
        family, rows = single(BUILD_SECONDS, slices.worked_s)
        parts += [writer.head(family), *(writer.row(family, *row) for row in rows)]
        return parts
