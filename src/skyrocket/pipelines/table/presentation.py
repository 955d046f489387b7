"""Shows what a run of the job `table` did, or would do, as an HTML page. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from skyrocket.pipelines.progress import ProgressHistory
from skyrocket.report.parts import (
    Advice,
    BarChart,
    LineChart,
    LineSeries,
    Note,
    ReportPage,
    ReportTable,
    Section,
    Severity,
    SummaryRow,
)
from skyrocket.report.texts import count_of, format_moment, format_number

if TYPE_CHECKING:
    from skyrocket.pipelines.table.job import TableSummary

_RATE_NOTE: Final = "A batch counts when it is committed. A run with one batch has one point; --batch-messages makes more."


def table_page(summary: TableSummary, history: ProgressHistory, cluster: str, now_ms: int, *, is_dry: bool = False) -> ReportPage:
    """Lay out the page of a run, or of a dry run."""
    counts = summary.counts
    read = summary.planned if is_dry else summary.messages
    rows = [
        SummaryRow("messages to read" if is_dry else "messages read", format_number(read), count_of(summary.batches, "commit")),
        SummaryRow("applied", format_number(counts.applied)),
        SummaryRow("changed nothing", format_number(counts.repeated + counts.late), "repeated or late"),
        SummaryRow("conflicts", format_number(counts.conflicts)),
        SummaryRow("rejected", format_number(summary.rejected)),
        SummaryRow("waiting", format_number(summary.waiting), "now, of all runs"),
    ]
    subtitle = f"{'A dry run' if is_dry else 'A run'} of topic {summary.topic} at {cluster}, ended at {format_moment(now_ms)}."
    return ReportPage(summary.table, rows, _sections(summary, history), subtitle)


def _sections(summary: TableSummary, history: ProgressHistory) -> list[Section]:
    counts = summary.counts
    became = {"applied": counts.applied, "repeated": counts.repeated, "late": counts.late, "rejected": summary.rejected}
    advice = _advice(summary)
    return [
        Note(
            "What to look at",
            advice or [Advice(Severity.GOOD, "Nothing was rejected, nothing waits, no field has left its column.")],
        ),
        LineChart("Messages a second", [LineSeries("applied", history.rates())], "messages/s", note=_RATE_NOTE),
        BarChart(
            "What became of the changes",
            [(name, float(count)) for name, count in became.items()] if summary.messages else [],
            "messages",
        ),
        BarChart(
            "Messages by queue",
            [(f"{queue.broker_name} · {queue.queue_id}", float(count)) for queue, count in sorted(summary.queues.items())],
            "messages",
        ),
        ReportTable(
            "Messages that are no changes",
            ("reason", "messages"),
            summary.reasons.most_common(),
            empty="None.",
            note=f"{summary.rejects} has them." if summary.rejected else "",
        ),
        ReportTable(
            "Keys that wait for a version",
            ("key", "has version", "lowest that waits", "changes"),
            summary.gaps,
            empty="None.",
        ),
        ReportTable(
            "Fields that left their columns",
            ("field", "values", "column", "bodies"),
            [(one.field, one.kind, one.column or "none", one.bodies) for one in summary.drift.fields(summary.columns)],
            empty="None.",
        ),
        ReportTable(
            "Columns",
            ("column", "type"),
            [(column.name, column.kind) for column in summary.columns.columns],
            empty="The topic has no message yet, so the columns are not known.",
        ),
    ]


def _advice(summary: TableSummary) -> list[Advice]:
    found = [
        Advice(
            Severity.WARNING,
            "Messages were deleted before they were read. Keys that they changed may be at an older state.",
            f"{gap}.",
        )
        for gap in summary.missing
    ]
    if summary.rejected:
        reason, times = summary.reasons.most_common(1)[0]
        sentence = (
            f"Messages that are no changes: {format_number(summary.rejected)}. {summary.rejects} has them, with the reasons."
        )
        found.append(Advice(Severity.WARNING, sentence, f"The most frequent reason, {format_number(times)} times: {reason}"))
    if summary.counts.conflicts:
        sentence = f"{count_of(summary.counts.conflicts, 'change')} had the key and version of another change, and other content."
        found.append(Advice(Severity.WARNING, f"{sentence} Look for two writers that count alone."))
    if summary.waiting:
        sentence = f"Changes that wait for versions that have not come: {format_number(summary.waiting)}."
        found.append(Advice(Severity.WARNING, f"{sentence} Find the missing ones, and send them again."))
    drifted = summary.drift.fields(summary.columns)
    if drifted:
        sentence = f"{count_of(len(drifted), 'field')} came in a shape that has no column. The values are in _rest."
        found.append(Advice(Severity.INFORMATION, sentence, str(drifted[0])))
    return found
