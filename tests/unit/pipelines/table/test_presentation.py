"""The page of a run of the job `table`."""

from __future__ import annotations

from skyrocket.pipelines.progress import ProgressHistory
from skyrocket.pipelines.table.job import OTHER_REASONS, REASONS_MAX, TableSummary
from skyrocket.pipelines.table.presentation import table_page
from skyrocket.report import render_page
from tests.unit.pipelines.table.summaries import NOW_MS, TABLE_PAGES, empty_summary


def test_a_page_has_what_became_of_changes_the_rate_and_what_to_look_at():
    page = render_page(TABLE_PAGES["table-normal"]())
    assert "Table orders of shop at db:5432" in page
    assert "applied: 109,597 messages" in page
    assert "broker-a · 3: 50,003 messages" in page
    assert "applied: 20,500 messages/s" in page
    assert "The most frequent reason, 2 times: the body is not JSON" in page
    assert "<td>k&lt;7&gt;</td>" in page
    assert "Field price had text in 3 bodies, and its column is double." in page
    assert "offsets 10 to 25" in page
    assert "Nothing was rejected" not in page


def test_a_run_without_news_and_a_dry_run_have_pages_too():
    page = render_page(TABLE_PAGES["table-empty"]())
    assert "Nothing was rejected, nothing waits, no field has left its column." in page
    assert "The topic has no message yet, so the columns are not known." in page
    planned = TableSummary("Table t", "orders", planned=12)
    dry = render_page(table_page(planned, ProgressHistory(), "h:1", NOW_MS, is_dry=True))
    assert "messages to read" in dry
    assert "A dry run of topic orders at h:1" in dry


def test_a_page_is_bounded():
    assert len(render_page(TABLE_PAGES["table-large"]())) < 1_000_000


def test_reasons_of_rejected_messages_are_counted_one_by_one_up_to_a_bound():
    summary = empty_summary()
    summary.count_reasons(f"reason {number}" for number in range(REASONS_MAX + 5))
    summary.count_reasons(["reason 0"])
    assert (len(summary.reasons), summary.reasons["reason 0"], summary.reasons[OTHER_REASONS]) == (REASONS_MAX + 1, 2, 5)
