"""Shows a backlog: as a document for programs, as rows for a terminal, as an HTML page. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from skyrocket.client.queues import Queue
from skyrocket.doctor.backlog.measure import GroupBacklog, QueueBacklog, TopicBacklog, drain_ms
from skyrocket.doctor.backlog.rules import BacklogFinding
from skyrocket.pipelines.backlog.latency import BIN_EDGES_MS, PERCENTILES, LatencySummary
from skyrocket.report.parts import (
    Advice,
    BarChart,
    HeatMap,
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
from skyrocket.report.texts import format_duration, format_moment, format_number

HISTORY_MAX: Final = 5_000  # reports that a page's charts remember
TOPIC_HEAD: Final = ("GROUP", "TOPIC", "QUEUES", "LAG", "IN/S", "OUT/S", "DRAIN", "OLDEST", "SKEW")
LATENCY_HEAD: Final = (
    *("LATENCY", "TOPIC OR GROUP", "MESSAGES"),
    *(f"P{percent}" if percent < 100 else "MAX" for percent in PERCENTILES),
)
_QUEUE_HEAD: Final = (
    "group",
    "topic",
    "broker",
    "queue",
    "first",
    "committed",
    "end",
    "lag",
    "in/s",
    "out/s",
    "oldest",
    "member",
)
_MEMBER_HEAD: Final = ("group", "member", "address", "client", "queues", "pulled, not finished", "subscriptions")

UNKNOWN: Final = (
    "Rates are those between two looks; a single look has none.",
    "A committed offset says that a group has passed a message, not when.",
    "The time at which a handler ran is known only from RocketMQ's message trace, for clients that write it (trace=True).",
    "Latency compares clocks of different machines. Delayed and retried messages count from their first send.",
    "Members that broadcast, or keep offsets themselves, commit nothing to the broker: their lag is not known.",
)


@dataclass(frozen=True, slots=True)
class BacklogReport:
    """One report: everything that is known at its moment."""

    at_ms: int
    groups: Sequence[GroupBacklog]
    findings: Sequence[BacklogFinding] = ()
    latencies: Sequence[LatencySummary] = ()
    unanswered: dict[str, str] = field(default_factory=dict)
    failure: str = ""  # why nothing is known: the cluster did not answer this look

    @property
    def topics(self) -> list[TopicBacklog]:
        return [topic for group in self.groups for topic in group.topics]

    @property
    def lag(self) -> int:
        return sum(group.lag for group in self.groups)


class BacklogHistory:
    """The lags of past reports, for charts. The oldest go when there are too many."""

    def __init__(self, most: int = HISTORY_MAX) -> None:
        self._moments: deque[tuple[int, dict[tuple[str, str], int]]] = deque(maxlen=most)

    def add(self, report: BacklogReport) -> None:
        if report.failure:
            return  # a line must not fall to nothing while the cluster does not answer
        self._moments.append((report.at_ms, {(topic.group, topic.topic): topic.lag for topic in report.topics}))

    def __len__(self) -> int:
        return len(self._moments)

    def lines(self) -> list[LineSeries]:
        names = dict.fromkeys(name for _, lags in self._moments for name in lags)
        return [
            LineSeries(
                f"{group} · {topic}", [(at_ms, lags[group, topic]) for at_ms, lags in self._moments if (group, topic) in lags]
            )
            for group, topic in names
        ]


# --- for programs


def backlog_document(report: BacklogReport) -> dict[str, Any]:
    """Return the report as plain values. Times are in ms, rates per second; null is unknown."""
    return {
        "atMs": report.at_ms,
        "lag": report.lag,
        "groups": [_group_document(group) for group in report.groups],
        "advice": [_finding_document(one) for one in report.findings],
        "latencies": [
            {
                "what": one.what,
                "where": one.where,
                "messages": one.messages,
                **{f"p{percent}Ms": value for percent, value in zip(PERCENTILES, one.percentiles_ms, strict=True)},
            }
            for one in report.latencies
        ],
        "unanswered": report.unanswered,
        "failure": report.failure or None,
    }


def _finding_document(finding: BacklogFinding) -> dict[str, Any]:
    return {
        "rule": finding.rule,
        "severity": finding.severity.value,
        "group": finding.group,
        "topic": finding.topic or None,
        "sentence": finding.sentence,
        "evidence": finding.evidence,
    }


def _group_document(group: GroupBacklog) -> dict[str, Any]:
    return {
        "group": group.group,
        "lag": group.lag,
        "members": [
            {
                "clientId": member.client_id,
                "address": member.address,
                "language": member.language,
                "version": member.version,
                "subscriptions": dict(member.subscriptions),
                "queues": [_place(queue) for queue in sorted(member.queues)],
                "error": member.error or None,
            }
            for member in group.members
        ],
        "topics": [
            {
                "topic": topic.topic,
                "lag": topic.lag,
                "producedPerS": topic.produced_per_s,
                "consumedPerS": topic.consumed_per_s,
                "drainMs": topic.drain_ms,
                "oldestMs": topic.waiting_ms,
                "skew": topic.skew,
                "expired": topic.expired,
                "queues": [_queue_document(queue) for queue in topic.queues],
            }
            for topic in group.topics
        ],
    }


def _place(queue: Queue) -> dict[str, Any]:
    return {"topic": queue.topic, "brokerName": queue.broker_name, "queueId": queue.queue_id}


def _queue_document(one: QueueBacklog) -> dict[str, Any]:
    return {
        **_place(one.queue),
        "firstOffset": one.look.first_offset,
        "committedOffset": one.look.committed_offset,
        "endOffset": one.look.end_offset,
        "lag": one.lag,
        "producedPerS": one.produced_per_s,
        "consumedPerS": one.consumed_per_s,
        "oldestMs": one.waiting_ms,
        "member": one.owner or None,
    }


# --- for a terminal


def topic_rows(report: BacklogReport) -> list[tuple[object, ...]]:
    """Return a row of TOPIC_HEAD for each group and topic."""
    return [
        (
            topic.group,
            topic.topic,
            len(topic.queues),
            topic.lag,
            _rate_text(topic.produced_per_s),
            _rate_text(topic.consumed_per_s),
            _drain_text(topic),
            format_duration(topic.waiting_ms),
            f"{topic.skew:.1f}",
        )
        for topic in report.topics
    ]


def latency_rows(report: BacklogReport) -> list[tuple[object, ...]]:
    """Return a row of LATENCY_HEAD for each kind of latency that the cluster tells."""
    return [
        (one.what, one.where, one.messages, *(format_duration(value) for value in one.percentiles_ms)) for one in report.latencies
    ]


def unknown_lines(report: BacklogReport) -> list[str]:
    """Return a line for whatever did not answer."""
    lines = [f"Nothing is known of group '{group}': {reason}" for group, reason in report.unanswered.items()]
    return [*lines, *([f"The cluster did not answer this look: {report.failure}"] if report.failure else [])]


def advice_lines(report: BacklogReport) -> list[str]:
    """Return the findings as lines, each with its evidence below."""
    signs = {Severity.PROBLEM: "PROBLEM", Severity.WARNING: "WARNING", Severity.INFORMATION: "note", Severity.GOOD: "good"}
    return [line for one in report.findings for line in (f"{signs[one.severity]}: {one.sentence}", f"    {one.evidence}")]


def _rate_text(rate: float | None) -> str:
    return "–" if rate is None else format_number(round(rate, 1))


def _drain_text(topic: TopicBacklog) -> str:
    if topic.lag and topic.keeps_up:
        return "keeps up"
    if topic.drain_ms is not None:
        return format_duration(topic.drain_ms)
    return "unknown" if topic.consumed_per_s is None else "never"


# --- a page


def backlog_page(report: BacklogReport, history: BacklogHistory, cluster: str) -> ReportPage:
    """Lay out the page of a report, with the lags of earlier ones."""
    sections: list[Section] = [_advice_section(report)]
    if len(history) > 1:
        sections.append(LineChart("Lag over time", history.lines(), unit="messages"))
    longest_first = sorted(report.topics, key=lambda one: -one.lag)
    bars = [(f"{one.group} · {one.topic}", float(one.lag)) for one in longest_first]
    sections.append(BarChart("Lag by group and topic", bars, unit="messages"))
    sections.append(_queue_map(report))
    sections.append(_topic_table(report))
    sections.append(_queue_table(report))
    sections.append(_member_table(report))
    sections += _latency_sections(report)
    sections.append(Note("What these figures cannot say", paragraphs=UNKNOWN))
    return ReportPage(f"Backlog at {cluster}", _summary(report), sections, f"Looked at {format_moment(report.at_ms)}.")


def _summary(report: BacklogReport) -> list[SummaryRow]:
    produced = [one.produced_per_s for one in report.topics if one.produced_per_s is not None]
    consumed = [one.consumed_per_s for one in report.topics if one.consumed_per_s is not None]
    drains = drain_ms(report.lag, sum(produced) if produced else None, sum(consumed) if consumed else None)
    slowest = max((one.waiting_ms or 0 for one in report.topics), default=0)
    return [
        SummaryRow("waiting messages", format_number(report.lag)),
        SummaryRow("groups", format_number(len(report.groups)), f"{sum(len(one.members) for one in report.groups)} members"),
        SummaryRow("produced", f"{_rate_text(sum(produced))}/s" if produced else "–", "counted for each group"),
        SummaryRow("consumed", f"{_rate_text(sum(consumed))}/s" if consumed else "–"),
        SummaryRow("time to drain", format_duration(drains), "at these rates"),
        SummaryRow("oldest unread", format_duration(slowest) if slowest else "–"),
    ]


def _advice_section(report: BacklogReport) -> Note:
    advice = [Advice(one.severity, one.sentence, one.evidence) for one in report.findings]
    advice += [
        Advice(Severity.WARNING, f"Nothing is known of group '{group}'.", reason) for group, reason in report.unanswered.items()
    ]
    if report.failure:
        advice.append(Advice(Severity.PROBLEM, "The cluster did not answer this look.", report.failure))
    return Note("Advice", advice or [Advice(Severity.GOOD, "No rule found anything that needs attention.")])


def _queue_map(report: BacklogReport) -> HeatMap:
    topics = [one for one in report.topics if not one.is_retry]
    widest = max((len(one.queues) for one in topics), default=0)
    return HeatMap(
        "Lag by queue",
        columns=[str(number) for number in range(widest)],
        rows=[f"{one.group} · {one.topic}" for one in topics],
        values=[[float(queue.lag) for queue in one.queues] for one in topics],
        unit="messages",
        note="Queues of a topic from left to right, in the order of brokers and numbers.",
    )


def _topic_table(report: BacklogReport) -> ReportTable:
    rows = [
        (
            *(one.group, one.topic, len(one.queues), one.lag, _rounded(one.produced_per_s), _rounded(one.consumed_per_s)),
            *(_drain_text(one), format_duration(one.waiting_ms), round(one.skew, 1)),
        )
        for one in report.topics
    ]
    return ReportTable("Topics", [name.lower() for name in TOPIC_HEAD], rows, empty="No group has an offset.")


def _rounded(rate: float | None) -> float | None:
    return None if rate is None else round(rate, 1)


def _queue_table(report: BacklogReport) -> ReportTable:
    rows = [
        (
            *(topic.group, topic.topic, one.queue.broker_name, one.queue.queue_id),
            *(one.look.first_offset, one.look.committed_offset, one.look.end_offset, one.lag),
            *(_rounded(one.produced_per_s), _rounded(one.consumed_per_s), format_duration(one.waiting_ms), one.owner or "–"),
        )
        for topic in report.topics
        for one in topic.queues
    ]
    return ReportTable("Queues", _QUEUE_HEAD, rows, empty="No group has an offset in a queue.")


def _member_table(report: BacklogReport) -> ReportTable:
    rows = [
        (
            *(group.group, member.client_id, member.address, f"{member.language} {member.version}".strip()),
            *(len(member.queues), sum(member.cached.values())),
            member.error or ", ".join(f"{topic} ({text})" for topic, text in sorted(member.subscriptions.items())),
        )
        for group in report.groups
        for member in group.members
    ]
    return ReportTable("Members", _MEMBER_HEAD, rows, empty="No member is connected.")


def _latency_sections(report: BacklogReport) -> list[Section]:
    head = [name.lower() for name in LATENCY_HEAD]
    note = (
        "Of the newest messages. From send to store for every topic; to the handler only where clients write the message trace."
    )
    sections: list[Section] = [ReportTable("Latency", head, latency_rows(report), empty="No message tells its times.", note=note)]
    whole = [one for one in report.latencies if one.what == "end to end"] or list(report.latencies)
    if whole:
        longest = max(whole, key=lambda one: one.messages)
        bins = max(index for index, count in enumerate(longest.bins) if count) + 1  # without the empty ones at the end
        labels = [format_duration(edge) for edge in BIN_EDGES_MS[:bins]]
        sections.append(HistogramChart(f"Latency, {longest.what}: {longest.where}", labels, longest.bins[:bins], unit="messages"))
    return sections
