"""Shows what a run of the archive did as an HTML page. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from skyrocket.pipelines.archive.summary import ArchiveSummary, TopicCounts, expiry_sentences
from skyrocket.pipelines.progress import ProgressHistory
from skyrocket.report.parts import (
    Advice,
    HistogramChart,
    LineChart,
    LineSeries,
    Note,
    ReportPage,
    ReportTable,
    Section,
    Severity,
    SummaryRow,
)
from skyrocket.report.texts import count_of, format_duration, format_moment, format_number, short_number

_KIB: Final = 1024


def archive_page(summary: ArchiveSummary, history: ProgressHistory, cluster: str, now_ms: int) -> ReportPage:
    """Lay out the page of a run, or of a dry run."""
    is_dry = bool(summary.planned)
    files = sum(counts.files for counts in summary.topics.values())
    size_bytes = sum(counts.size_bytes for counts in summary.topics.values())
    rows = [
        SummaryRow("messages to archive" if is_dry else "messages archived", format_number(summary.messages)),
        SummaryRow("files", format_number(files), f"{count_of(summary.merged, 'file')} merged" if summary.merged else ""),
        SummaryRow("size", f"{short_number(size_bytes)}B", summary.format),
        SummaryRow("batches of this run", format_number(summary.batches), f"the archive is at batch {summary.last_batch}"),
        SummaryRow("messages deleted before", format_number(sum(lost.stop - lost.start for lost in summary.lost))),
        SummaryRow(
            "oldest message had waited",
            format_duration(summary.waited_ms),
            "" if summary.reserved_ms is None else f"brokers keep messages for {format_duration(summary.reserved_ms)}",
        ),
    ]
    subtitle = f"{'A dry run' if is_dry else 'A run'} at {cluster}, ended at {format_moment(now_ms)}."
    return ReportPage(f"Archive {summary.folder}", rows, _sections(summary, history), subtitle)


def _sections(summary: ArchiveSummary, history: ProgressHistory) -> list[Section]:
    return [
        *([_late(summary)] if summary.is_late else []),
        *([Note("Messages that are not in the archive", _lost(summary))] if summary.lost else []),
        LineChart("Messages a second", [LineSeries("archived", history.rates())], "messages/s", note=_RATE_NOTE),
        _by_hour("Messages by the hour in which they were stored", summary.hours, "messages"),
        _by_hour("Size of files by that hour, in KiB", summary.hours, "KiB"),
        ReportTable(
            "Topics",
            ("topic", "messages", "files", "bytes"),
            [(topic, one.messages, one.files, one.size_bytes) for topic, one in sorted(summary.topics.items())],
            empty="Nothing new: the archive has every message.",
        ),
        ReportTable(
            "Hours",
            ("hour (UTC)", "messages", "files", "bytes"),
            [(hour, one.messages, one.files, one.size_bytes) for hour, one in sorted(summary.hours.items())],
            empty="No file was written.",
        ),
    ]


def _by_hour(title: str, hours: Mapping[str, TopicCounts], unit: str) -> HistogramChart:
    ordered = sorted(hours.items())
    values = [one.messages if unit == "messages" else -(-one.size_bytes // _KIB) for _, one in ordered]
    return HistogramChart(title, [hour for hour, _ in ordered], values, unit)


def _late(summary: ArchiveSummary) -> Note:
    what, evidence, way_out = expiry_sentences(summary.waited_ms, summary.reserved_ms)
    return Note("Retention", [Advice(Severity.WARNING, what, f"{evidence} {way_out}")])


def _lost(summary: ArchiveSummary) -> list[Advice]:
    return [
        Advice(
            Severity.WARNING,
            f"Messages of topic '{lost.topic}' were deleted before they were archived.",
            f"Queue {lost.queue_id} at {lost.broker}, offsets {lost.start:,} to {lost.stop:,}.",
        )
        for lost in summary.lost
    ]


_RATE_NOTE: Final = "Counted by tasks that have ended, twice a second. A short run has few points."
