"""Summaries of the job `table`, made up: an empty one, a normal one, and one that exceeds every bound."""

from __future__ import annotations

from collections import Counter

from skyrocket.client.queues import Queue
from skyrocket.pipelines.archive.plan import MissingRange
from skyrocket.pipelines.json_columns.json_schema import JsonColumn, JsonColumns
from skyrocket.pipelines.progress import ProgressHistory
from skyrocket.pipelines.table.fold import Counts
from skyrocket.pipelines.table.job import TableSummary
from skyrocket.pipelines.table.presentation import table_page
from skyrocket.pipelines.table.target import WaitingKey
from skyrocket.report import ReportPage

NOW_MS = 1_800_000_000_000


def empty_summary() -> TableSummary:
    return TableSummary("Table orders of shop at db:5432", "orders", is_new=True)


def normal_summary() -> TableSummary:
    summary = TableSummary(
        "Table orders of shop at db:5432",
        "orders",
        columns=JsonColumns([JsonColumn("id", "text"), JsonColumn("version", "bigint"), JsonColumn("price", "double")]),
        messages=200_002,
        batches=3,
        counts=Counts(applied=109_597, repeated=400, late=90_004, conflicts=7),
        rejected=3,
        rejects="orders_rejects",
        waiting=2,
        gaps=[WaitingKey("k<7>", 4, 6, 2)],
        missing=[MissingRange(Queue("orders", "broker-a", 1), 10, 25)],
    )
    summary.count_reasons(["the body is not JSON", "the body is not JSON", "it has no field id"])
    summary.queues.update({Queue("orders", "broker-a", number): 50_000 + number for number in range(4)})
    summary.drift.add(["text:price"], 3)
    return summary


def large_summary() -> TableSummary:
    summary = normal_summary()
    summary.columns = JsonColumns([JsonColumn(f"a-column-with-a-rather-long-name-{number}", "text") for number in range(2_000)])
    summary.reasons = Counter({f"reason {number} " + "x" * 300: number for number in range(100)})
    summary.queues = Counter({Queue("orders", f"broker-{number // 16}", number % 16): number for number in range(640)})
    summary.drift.add(f"text:field-{number}" for number in range(1_000))
    summary.gaps = [WaitingKey("k" * 5_000, None, 2, 10**12) for _ in range(20)]
    return summary


def page_of(summary: TableSummary, commits: int = 0) -> ReportPage:
    history = ProgressHistory()
    for number in range(commits):
        history.add(NOW_MS - 2_000 * (commits - 1 - number), 40_000 * number + number % 7 * 1_000)
    return table_page(summary, history, "10.0.0.1:9876", NOW_MS)


TABLE_PAGES = {
    "table-empty": lambda: page_of(empty_summary()),
    "table-normal": lambda: page_of(normal_summary(), 4),
    "table-large": lambda: page_of(large_summary(), 5_000),
}
