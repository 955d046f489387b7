"""Charts as inline SVG: lines over time, bars, histograms, columns, heat maps. Pure.

Colours are classes, so that the style sheet decides them for light and dark pages. A chart without data is a sentence.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from skyrocket.report.limits import (
    BARS_MAX,
    BINS_MAX,
    HEAT_COLUMNS_MAX,
    HEAT_ROWS_MAX,
    LABEL_CHARACTERS_MAX,
    POINTS_MAX,
    SERIES_MAX,
)
from skyrocket.report.parts import BarChart, ColumnChart, HeatMap, HistogramChart, LineChart, LineSeries
from skyrocket.report.scale import LinearScale, nice_ticks, thin_points, time_ticks
from skyrocket.report.svg import drawing, element, label, title
from skyrocket.report.texts import count_of, escape_text, format_moment, format_number, short_number, shorten

WIDTH: Final = 720.0
HEIGHT: Final = 240.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 56.0, 16.0, 14.0, 28.0
_BAR_HEIGHT, _BAR_GAP = 18.0, 7.0
_CHARACTER_WIDTH: Final = 6.8  # of the labels' font, roughly
_LABEL_GAP: Final = 8.0  # between two labels of an axis
_HEAT_SHADES: Final = 8
_HEAT_ROW_MIN: Final = 13.0  # so that the names of rows do not overlap
_COLUMNS_SHARE: Final = 0.86  # of a label's place that its columns take
_DOT_POINTS_MAX: Final = 40  # a line with few points shows them as dots with tooltips

NO_DATA: Final = '<p class="empty">There is no data for this chart.</p>'


def draw_lines(chart: LineChart) -> str:
    """Draw lines over a common time axis, with a legend when there are several."""
    shown = [LineSeries(one.name, thin_points(one.points, POINTS_MAX)) for one in largest_series(chart.series)]
    points = [point for one in shown for point in one.points]
    if not points:
        return NO_DATA
    ticks = nice_ticks(max(y for _, y in points))
    low_ms, high_ms = min(x for x, _ in points), max(x for x, _ in points)
    across = LinearScale(low_ms, high_ms, _LEFT, WIDTH - _RIGHT)
    up = LinearScale(0, ticks[-1], HEIGHT - _BOTTOM, _TOP)
    parts = _value_grid(ticks, up)
    for moment, text in time_ticks(low_ms, high_ms):
        x = across.at(moment)
        is_cut = x + len(text) * _CHARACTER_WIDTH / 2 > WIDTH  # its second half would be outside of the picture
        parts.append(label(WIDTH - 2 if is_cut else x, HEIGHT - 8, text, anchor="end" if is_cut else "middle", class_="tick"))
    for number, one in enumerate(shown):
        parts.append(_line(one, number, across, up, chart.unit))
    picture = drawing(WIDTH, HEIGHT, _describe(chart.title, count_of(len(shown), "line")), parts)
    return (_legend([one.name for one in shown]) if len(shown) > 1 else "") + picture + _left_out(chart.series, shown)


def largest_series(series: Sequence[LineSeries]) -> list[LineSeries]:
    """Return the lines to draw: all, or the ones with the highest values, in their order."""
    if len(series) <= SERIES_MAX:
        return list(series)
    peaks = {index: max((y for _, y in one.points if math.isfinite(y)), default=-math.inf) for index, one in enumerate(series)}
    kept = sorted(sorted(peaks, key=lambda index: -peaks[index])[:SERIES_MAX])
    return [series[index] for index in kept]


def _left_out(series: Sequence[LineSeries], shown: Sequence[LineSeries]) -> str:
    if len(series) == len(shown):
        return ""
    return f'<p class="cut">The {len(shown)} highest of {count_of(len(series), "line")} are shown.</p>'


def _line(one: LineSeries, number: int, across: LinearScale, up: LinearScale, unit: str) -> str:
    places = [(across.at(x), up.at(y)) for x, y in one.points]
    path = "M" + "L".join(f"{x:.1f},{y:.1f}" for x, y in places)
    parts = [title(one.name), element("path", {"d": path, "class_": "line"})] if len(places) > 1 else []
    if len(places) <= _DOT_POINTS_MAX:
        for (x, y), (moment, value) in zip(places, one.points, strict=True):
            tooltip = title(f"{one.name}: {_with_unit(value, unit)} at {format_moment(moment)}")
            parts.append(element("circle", {"cx": x, "cy": y, "r": 2.5, "class_": "dot"}, tooltip))
    return element("g", {"class_": f"s{number}"}, parts)


def _legend(names: Sequence[str]) -> str:
    rows = (
        f'<li class="s{number}" title="{escape_text(name)}">{escape_text(name, 60)}</li>' for number, name in enumerate(names)
    )
    return f'<ul class="legend">{"".join(rows)}</ul>'


def draw_bars(chart: BarChart) -> str:
    """Draw horizontal bars with their values beside them. Of too many, the longest stay."""
    sound = [(name, value) for name, value in chart.bars if math.isfinite(value) and value >= 0]
    if not sound:
        return NO_DATA
    longest = sorted(sorted(range(len(sound)), key=lambda index: -sound[index][1])[:BARS_MAX])
    bars = [sound[index] for index in longest]
    names = [shorten(name, LABEL_CHARACTERS_MAX) for name, _ in bars]
    left = 12 + _CHARACTER_WIDTH * max(map(len, names))
    texts = [_with_unit(value, chart.unit) for _, value in bars]
    right = 12 + _CHARACTER_WIDTH * max(map(len, texts))
    across = LinearScale(0, max(value for _, value in bars) or 1, left, WIDTH - right)
    parts = []
    for number, ((whole, value), name, text) in enumerate(zip(bars, names, texts, strict=True)):
        y = _BAR_GAP + number * (_BAR_HEIGHT + _BAR_GAP)
        end = across.at(value)
        size = {"x": left, "y": y, "width": max(1.0, end - left), "height": _BAR_HEIGHT, "rx": 2}
        bar = element("rect", {**size, "class_": "bar"}) if value else ""
        texts_beside = label(left - 6, y + 13, name, anchor="end", class_="name") + label(
            max(end, left + 1) + 6, y + 13, text, anchor="start", class_="value"
        )
        parts.append(element("g", {}, title(f"{whole}: {text}") + bar + texts_beside))
    height = _BAR_GAP + len(bars) * (_BAR_HEIGHT + _BAR_GAP)
    picture = drawing(WIDTH, height, _describe(chart.title, count_of(len(bars), "bar")), parts)
    if len(sound) > len(bars):
        picture += f'<p class="cut">The {len(bars)} longest of {count_of(len(sound), "bar")} are shown.</p>'
    return picture


def draw_histogram(chart: HistogramChart) -> str:
    """Draw a column for each bin. Bins beyond the bound are joined with their neighbours."""
    labels, counts = join_bins(chart.labels, chart.counts)
    if not sum(counts):
        return NO_DATA
    ticks = nice_ticks(max(counts))
    up = LinearScale(0, ticks[-1], HEIGHT - _BOTTOM, _TOP)
    width = (WIDTH - _LEFT - _RIGHT) / len(counts)
    every = _label_step(labels, width)
    parts = _value_grid(ticks, up)
    for number, (name, count) in enumerate(zip(labels, counts, strict=True)):
        x, y = _LEFT + number * width, up.at(count)
        tooltip = title(f"{name}: {_with_unit(count, chart.unit)}")
        size = {"x": x + 0.5, "y": y, "width": max(1.0, width - 1), "height": HEIGHT - _BOTTOM - y}
        parts.append(element("rect", {**size, "class_": "bar"}, tooltip))
        if number % every == 0:
            parts.append(label(x + width / 2, HEIGHT - 8, name, class_="tick", characters_max=LABEL_CHARACTERS_MAX))
    return drawing(WIDTH, HEIGHT, _describe(chart.title, count_of(len(counts), "bin")), parts)


def draw_columns(chart: ColumnChart) -> str:
    """Draw the columns of all series side by side at each label, with a legend. Labels beyond the bound are left out."""
    labels, shown = chart.labels[:BINS_MAX], chart.series[:SERIES_MAX]
    values = [[_sound(value) or 0.0 for value in one.values[: len(labels)]] for one in shown]
    highest = max((value for line in values for value in line), default=0.0)
    if highest <= 0:
        return NO_DATA
    ticks = nice_ticks(highest)
    up = LinearScale(0, ticks[-1], HEIGHT - _BOTTOM, _TOP)
    place = (WIDTH - _LEFT - _RIGHT) / len(labels)
    width = place * _COLUMNS_SHARE / len(shown)
    parts = _value_grid(ticks, up)
    for number, (one, line) in enumerate(zip(shown, values, strict=True)):
        columns = []
        for index, (name, value) in enumerate(zip(labels, line, strict=True)):
            x, y = _LEFT + index * place + place * (1 - _COLUMNS_SHARE) / 2 + number * width, up.at(value)
            size = {"x": x, "y": y, "width": max(1.0, width - 0.5), "height": HEIGHT - _BOTTOM - y}
            columns.append(
                element("rect", {**size, "class_": "column"}, title(f"{one.name}, {name}: {_with_unit(value, chart.unit)}"))
            )
        parts.append(element("g", {"class_": f"s{number}"}, columns))
    every = _label_step(labels, place)
    for index in range(0, len(labels), every):
        middle = _LEFT + (index + 0.5) * place
        parts.append(label(middle, HEIGHT - 8, labels[index], class_="tick", characters_max=LABEL_CHARACTERS_MAX))
    picture = drawing(WIDTH, HEIGHT, _describe(chart.title, count_of(len(labels) * len(shown), "column")), parts)
    cut = (
        ""
        if len(labels) == len(chart.labels)
        else f"The first {len(labels)} of {count_of(len(chart.labels), 'label')} are shown."
    )
    return _legend([one.name for one in shown]) + picture + (f'<p class="cut">{cut}</p>' if cut else "")


def join_bins(labels: Sequence[str], counts: Sequence[int], most: int = BINS_MAX) -> tuple[list[str], list[int]]:
    """Join neighbouring bins until there are at most `most`. A joined bin has the label of its first."""
    assert len(labels) == len(counts)
    width = max(1, math.ceil(len(counts) / most))
    starts = range(0, len(counts), width)
    return [labels[start] for start in starts], [sum(counts[start : start + width]) for start in starts]


def draw_heat_map(chart: HeatMap) -> str:
    """Draw a grid of shaded cells. Each cell's value is its tooltip; the legend shows what the darkest shade means."""
    rows, columns = chart.rows[:HEAT_ROWS_MAX], chart.columns[:HEAT_COLUMNS_MAX]
    values = [[_sound(value) for value in line[: len(columns)]] for line in chart.values[: len(rows)]]
    highest = max((value for line in values for value in line if value is not None), default=None)
    if highest is None:
        return NO_DATA
    left = 12 + _CHARACTER_WIDTH * min(LABEL_CHARACTERS_MAX, max(map(len, rows)))
    width = (WIDTH - left - _RIGHT) / len(columns)
    height = min(22.0, max(_HEAT_ROW_MIN, 400.0 / len(rows)))
    every = _label_step(columns, width)
    parts = []
    for row, (name, line) in enumerate(zip(rows, values, strict=True)):
        y = 4 + row * height
        parts.append(label(left - 6, y + height / 2 + 4, shorten(name, LABEL_CHARACTERS_MAX), anchor="end", class_="name"))
        for column, value in enumerate(line):
            if value is None:
                continue
            size = {"x": left + column * width, "y": y, "width": max(1.0, width - 1), "height": height - 1}
            tooltip = title(f"{name}, {columns[column]}: {_with_unit(value, chart.unit)}")
            parts.append(element("rect", {**size, "class_": f"h{shade_of(value, highest)}"}, tooltip))
    bottom = 4 + len(rows) * height
    for column in range(0, len(columns), every):
        parts.append(label(left + (column + 0.5) * width, bottom + 14, columns[column], class_="tick"))
    picture = drawing(WIDTH, bottom + 20, _describe(chart.title, count_of(len(rows), "row")), parts)
    return picture + _heat_legend(highest, chart) + _heat_cut(chart, len(rows), len(columns))


