"""The page of a report: HTML with its style and its pictures inside. Pure.

The page forbids itself to load anything or to run a script (Content-Security-Policy), so a text that got through the escaping
could still do nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Final

from skyrocket.report.charts import draw_bars, draw_columns, draw_heat_map, draw_histogram, draw_lines
from skyrocket.report.limits import SECTIONS_MAX, TABLE_ROWS_MAX
from skyrocket.report.parts import (
    Advice,
    BarChart,
    ColumnChart,
    HeatMap,
    HistogramChart,
    LineChart,
    Note,
    ReportPage,
    ReportTable,
    Section,
    Severity,
    SummaryRow,
)
from skyrocket.report.texts import count_of, escape_text, format_number

_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"
_SIGNS: Final = {
    Severity.GOOD: "✓ Good",
    Severity.INFORMATION: "Note",
    Severity.WARNING: "▲ Warning",
    Severity.PROBLEM: "● Problem",
}


def render_page(page: ReportPage) -> str:
    """Return the whole page as HTML."""
    sections = [_render_section(one) for one in page.sections[:SECTIONS_MAX]]
    if len(page.sections) > SECTIONS_MAX:
        sections.append(f'<p class="cut">{count_of(len(page.sections) - SECTIONS_MAX, "further section")} left out.</p>')
    subtitle = f'<p class="subtitle">{escape_text(page.subtitle)}</p>' if page.subtitle else ""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape_text(page.title)}</title>\n<style>\n{_style_sheet()}\n</style>\n</head>\n<body>\n<main>\n"
        f"<header><h1>{escape_text(page.title)}</h1>{subtitle}</header>\n{_render_summary(page.summary)}\n"
        + "\n".join(sections)
        + "\n</main>\n</body>\n</html>\n"
    )


@cache
def _style_sheet() -> str:
    return "\n".join(files(__package__).joinpath(name).read_text("utf-8").strip() for name in ("palette.css", "report.css"))


def _render_summary(rows: Sequence[SummaryRow]) -> str:
    boxes = "".join(
        f"<div><dt>{escape_text(row.label)}</dt><dd>{escape_text(row.value)}"
        f"{f'<small>{escape_text(row.note)}</small>' if row.note else ''}</dd></div>"
        for row in rows
    )
    return f'<dl class="summary">{boxes}</dl>' if boxes else ""


def _render_section(section: Section) -> str:
    note = getattr(section, "note", "")
    after = f'<p class="note">{escape_text(note)}</p>' if note else ""
    return f"<section>\n<h2>{escape_text(section.title)}</h2>\n{_RENDERERS[type(section)](section)}{after}\n</section>"


def _render_table(table: ReportTable) -> str:
    if not table.rows:
        return f'<p class="empty">{escape_text(table.empty)}</p>'
    shown = [list(row) for row in table.rows[:TABLE_ROWS_MAX]]
    is_number = [all(isinstance(cell, int | float) or cell is None for cell in column) for column in zip(*shown, strict=True)]
    head = "".join(_cell("th", name, right) for name, right in zip(table.head, is_number, strict=True))
    rows = (
        f"<tr>{''.join(_cell('td', cell, right) for cell, right in zip(row, is_number, strict=True))}</tr>\n" for row in shown
    )
    cut = ""
    if len(table.rows) > TABLE_ROWS_MAX:
        cut = f'<p class="cut">The first {len(shown):,} of {count_of(len(table.rows), "row")} are shown.</p>'
    return f'<div class="scroll"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{"".join(rows)}</tbody></table></div>{cut}'


def _cell(tag: str, value: object, right: bool) -> str:
    if value is None:
        text = "–"
    elif isinstance(value, int | float) and not isinstance(value, bool):
        text = format_number(value)
    else:
        text = escape_text(value)
    kind = ' class="number"' if right else ""
    return f"<{tag}{kind}>{text}</{tag}>"


def _render_note(note: Note) -> str:
    items = "".join(_advice_item(one) for one in note.advice)
    paragraphs = "".join(f"<p>{escape_text(text)}</p>" for text in note.paragraphs)
    return (f'<ul class="advice">{items}</ul>' if items else "") + paragraphs


def _advice_item(one: Advice) -> str:
    evidence = f"<small>{escape_text(one.evidence)}</small>" if one.evidence else ""
    return f'<li class="{one.severity.value}"><b>{_SIGNS[one.severity]}</b>{escape_text(one.sentence)}{evidence}</li>'


_RENDERERS: Final[dict[type[Section], Callable[[Any], str]]] = {
    ReportTable: _render_table,
    LineChart: draw_lines,
    BarChart: draw_bars,
    HistogramChart: draw_histogram,
    ColumnChart: draw_columns,
    HeatMap: draw_heat_map,
    Note: _render_note,
}
