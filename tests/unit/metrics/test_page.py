"""A page is built in slices, and is built again when it is a second old."""

from __future__ import annotations

import asyncio

from skyrocket.metrics.family import Measured, counter, gauge
from skyrocket.metrics.page import FRESH_S, ROWS_PER_LOOK, SLICE_S, MetricsPage
from tests.support.processes.http_client import parse_page

LAG = gauge("lag", "Lag.", "topic")


class Clock:
    """Moves on by a step at each look."""

    def __init__(self, step_s: float = 0.0) -> None:
        self.now_s = 0.0
        self._step_s = step_s

    def __call__(self) -> float:
        self.now_s += self._step_s
        return self.now_s


def rows(count: int) -> list[Measured]:
    return [Measured(LAG, (((f"t{number}",), number) for number in range(count)))]


async def test_the_event_loop_serves_others_between_slices():
    page = MetricsPage({}, lambda: 10_000, [lambda: rows(100 * ROWS_PER_LOOK)], clock=Clock(2 * SLICE_S))
    turns, building = 0, asyncio.ensure_future(page.render())
    while not building.done():
        turns += 1
        await asyncio.sleep(0)
    assert turns >= 100
    assert len(parse_page((await building).decode()).samples["lag"]) == 100 * ROWS_PER_LOOK


async def test_a_page_is_built_again_when_it_is_old():
    clock, values = Clock(), iter([1, 2])
    page = MetricsPage({}, lambda: 10, [lambda: [Measured(counter("turns_total", ""), [((), next(values))])]], clock=clock)
    first = await page.render()
    clock.now_s = FRESH_S / 2
    assert await page.render() == first
    clock.now_s = FRESH_S
    assert parse_page((await page.render()).decode()).value("turns_total") == 2


async def test_series_of_each_metric_are_limited():
    page = MetricsPage({}, lambda: 3, [lambda: rows(10)])
    series = parse_page((await page.render()).decode()).samples["lag"]
    assert [labels["topic"] for labels, _ in series] == ["t0", "t1", "t2", "(other)"]
    assert series[-1][1] == sum(range(3, 10))


async def test_what_a_collector_needs_is_prepared_first():
    ready = []

    async def prepare() -> None:
        ready.append(7)

    page = MetricsPage({"cluster": "c"}, lambda: 3, [lambda: [Measured(LAG, [(("t",), value) for value in ready])]], [prepare])
    assert parse_page((await page.render()).decode()).value("lag", cluster="c", topic="t") == 7
