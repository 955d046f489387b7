"""The page of an archive's run."""

from __future__ import annotations

from skyrocket.pipelines.archive.batch_record import AddedFile, BatchRecord, LostMessages
from skyrocket.pipelines.archive.presentation import archive_page
from skyrocket.pipelines.archive.summary import ArchiveSummary, TopicCounts
from skyrocket.pipelines.progress import ProgressHistory
from skyrocket.report import render_page

NOW_MS = 1_800_000_000_000


def added(topic: str, hour: str, rows: int) -> AddedFile:
    return AddedFile(staged="s", path="p", topic=topic, hour=hour, rows=rows, size_bytes=rows * 1_000, first_ms=1, last_ms=2)


def test_a_page_has_messages_and_sizes_by_hour_rates_and_what_is_lost():
    summary = ArchiveSummary("/mnt/<a>", "parquet", "id")
    files = [added("orders", "2026-11-18-09", 30), added("orders", "2026-11-18-10", 5), added("bills", "2026-11-18-10", 7)]
    lost = [LostMessages(topic="orders", broker="broker-a", queue_id=2, start=10, stop=25)]
    summary.add(BatchRecord(archive_id="id", batch=4, kind="append", offsets={}, added=files, lost=lost))
    assert {hour: (one.messages, one.files, one.size_bytes) for hour, one in summary.hours.items()} == {
        "2026-11-18-09": (30, 1, 30_000),
        "2026-11-18-10": (12, 2, 12_000),
    }
    history = ProgressHistory()
    history.add(NOW_MS - 2_000, 0)
    history.add(NOW_MS, 42)
    page = render_page(archive_page(summary, history, "10.0.0.1:9876", NOW_MS))
    assert "Archive /mnt/&lt;a&gt;" in page
    assert "2026-11-18-10: 12 messages" in page
    assert "2026-11-18-09: 30 KiB" in page
    assert "archived: 21 messages/s" in page
    assert "Queue 2 at broker-a, offsets 10 to 25." in page


def test_a_dry_run_and_a_run_without_news_have_pages_too():
    planned = ArchiveSummary("/a", "parquet", "", planned=9, topics={"orders": TopicCounts(messages=9)})
    assert "messages to archive" in render_page(archive_page(planned, ProgressHistory(), "h:1", NOW_MS))
    nothing = ArchiveSummary("/a", "delta", "id")
    assert "Nothing new: the archive has every message." in render_page(archive_page(nothing, ProgressHistory(), "h:1", NOW_MS))
