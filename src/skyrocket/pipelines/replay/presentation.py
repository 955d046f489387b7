"""Shows what a replay did, or would do, as an HTML page. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skyrocket.pipelines.progress import ProgressHistory
from skyrocket.report.parts import BarChart, LineChart, LineSeries, ReportPage, ReportTable, Section, SummaryRow
from skyrocket.report.texts import format_moment, format_number

if TYPE_CHECKING:
    from skyrocket.pipelines.replay.job import ReplaySummary


def replay_page(
    summary: ReplaySummary,
    history: ProgressHistory,
    cluster: str,
    now_ms: int,
    *,
    rate: float | None = None,
    is_dry: bool = False,
) -> ReportPage:
    """Lay out the page of a replay. `rate` is the limit that the user gave."""
    limit = [] if rate is None else [SummaryRow("limit", f"{format_number(rate)}/s", "all tasks together")]
    rows = [
        SummaryRow("messages selected", format_number(summary.selected)),
        SummaryRow("messages sent", format_number(summary.sent), "a dry run sends nothing" if is_dry else ""),
        SummaryRow("queues", format_number(len(summary.queues))),
        *limit,
    ]
    subtitle = f"{'A dry run' if is_dry else 'A run'} to {cluster}, ended at {format_moment(now_ms)}."
    return ReportPage(f"Replay of {summary.source}", rows, _sections(summary, history), subtitle)


def _sections(summary: ReplaySummary, history: ProgressHistory) -> list[Section]:
    ordered = sorted(summary.queues.items())
    return [
        LineChart("Messages a second", [LineSeries("replayed", history.rates())], "messages/s"),
        BarChart(
            "Messages by queue of the source",
            [(f"{source.topic} · {source.broker_name} · {source.queue_id}", float(one.selected)) for source, one in ordered],
            "messages",
        ),
        ReportTable(
            "Queues",
            ("from", "broker", "queue", "to", "at", "queue", "selected", "sent"),
            [(*source, *(one.target or (None, None, None)), one.selected, one.sent) for source, one in ordered],
            empty="No message is selected.",
        ),
    ]
