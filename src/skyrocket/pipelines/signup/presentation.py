"""Shows a sign-up demo: live lines, a document for programs, text for a terminal, an HTML page. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

from skyrocket.pipelines.audit.presentation import STREAM_HEAD, audit_document, stream_rows, verdict
from skyrocket.pipelines.backlog.latency import PERCENTILES, percentile
from skyrocket.pipelines.deadletters.presentation import body_sample
from skyrocket.pipelines.signup.effect_ledger import FAILED, REFUSED, REPEATED
from skyrocket.pipelines.signup.funnel import STEPS, FunnelMinute, funnel_totals
from skyrocket.pipelines.signup.latencies import EDGES_MS, PageLatencies, bin_label, used_bins
from skyrocket.pipelines.signup.result import DemoHistory, DemoResult, ServiceResult
from skyrocket.pipelines.signup.services import RETRIES_MAX, SERVICES
from skyrocket.report.parts import (
    Advice,
    ColumnChart,
    ColumnSeries,
    LineChart,
    LineSeries,
    Note,
    ReportPage,
    ReportTable,
    Section,
    Severity,
    SummaryRow,
)
from skyrocket.report.texts import count_of, format_duration, format_moment, format_number

SERVICE_HEAD: Final = (
    *("SERVICE", "USERS", "SERVED", "TWICE", "REPEATS", "FAILED", "REFUSED", "DEAD LETTERS", "BACKLOG", "MEDIAN", "P99"),
)
LATENCY_HEAD: Final = ("VERSION", "ANSWERED", *(f"P{percent}" if percent < 100 else "MAX" for percent in PERCENTILES))
FUNNEL_HEAD: Final = ("MINUTE", "REGISTERED", "LATE", *(service.name.upper() for service in SERVICES), "UNREADABLE")
MINUTES_LIVE: Final = 6  # of the funnel, on a terminal
NO_LOSS: Final = "Nothing was lost, and every effect happened once."


# --- while it runs


def live_lines(history: DemoHistory, funnel: Sequence[FunnelMinute]) -> tuple[str, ...]:
    """Return what a terminal shows below the bar: backlogs, what happened, and the last minutes of the funnel."""
    lines = []
    if history.backlogs:
        lines.append("waiting: " + "   ".join(f"{name} {history.waiting(name):,}" for name in history.backlogs))
    lines += [f"{_clock(at_ms)}  {what}" for at_ms, what in history.events]
    if funnel:
        lines.append("  ".join(name.lower().rjust(max(8, len(name))) for name in FUNNEL_HEAD))
        lines += [
            "  ".join(str(cell).rjust(max(8, len(name))) for cell, name in zip(row, FUNNEL_HEAD, strict=True))
            for row in funnel_rows(funnel[-MINUTES_LIVE:])
        ]
    return tuple(lines)


# --- rows that terminal and page share


def service_rows(result: DemoResult) -> list[tuple[object, ...]]:
    """Return a row of SERVICE_HEAD for each service."""
    return [
        (
            *(one.name, one.expected, one.totals.effects, len(one.findings.twice)),
            *(one.totals.deliveries[kind] for kind in (REPEATED, FAILED, REFUSED)),
            *(one.letters, result.history.highest(one.name), *(format_duration(wait) for wait in _waits(one))),
        )
        for one in result.services
    ]


def _waits(service: ServiceResult) -> tuple[int | None, int | None]:
    if not service.waits_ms:
        return None, None
    return percentile(service.waits_ms, 50), percentile(service.waits_ms, 99)


def latency_rows(result: DemoResult) -> list[tuple[object, ...]]:
    """Return a row of LATENCY_HEAD for each version of the page."""
    return [
        (one.name, one.total, *(format_duration(one.percentile_ms(percent)) for percent in PERCENTILES))
        for one in (result.in_line, result.queued)
    ]


def funnel_rows(funnel: Sequence[FunnelMinute]) -> list[tuple[object, ...]]:
    """Return a row of FUNNEL_HEAD for each minute."""
    return [
        (
            _clock(minute.minute_ms),
            *(minute.users[STEPS[0]], minute.late),
            *(minute.users[step] for step in STEPS[1:]),
            minute.unreadable,
        )
        for minute in funnel
    ]


def _clock(time_ms: int) -> str:
    return f"{datetime.fromtimestamp(time_ms / 1000, UTC):%H:%M:%S}"


def summary_sentence(result: DemoResult) -> str:
    """Say what the demo proved, or what is wrong."""
    if result.is_clean:
        return f"{NO_LOSS} {verdict(result.audit)}"
    return "\n".join(["The demo found problems:", *(f"  {problem}" for problem in result.problems)])


# --- for programs


def demo_document(result: DemoResult) -> dict[str, Any]:
    """Return the result as plain values."""
    settings = result.settings
    return {
        "isClean": result.is_clean,
        "problems": list(result.problems),
        "seconds": settings.seconds,
        "rate": settings.rate,
        "seed": settings.seed,
        "minuteSeconds": settings.minute_s,
        "duplicates": result.duplicates,
        "late": result.late,
        "poison": result.poison,
        "failedSends": result.failed_sends,
        "drainedSeconds": round(result.drained_s, 3),
        "latencies": {"inLine": _latency_document(result.in_line), "queued": _latency_document(result.queued)},
        "services": [_service_document(one, result.history) for one in result.services],
        "funnel": [
            {
                "minuteMs": one.minute_ms,
                **{step: one.users[step] for step in STEPS},
                "late": one.late,
                "unreadable": one.unreadable,
            }
            for one in result.funnel
        ],
        "deadLetters": [
            {"service": one.service, "user": one.user, "attempts": one.attempts, "diedMs": one.died_ms} for one in result.letters
        ],
        "events": [{"atMs": at_ms, "what": what} for at_ms, what in result.history.events],
        "audit": audit_document(result.audit),
    }


def _latency_document(histogram: PageLatencies) -> dict[str, Any]:
    return {
        "answered": histogram.total,
        "percentilesMs": {str(percent): histogram.percentile_ms(percent) for percent in PERCENTILES},
        "bins": [[edge, count] for edge, count in zip(EDGES_MS, histogram.counts, strict=True) if count],
    }


def _service_document(service: ServiceResult, history: DemoHistory) -> dict[str, Any]:
    median_ms, p99_ms = _waits(service)
    found = service.findings
    return {
        "service": service.name,
        "users": service.expected,
        "served": service.totals.effects,
        "missing": list(found.missing),
        "twice": list(found.twice),
        "unexpected": list(found.unexpected),
        "lostLetters": list(found.lost_letters),
        "notConsumed": found.waiting,
        "deliveries": dict(service.totals.deliveries),
        "deadLetters": service.letters,
        "backlogMax": history.highest(service.name),
        "waitMs": {"50": median_ms, "99": p99_ms},
    }


# --- the page


def demo_page(result: DemoResult) -> ReportPage:
    """Lay out the report."""
    settings = result.settings
    totals = funnel_totals(result.funnel)
    summary = [
        SummaryRow("sign-ups over the queue", format_number(result.queued.total), f"{settings.rate:g} a second"),
        SummaryRow("median wait, in-line", format_duration(result.in_line.percentile_ms(50))),
        SummaryRow("median wait, queued", format_duration(result.queued.percentile_ms(50))),
        SummaryRow("users registered", format_number(totals[STEPS[0]])),
        SummaryRow("duplicates", format_number(result.duplicates), "recognised by every service"),
        SummaryRow("late events", format_number(result.late), "counted in their own minute"),
        SummaryRow("poison messages", format_number(result.poison), f"{count_of(len(result.letters), 'dead letter')}"),
        SummaryRow("lost", format_number(result.audit.missing + sum(len(one.findings.missing) for one in result.services))),
    ]
    subtitle = (
        f"{settings.seconds:g} s of load at {result.cluster}, seed {settings.seed}, queued load since "
        f"{format_moment(result.began_ms)}. A minute of the funnel took {settings.minute_s:g} s."
    )
    return ReportPage("Sign-up demo: one queue, four services", summary, _sections(result), subtitle)


def _sections(result: DemoResult) -> list[Section]:
    return [
        Note("What the demo proves", _proofs(result)),
        _latency_chart(result),
        ReportTable("Latency of the sign-up page", _lower(LATENCY_HEAD), latency_rows(result)),
        LineChart(
            "Backlog of each service",
            [LineSeries(name, looks) for name, looks in result.history.backlogs.items()],
            "messages",
            note=" · ".join(f"{_clock(at_ms)} {what}" for at_ms, what in result.history.events),
        ),
        _funnel_chart(result.funnel),
        ReportTable("Funnel by minute", _lower(FUNNEL_HEAD), funnel_rows(result.funnel), empty="Nobody registered."),
        ReportTable("Services", _lower(SERVICE_HEAD), service_rows(result), note=_SERVICES_NOTE),
        ReportTable(
            "Dead letters",
            ("service", "user", "attempts", "died", "body"),
            [(one.service, one.user, one.attempts, format_moment(one.died_ms), body_sample(one.body)) for one in result.letters],
            empty="There was no poison message.",
        ),
        ReportTable("Audit of the sign-up topic", _lower(STREAM_HEAD), stream_rows(result.audit.streams), note=_AUDIT_NOTE),
    ]


def _proofs(result: DemoResult) -> list[Advice]:
    if not result.is_clean:
        return [Advice(Severity.PROBLEM, problem) for problem in result.problems]
    served = ", ".join(f"{one.totals.effects:,} of {one.expected:,} by {one.name}" for one in result.services)
    repeats = sum(one.totals.deliveries[REPEATED] for one in result.services)
    consumed = ", ".join(f"{name} {count:,}" for name, count in result.consumed.items())
    return [
        Advice(
            Severity.GOOD,
            "Every sign-up that was answered is at the broker, in order and once.",
            f"{verdict(result.audit)} Consumed: {consumed}.",
        ),
        Advice(
            Severity.GOOD,
            "Every service served every user exactly once, though one was killed with kill -9 in the middle of its work.",
            f"{served}. {repeats:,} deliveries of work that was done before changed nothing.",
        ),
        Advice(
            Severity.GOOD,
            "Every poison message is among the dead letters of each service that got it, and held up nobody.",
            f"{count_of(result.poison, 'poison message')}, {count_of(len(result.letters), 'dead letter')}, "
            f"after {RETRIES_MAX + 1} attempts each.",
        ),
        Advice(
            Severity.GOOD,
            "The stream on Spark counted the same users as the services' own databases.",
            ", ".join(f"{step} {count:,}" for step, count in funnel_totals(result.funnel).items()) + ".",
        ),
    ]


def _latency_chart(result: DemoResult) -> ColumnChart:
    both = (result.in_line, result.queued)
    bins = used_bins(both)
    return ColumnChart(
        "How long people wait for the sign-up page, in % of answers",
        [bin_label(index) for index in bins],
        [ColumnSeries(one.name, [one.shares()[index] for index in bins]) for one in both],
        "%",
        note="In-line, the page calls SMS, push and coupons in turn, 50 to 150 ms each, and then answers. Over the queue, it "
        "answers when the broker has the message. Each bin begins at its label.",
    )


def _funnel_chart(funnel: Sequence[FunnelMinute]) -> ColumnChart:
    return ColumnChart(
        "Funnel: users of each minute by step",
        [_clock(minute.minute_ms) for minute in funnel],
        [ColumnSeries(step, [minute.users[step] for minute in funnel]) for step in STEPS],
        "users",
        note="Counted by a Spark stream over the sign-ups and the steps. Only users of the app get push.",
    )


def _lower(head: Sequence[str]) -> list[str]:
    return [name.lower() for name in head]


_SERVICES_NOTE: Final = (
    "users: whom it had to serve. twice: users who got it more than once. repeats: deliveries of work that was done before "
    "(duplicates, and what came again after the kill). failed: attempts that were retried. refused: attempts at poison. backlog: "
    "the longest. median, p99: from the sign-up to the effect."
)
_AUDIT_NOTE: Final = (
    "Numbers are the sequence stamps of the page's producer, compared with what it says it sent. Consumed is that of "
    "red-packets, the service that joined last."
)
