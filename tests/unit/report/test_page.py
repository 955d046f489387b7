"""The HTML page of a report: self-contained, escaped, bounded, the same for the same values."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from skyrocket.report import (
    Advice,
    BarChart,
    HeatMap,
    HistogramChart,
    LineChart,
    LineSeries,
    Note,
    ReportPage,
    ReportTable,
    Severity,
    SummaryRow,
    render_page,
)
from skyrocket.report.limits import BARS_MAX, CELL_CHARACTERS_MAX, SECTIONS_MAX, SERIES_MAX, TABLE_ROWS_MAX

HOSTILE = '<script>alert("x")</script><img src=x onerror=y> \' & \x00 \u202e %s {}'
VOID = {"meta", "br", "img", "link"}


class Checker(HTMLParser):
    """Collects tags and attributes, and checks that every tag is closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def full_page(text: str) -> ReportPage:
    """A page with every part, and the same text wherever there is one."""
    return ReportPage(
        text,
        [SummaryRow(text, text, text)],
        [
            Note(text, [Advice(severity, text, text) for severity in Severity], [text]),
            ReportTable(text, [text, "n"], [[text, 5], [None, None]], note=text),
            ReportTable(text, [text], [], empty=text),
            LineChart(text, [LineSeries(text, [(1e12, 1.0), (1e12 + 60_000, 7.5)]), LineSeries(text, [(1e12, 2.0)])], text, text),
            BarChart(text, [(text, 3.0)], text, text),
            HistogramChart(text, [text, text], [1, 2], text, text),
            HeatMap(text, [text, text], [text], [[1.0, None]], text, text),
        ],
        text,
    )


def test_every_text_is_escaped_everywhere():
    page = render_page(full_page(HOSTILE))
    checked = Checker(page)
    assert not {"script", "img", "iframe", "object", "link", "a"} & set(checked.tags)
    assert not [name for name, _ in checked.attributes if name.startswith("on")]
    assert "\x00" not in page
    assert "\u202e" not in page
    assert page.count("&lt;script&gt;") >= 20


def test_a_page_refers_to_nothing_outside_itself():
    page = render_page(full_page("plain"))
    assert not re.search(r"https?:|url\(|@import|src=|href=", page)
    assert "default-src 'none'" in page
    assert "color-scheme: light dark" in page
    assert "light-dark(" in page


def test_an_empty_report_says_so():
    page = render_page(
        ReportPage(
            "Nothing",
            sections=[
                LineChart("l", []),
                BarChart("b", []),
                HistogramChart("h", [], []),
                HeatMap("m", [], [], []),
                ReportTable("t", ["a"], []),
            ],
        )
    )
    Checker(page)
    assert page.count("There is no data for this chart.") == 4
    assert "No rows." in page


def test_large_tables_are_cut_with_a_sentence():
    rows = [[number, "x"] for number in range(TABLE_ROWS_MAX + 500)]
    page = render_page(ReportPage("Large", sections=[ReportTable("t", ["n", "x"], rows)]))
    assert page.count("<tr>") == TABLE_ROWS_MAX + 1
    assert f"The first {TABLE_ROWS_MAX:,} of 1,500 rows are shown." in page


def test_long_texts_lines_and_bars_are_bounded():
    lines = [LineSeries(f"line {number}", [(float(x), float(number)) for x in range(5_000)]) for number in range(SERIES_MAX + 5)]
    bars = [(f"bar {number}", float(number)) for number in range(500)]
    sections = [ReportTable("t", ["a"], [["y" * 1_000_000]]), LineChart("l", lines), BarChart("b", bars)]
    page = render_page(ReportPage("Large", sections=sections))
    assert f"The {SERIES_MAX} highest of 13 lines are shown." in page
    assert f"The {BARS_MAX} longest of 500 bars are shown." in page
    assert max(map(len, re.findall("y+", page))) < CELL_CHARACTERS_MAX
    assert len(page) < 200_000


def test_sections_are_bounded():
    page = render_page(ReportPage("Large", sections=[Note("n")] * 300))
    assert page.count("<section>") == SECTIONS_MAX
    assert f"{300 - SECTIONS_MAX} further sections left out." in page


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0, 0.0, 1e300])
def test_odd_numbers_draw_a_page(value: float):
    page = render_page(
        ReportPage(
            "Odd",
            sections=[
                LineChart("l", [LineSeries("s", [(0.0, value), (1.0, value)])]),
                BarChart("b", [("x", value)]),
                HeatMap("m", ["c"], ["r"], [[value]]),
                ReportTable("t", ["a"], [[value]]),
            ],
        )
    )
    Checker(page)
    assert "nan" not in page.lower().replace("nanotech", "")


def test_numbers_are_to_the_right_and_grouped():
    page = render_page(ReportPage("t", sections=[ReportTable("t", ["name", "count"], [["a", 1234567], ["b", 2.5]])]))
    assert '<td class="number">1,234,567</td>' in page
    assert "<td>a</td>" in page
