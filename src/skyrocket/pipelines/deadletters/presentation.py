"""Shows dead letters: as a document for programs, as rows for a terminal, as an HTML page. Pure."""

from __future__ import annotations

from typing import Any, Final

from skyrocket.pipelines.deadletters.export import letter_document
from skyrocket.pipelines.deadletters.letters import DeadLetter
from skyrocket.pipelines.deadletters.resend import ResendResult
from skyrocket.pipelines.deadletters.triage import AGE_LABELS, Triage
from skyrocket.report.parts import BarChart, HistogramChart, Note, ReportPage, ReportTable, Section, SummaryRow
from skyrocket.report.texts import count_of, format_moment, format_number

SAMPLE_CHARACTERS_MAX: Final = 400  # of a body
CAUSE_HEAD: Final = ("LETTERS", "ORIGINAL TOPIC", "RETRIES", "REASON", "FIRST", "LAST")
AGE_HEAD: Final = ("AGE", "LETTERS")
FAILURES_SHOWN: Final = 10


def body_sample(body: bytes, characters_max: int = SAMPLE_CHARACTERS_MAX) -> str:
    """Return the beginning of a body as text. Bytes that are not UTF-8 are shown as escapes."""
    text = body[: 4 * characters_max].decode("utf-8", "backslashreplace")
    if len(text) <= characters_max and len(body) <= 4 * characters_max:
        return text
    return f"{text[:characters_max]}… ({len(body):,} bytes)"


def triage_document(triage: Triage, topics: list[str]) -> dict[str, Any]:
    """Return the triage as plain values."""
    return {
        "topics": topics,
        "letters": triage.count,
        "bodyBytes": triage.body_bytes,
        "ages": {label: triage.by_age[label] for label in AGE_LABELS},
        "byTopic": [
            {"topic": topic, "originTopic": origin or None, "letters": count}
            for (topic, origin), count in triage.by_topic.most_common()
        ],
        "causes": [
            {
                "originTopic": key.origin_topic or None,
                "retries": key.retries,
                "reason": key.reason,
                "letters": found.count,
                "firstMs": found.first_ms,
                "lastMs": found.last_ms,
                "samples": [_sample_document(letter) for letter in found.samples],
            }
            for key, found in triage.most_frequent()
        ],
    }


def _sample_document(letter: DeadLetter) -> dict[str, Any]:
    document = letter_document(letter)
    document.pop("bodyBase64", None)
    return {**document, "body": body_sample(letter.body), "bodyLength": len(letter.body)}


def cause_rows(triage: Triage) -> list[tuple[object, ...]]:
    """Return a row of CAUSE_HEAD for each cause, the most frequent first."""
    return [
        (
            found.count,
            key.origin_topic or "(unknown)",
            key.retries,
            key.reason,
            *map(format_moment, (found.first_ms, found.last_ms)),
        )
        for key, found in triage.most_frequent()
    ]


def age_rows(triage: Triage) -> list[tuple[object, ...]]:
    """Return a row of AGE_HEAD for each age that letters have, the youngest first."""
    return [(label, triage.by_age[label]) for label in AGE_LABELS if triage.by_age[label]]


def letters_page(triage: Triage, topics: list[str], cluster: str, now_ms: int) -> ReportPage:
    """Lay out the page of a triage."""
    causes = triage.most_frequent()
    sections: list[Section] = [
        ReportTable("Causes", [name.lower() for name in CAUSE_HEAD], cause_rows(triage), empty="There are no dead letters."),
        BarChart(
            "By original topic",
            [(f"{origin or '(unknown)'} · {topic}", float(count)) for (topic, origin), count in triage.by_topic.most_common()],
            unit="letters",
        ),
        HistogramChart("By age", AGE_LABELS, [triage.by_age[label] for label in AGE_LABELS], unit="letters"),
        _sample_table(triage),
        Note("What to do next", paragraphs=_NEXT),
    ]
    summary = [
        SummaryRow("dead letters", format_number(triage.count)),
        SummaryRow("causes", format_number(len(causes))),
        SummaryRow("dead-letter topics", format_number(len(topics))),
        SummaryRow("bodies", f"{format_number(triage.body_bytes)} bytes"),
    ]
    return ReportPage(f"Dead letters at {cluster}", summary, sections, f"Read at {format_moment(now_ms)}.")


def _sample_table(triage: Triage) -> ReportTable:
    rows = [
        (
            letter.place,
            key.origin_topic,
            letter.tag,
            " ".join(letter.keys),
            format_moment(letter.died_ms),
            body_sample(letter.body),
        )
        for key, found in triage.most_frequent()
        for letter in found.samples
    ]
    return ReportTable(
        "Samples", ("letter", "original topic", "tag", "keys", "died", "body"), rows, empty="There are no samples."
    )


_NEXT: Final = (
    "Repair the handler first: a letter that is resent to a handler that still fails dies again.",
    "Export a selection with --export FILE.jsonl or FILE.parquet, and keep it beside the repair.",
    "Resend a selection with --resend, first without and then with --yes. The record file prevents a second time.",
    "All groups of the original topic get the messages again, so their handlers must be idempotent.",
)


# --- resend


def resend_document(result: ResendResult, record: str) -> dict[str, Any]:
    """Return what a resend did as plain values."""
    return {
        "dryRun": False,
        "record": record,
        "sent": result.sent,
        "alreadySent": result.known,
        "foundLater": result.found,
        "failed": result.failed,
        "unknown": result.unknown,
    }


def resend_text(result: ResendResult, record: str) -> str:
    """Describe what a resend did for a person."""
    lines = [f"{count_of(result.sent, 'letter')} resent; {result.known:,} were resent before. The record is {record}."]
    if result.found:
        lines.append(f"{count_of(result.found, 'letter')} of a run that was interrupted had arrived, and were recorded now.")
    for what, letters in (
        ("failed, and can be resent", result.failed),
        ("have an unknown outcome: run it again later", result.unknown),
    ):
        if letters:
            lines.append(f"{count_of(len(letters), 'letter')} {what}:")
            lines += [f"    {letter}: {reason}" for letter, reason in list(letters.items())[:FAILURES_SHOWN]]
    return "\n".join(lines)
