"""Shows verifications: as a document for programs, as text for a terminal, as an HTML page. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from skyrocket.pipelines.verify.result import VerifyResult
from skyrocket.report.parts import Advice, Note, ReportPage, ReportTable, Section, Severity, SummaryRow
from skyrocket.report.texts import count_of, format_number

HEAD: Final = ("TARGET", "VERIFIED", "PROBLEMS", "RESULT")
PROBLEMS_SHOWN: Final = 50  # for each target, in a terminal


def verify_document(results: Sequence[VerifyResult]) -> dict[str, Any]:
    """Return results as plain values."""
    return {
        "isSound": all(result.is_sound for result in results),
        "results": [{**asdict(result), "isSound": result.is_sound} for result in results],
    }


def verify_rows(results: Sequence[VerifyResult]) -> list[tuple[object, ...]]:
    """Return a row of HEAD for each target."""
    return [
        (
            f"{result.kind} {result.target}",
            ", ".join(f"{count:,} {what}" for what, count in result.counts.items()),
            len(result.problems) + result.more,
            "sound" if result.is_sound else "NOT SOUND",
        )
        for result in results
    ]


def verify_lines(results: Sequence[VerifyResult]) -> list[str]:
    """Name problems and remarks, target by target."""
    lines = []
    for result in results:
        shown = result.problems[:PROBLEMS_SHOWN]
        left = len(result.problems) + result.more - len(shown)
        lines += [f"{result.target}: {problem}" for problem in shown]
        if left:
            lines.append(f"{result.target}: {count_of(left, 'more problem')}; --json and --report have them.")
        lines += [f"{result.target}: (remark) {remark}" for remark in result.remarks]
    return lines


def verify_page(results: Sequence[VerifyResult]) -> ReportPage:
    """Lay out the page of a verification."""
    sections: list[Section] = [
        ReportTable("Targets", [name.lower() for name in HEAD], verify_rows(results)),
        ReportTable(
            "Problems",
            ("target", "problem"),
            [(result.target, problem) for result in results for problem in result.problems],
            empty="There are no problems.",
        ),
    ]
    remarks = [Advice(Severity.INFORMATION, remark, result.target) for result in results for remark in result.remarks]
    if remarks:
        sections.append(Note("Remarks", remarks))
    sound = sum(result.is_sound for result in results)
    problems = sum(len(result.problems) + result.more for result in results)
    summary = [SummaryRow("sound", f"{sound} of {len(results)}"), SummaryRow("problems", format_number(problems))]
    return ReportPage("Verification", summary, sections)
