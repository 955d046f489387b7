"""Shows an audit: as a document for programs, as rows for a terminal, as an HTML page. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final

from skyrocket.client.helpers.loss_detection import Gap
from skyrocket.pipelines.audit.findings import AuditReport, StreamAudit
from skyrocket.report.parts import (
    Advice,
    BarChart,
    HeatMap,
    Note,
    ReportPage,
    ReportTable,
    Section,
    Severity,
    SummaryRow,
)
from skyrocket.report.texts import count_of, format_moment, format_number

RANGES_SHOWN: Final = 8  # in one cell
RANGES_IN_DOCUMENT_MAX: Final = 10_000  # of one kind and stream
STREAM_HEAD: Final = (
    "PRODUCER",
    "TOPIC",
    "BROKER",
    "QUEUE",
    "SENT",
    "STORED",
    "CONSUMED",
    "MISSING",
    "REPEATED",
    "LATE",
    "NUMBERS",
)

UNKNOWN: Final = (
    "A gap need not be a loss: a send that failed, or went to another queue after a failure, uses up a number.",
    "Messages missing after the highest stored number of a stream are seen only with a file of what producers sent (--sent).",
    "Consumed means that the group's committed offset has passed the message.",
    "Where retention has deleted the beginning of a queue, counting begins with the lowest number that is left.",
)


def ranges_text(ranges: Sequence[Gap], most: int = RANGES_SHOWN) -> str:
    """Format ranges, the first ones by name: 4, 7–9 and 12 more."""
    shown = ", ".join(map(str, ranges[:most]))
    return f"{shown} and {len(ranges) - most:,} more" if len(ranges) > most else shown


def audit_document(report: AuditReport) -> dict[str, Any]:
    """Return the report as plain values. Ranges are pairs of the first and the last number."""
    return {
        "isClean": report.is_clean,
        "messages": report.messages,
        "missing": report.missing,
        "repeated": report.repeated,
        "late": report.late,
        "unstamped": sum(report.unstamped.values()),
        "streams": [stream_document(stream) for stream in report.streams],
    }


def stream_document(stream: StreamAudit) -> dict[str, Any]:
    """Return one stream as plain values."""
    return {
        "producer": stream.producer,
        "topic": stream.queue.topic,
        "brokerName": stream.queue.broker_name,
        "queueId": stream.queue.queue_id,
        "sent": stream.sent,
        "isSentKnown": stream.is_sent_known,
        "stored": stream.stored,
        "consumed": stream.consumed,
        "missing": stream.missing,
        "missingNumbers": [list(gap) for gap in stream.gaps[:RANGES_IN_DOCUMENT_MAX]],
        "repeated": stream.repeated_count,
        "repeatedNumbers": [list(gap) for gap in stream.repeated[:RANGES_IN_DOCUMENT_MAX]],
        "late": stream.late_count,
        "lateNumbers": [list(gap) for gap in stream.late[:RANGES_IN_DOCUMENT_MAX]],
    }


def stream_rows(streams: Sequence[StreamAudit]) -> list[tuple[object, ...]]:
    """Return a row of STREAM_HEAD for each stream."""
    return [
        (
            *(one.producer, one.queue.topic, one.queue.broker_name, one.queue.queue_id),
            *(one.sent, one.stored, "–" if one.consumed is None else one.consumed),
            *(one.missing, one.repeated_count, one.late_count, numbers_text(one)),
        )
        for one in streams
    ]


def numbers_text(stream: StreamAudit) -> str:
    """Name the numbers that are missing, repeated or late."""
    named = (("missing", stream.gaps), ("repeated", stream.repeated), ("late", stream.late))
    return "; ".join(f"{what} {ranges_text(ranges)}" for what, ranges in named if ranges) or "–"


def verdict(report: AuditReport) -> str:
    """Say the result of an audit in a sentence."""
    seen = f"{count_of(report.messages, 'message')} of {count_of(len(report.streams), 'stream')}"
    unstamped = sum(report.unstamped.values())
    without = f" {count_of(unstamped, 'message')} had no valid stamp and could not be checked." if unstamped else ""
    if report.is_clean:
        return f"{seen}: each once and in order.{without}" if report.streams else f"No message has a sequence stamp.{without}"
    return f"{seen}: {report.missing:,} missing, {report.repeated:,} repeated, {report.late:,} late.{without}"


def alert_text(stream: StreamAudit) -> str:
    """Return the alert about a stream that a following audit prints."""
    return f"Producer {stream.producer} in {stream.queue}: {numbers_text(stream)}."


def audit_page(report: AuditReport, topics: Sequence[str], cluster: str, now_ms: int) -> ReportPage:
    """Lay out the page of an audit."""
    faulty = [stream for stream in report.streams if not stream.is_clean]
    severity = Severity.PROBLEM if report.missing else Severity.WARNING if faulty else Severity.GOOD
    sections: list[Section] = [
        Note("Verdict", [Advice(severity, verdict(report), f"Topics: {', '.join(topics)}.")]),
        ReportTable(
            "Streams with findings",
            [name.lower() for name in STREAM_HEAD],
            stream_rows(faulty),
            empty="Every stream is complete, without repeats and in order.",
        ),
        BarChart("Missing messages by producer", _by_producer(report), unit="messages"),
        _queue_map(report),
        ReportTable("All streams", [name.lower() for name in STREAM_HEAD], stream_rows(report.streams), empty="There are none."),
        ReportTable(
            "Messages without a stamp",
            ("topic", "broker", "queue", "messages"),
            [(queue.topic, queue.broker_name, queue.queue_id, count) for queue, count in sorted(report.unstamped.items())],
            empty="Every message has a stamp.",
        ),
        Note("What an audit cannot say", paragraphs=UNKNOWN),
    ]
    summary = [
        SummaryRow("messages", format_number(report.messages)),
        SummaryRow("producers", format_number(len({stream.producer for stream in report.streams}))),
        SummaryRow("missing", format_number(report.missing)),
        SummaryRow("repeated", format_number(report.repeated)),
        SummaryRow("late", format_number(report.late)),
        SummaryRow("without a stamp", format_number(sum(report.unstamped.values()))),
    ]
    return ReportPage(f"Audit of {', '.join(topics)} at {cluster}", summary, sections, f"Audited at {format_moment(now_ms)}.")


def _by_producer(report: AuditReport) -> list[tuple[str, float]]:
    found: dict[str, int] = defaultdict(int)
    for stream in report.streams:
        found[stream.producer] += stream.missing
    return sorted(((producer, float(count)) for producer, count in found.items() if count), key=lambda bar: -bar[1])


def _queue_map(report: AuditReport) -> HeatMap:
    producers = sorted({stream.producer for stream in report.streams})
    queues = sorted({stream.queue for stream in report.streams})
    stored = {(stream.producer, stream.queue): float(stream.stored) for stream in report.streams}
    return HeatMap(
        "Messages by producer and queue",
        columns=[
            f"{queue.queue_id}" if len({one.topic for one in queues}) == 1 else f"{queue.topic} {queue.queue_id}"
            for queue in queues
        ],
        rows=producers,
        values=[[stored.get((producer, queue)) for queue in queues] for producer in producers],
        unit="messages",
    )
