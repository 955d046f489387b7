"""When messages are archived so late that retention may delete the next ones before."""

from __future__ import annotations

import pytest

from skyrocket.pipelines.archive.presentation import archive_page
from skyrocket.pipelines.archive.summary import ArchiveSummary, expiry_sentences, is_near_expiry
from skyrocket.pipelines.progress import ProgressHistory
from skyrocket.report import render_page

HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    ("waited_h", "reserved_h", "is_near"), [(0, 72, False), (35, 72, False), (36, 72, True), (90, 72, True), (90, None, False)]
)
def test_messages_that_have_waited_for_half_of_the_retention_are_near_their_deletion(
    waited_h: int, reserved_h: int | None, is_near: bool
):
    reserved_ms = None if reserved_h is None else reserved_h * HOUR_MS
    assert is_near_expiry(waited_h * HOUR_MS, reserved_ms) is is_near
    summary = ArchiveSummary("/a", "parquet", "id", waited_ms=waited_h * HOUR_MS, reserved_ms=reserved_ms)
    assert summary.is_late is is_near


def test_a_late_archive_says_so_with_figures_and_a_way_out():
    text = " ".join(expiry_sentences(40 * HOUR_MS, 72 * HOUR_MS))
    assert text == (
        "Messages wait too long until they are archived. The oldest had waited 1 d 16 h; a broker deletes messages after 3 d. "
        "Run the archive more often or with --follow, or raise fileReservedTime."
    )
    late = ArchiveSummary("/a", "parquet", "id", waited_ms=40 * HOUR_MS, reserved_ms=72 * HOUR_MS)
    assert "The oldest had waited 1 d 16 h" in render_page(archive_page(late, ProgressHistory(), "h:1", 0))
    in_time = ArchiveSummary("/a", "parquet", "id", waited_ms=HOUR_MS, reserved_ms=72 * HOUR_MS)
    page = render_page(archive_page(in_time, ProgressHistory(), "h:1", 0))
    assert "The oldest had waited" not in page
    assert "brokers keep messages for 3 d" in page


def test_the_longest_wait_of_a_run_counts():
    summary = ArchiveSummary("/a", "parquet", "id")
    summary.count_wait(1_000, [])
    summary.count_wait(1_000, [700, 300])
    summary.count_wait(2_000, [1_900])
    assert summary.waited_ms == 700