def shade_of(value: float, highest: float) -> int:
    """Return the shade of a cell: 0 only for nothing, the last one only near the highest value."""
    if value <= 0 or highest <= 0:
        return 0
    return max(1, min(_HEAT_SHADES, math.ceil(value / highest * _HEAT_SHADES)))


def _heat_legend(highest: float, chart: HeatMap) -> str:
    boxes = "".join(f'<i class="h{shade}"></i>' for shade in range(_HEAT_SHADES + 1))
    return f'<p class="shades">0 {boxes} {escape_text(_with_unit(highest, chart.unit))}</p>'


def _heat_cut(chart: HeatMap, rows: int, columns: int) -> str:
    if len(chart.rows) == rows and len(chart.columns) == columns:
        return ""
    return (
        f'<p class="cut">{rows} of {count_of(len(chart.rows), "row")} and {columns} of '
        f"{count_of(len(chart.columns), 'column')} are shown.</p>"
    )


def _label_step(labels: Sequence[str], width: float) -> int:
    """Return which labels of an axis are shown, such as every third, so that they fit beside each other."""
    longest = min(LABEL_CHARACTERS_MAX, max(map(len, labels)))
    return max(1, math.ceil((longest * _CHARACTER_WIDTH + _LABEL_GAP) / width))


def _sound(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _value_grid(ticks: Sequence[float], up: LinearScale) -> list[str]:
    parts = []
    for tick in ticks:
        y = up.at(tick)
        parts.append(element("line", {"x1": _LEFT, "x2": WIDTH - _RIGHT, "y1": y, "y2": y, "class_": "grid"}))
        parts.append(label(_LEFT - 8, y + 4, short_number(tick), anchor="end", class_="tick"))
    return parts


def _with_unit(value: float, unit: str) -> str:
    return f"{format_number(value)} {unit}" if unit else format_number(value)


def _describe(chart_title: str, what: str) -> str:
    return f"{chart_title}: {what}"
