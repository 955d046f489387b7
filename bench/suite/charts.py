"""A record as charts: rates and CPU times as bars, latencies as ranges on a logarithmic scale."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from bench.suite import figures
from bench.suite.loads import LOADS, PROGRAMS, Load
from bench.suite.record import SERVERS, Result, RunRecord
from bench.suite.svg import PALETTES, Drawing

WIDTH, LABELS, VALUES, LEFT = 860, 230, 150, 12
BAR, GAP, GROUP_GAP = 13, 3, 13
LATENCY_LOADS = ("sync-1", "sync-16", "sync-64", "send-4x64", "batch-4x8", "batch-4x64", "sync-flush-64", "delivery")

Results = Sequence[tuple[Load, list[Result]]]


def charts(record: RunRecord) -> dict[str, str]:
    """SVG texts by file name: each chart in a light and a dark palette."""
    drawn: dict[str, str] = {}
    plain = [load for load in LOADS if load.group != PROGRAMS]
    for theme in PALETTES:
        drawn[f"rates-{theme}.svg"] = _bar_chart(
            theme, "Messages a second", plain_results(record, plain, calm=False), _rate, figures.count
        )
        drawn[f"cpu-{theme}.svg"] = _bar_chart(
            theme,
            "CPU time of the server for a message: shorter is better",
            plain_results(record, plain, calm=False),
            _cpu_us,
            figures.micros,
        )
        drawn[f"programs-{theme}.svg"] = _bar_chart(
            theme,
            "Apache's benchmark programs, messages a second",
            plain_results(record, [load for load in LOADS if load.group == PROGRAMS]),
            _rate,
            figures.count,
        )
        drawn[f"latencies-{theme}.svg"] = _latency_chart(theme, record)
    return drawn


def _rate(result: Result) -> float:
    return result.rate


def _cpu_us(result: Result) -> float:
    return result.cpu_us


def plain_results(record: RunRecord, loads: Sequence[Load], calm: bool = True) -> Results:
    """The loads that have rounds, with the results of the servers in their order."""
    pairs = []
    for load in loads:
        found = [result for server in SERVERS if (result := record.find(load.name, server)) is not None]
        if found and (calm or not load.is_calm):
            pairs.append((load, found))
    return pairs


def _begin(theme: str, title: str, remark: str) -> tuple[Drawing, float]:
    drawing = Drawing(WIDTH, PALETTES[theme])
    palette = drawing.palette
    drawing.text(LEFT, 16, title, palette.text, 15, bold=True)
    drawing.text(LEFT, 36, remark, palette.quiet, 12)
    x = float(WIDTH - LEFT)
    for server, colour in reversed(list(zip(SERVERS, palette.servers, strict=True))):
        x -= 8 * len(server) + 4
        drawing.text(x, 16, server, palette.text, 12)
        drawing.rectangle(x - 16, 10, 11, 11, colour)
        x -= 28
    return drawing, 58.0


def _bar_chart(theme: str, title: str, results: Results, figure: Callable[[Result], float], show: Callable[[float], str]) -> str:
    drawing, y = _begin(theme, title, "Each load has its own scale: the longest bar of a group is full.")
    palette = drawing.palette
    room = WIDTH - LEFT - LABELS - VALUES
    for load, found in results:
        height = len(found) * (BAR + GAP) - GAP
        drawing.text(LEFT, y + height / 2, load.title.replace("`", ""), palette.text, 12)
        longest = max(map(figure, found)) or 1.0
        for result in found:
            value = figure(result)
            width = room * value / longest
            drawing.rectangle(LEFT + LABELS, y, width, BAR, palette.servers[SERVERS.index(result.server)])
            refused = f", {figures.share(result.refused)} refused" if result.refused else ""
            drawing.text(LEFT + LABELS + max(1.0, width) + 6, y + BAR / 2, show(value) + refused, palette.quiet, 11)
            y += BAR + GAP
        y += GROUP_GAP
    return drawing.render(title)


def _latency_chart(theme: str, record: RunRecord) -> str:
    """A dot is the median; the line reaches to the 99th percentile, and thinner to the 99.9th."""
    title = "Latency"
    drawing, y = _begin(theme, title, "The dot is p50, the thick line ends at p99, the thin line at p99.9. Logarithmic scale.")
    palette = drawing.palette
    loads = [load for name in LATENCY_LOADS for load in LOADS if load.name == name]
    results = [pair for pair in plain_results(record, loads) if pair[1][0].calmest.p50_us]
    values = [value for _, found in results for each in found for value in _percentiles(each)]
    if not values:
        return drawing.render(title)
    first, last = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    room = WIDTH - LEFT - LABELS - 60
    top, step = y, room / max(1, last - first)

    def x_of(us: float) -> float:
        return LEFT + LABELS + (math.log10(us) - first) * step

    y += 14
    bottom = y + sum(len(found) * (BAR + GAP) + GROUP_GAP for _, found in results)
    for power in range(first, last + 1):
        x, label = x_of(10.0**power), figures.latency(10.0**power).replace(".00", "").replace(".0", "")
        drawing.line(x, top + 4, x, bottom - 4, palette.line, 0.6)
        drawing.text(x, bottom + 6, label, palette.quiet, 11, "middle")
    for load, found in results:
        height = len(found) * (BAR + GAP) - GAP
        drawing.text(LEFT, y + height / 2, load.title, palette.text, 12)
        for result in found:
            colour = palette.servers[SERVERS.index(result.server)]
            p50, p99, p999 = (x_of(us) for us in _percentiles(result))
            middle = y + BAR / 2
            drawing.line(p50, middle, p999, middle, colour, 1.5)
            drawing.line(p50, middle, p99, middle, colour, 4)
            drawing.dot(p50, middle, 5, colour)
            y += BAR + GAP
        y += GROUP_GAP
    return drawing.render(title)


def _percentiles(result: Result) -> list[float]:
    calm = result.calmest
    return [max(1.0, value or 1.0) for value in (calm.p50_us, calm.p99_us, calm.p999_us)]
