"""The page of a replay."""

from __future__ import annotations

from skyrocket.client.queues import Queue
from skyrocket.pipelines.progress import ProgressHistory
from skyrocket.pipelines.replay.job import QueueCounts, ReplaySummary
from skyrocket.pipelines.replay.presentation import replay_page
from skyrocket.report import render_page

NOW_MS = 1_800_000_000_000
SOURCE, TARGET = Queue("orders", "broker-a", 0), Queue("orders-again", "broker-b", 3)


def test_a_page_has_the_rate_and_where_each_queue_went():
    summary = ReplaySummary("archive /mnt/<a>", "id", {SOURCE: QueueCounts(900, 800, TARGET)})
    history = ProgressHistory()
    history.add(NOW_MS - 4_000, 0)
    history.add(NOW_MS, 800)
    page = render_page(replay_page(summary, history, "10.0.0.1:9876", NOW_MS, rate=250))
    assert "Replay of archive /mnt/&lt;a&gt;" in page
    assert "replayed: 200 messages/s" in page
    assert "250/s" in page
    assert "orders · broker-a · 0: 900 messages" in page
    assert "<td>orders-again</td><td>broker-b</td>" in page


def test_a_dry_run_says_so_and_a_queue_may_have_no_target():
    summary = ReplaySummary("topic orders", "", {SOURCE: QueueCounts(5)})
    page = render_page(replay_page(summary, ProgressHistory(), "h:1", NOW_MS, is_dry=True))
    assert "a dry run sends nothing" in page
    assert "There is no data for this chart." in page
