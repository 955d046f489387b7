"""HTML reports: one self-contained page from a title, summary rows, tables and charts. Pure.

    page = ReportPage("Backlog of coupons", [SummaryRow("lag", "12,480")], [LineChart("Lag over time", (lag_of_orders,))])
    Path("report.html").write_text(render_page(page))

`parts` has the values that a page consists of, `charts` draws them as inline SVG, `page` puts them together. A page needs no
script and loads nothing. Every text is escaped, and what is longer than the bounds of `limits` is cut with a sentence that says
so.
"""

from skyrocket.report.page import render_page
from skyrocket.report.parts import (
    Advice,
    BarChart,
    ColumnChart,
    ColumnSeries,
    HeatMap,
    HistogramChart,
    LineChart,
    LineSeries,
    Note,
    ReportPage,
    ReportTable,
    Severity,
    SummaryRow,
)

__all__ = [
    "Advice",
    "BarChart",
    "ColumnChart",
    "ColumnSeries",
    "HeatMap",
    "HistogramChart",
    "LineChart",
    "LineSeries",
    "Note",
    "ReportPage",
    "ReportTable",
    "Severity",
    "SummaryRow",
    "render_page",
]
