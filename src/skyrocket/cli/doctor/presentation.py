"""Show an examination: as text for people, and as a JSON document whose fields are stable."""

from __future__ import annotations

from collections import Counter
from typing import Any

from skyrocket.doctor.examination import URGENCY, Examination
from skyrocket.doctor.finding import Diagnosis
from skyrocket.report.texts import count_of

NOTHING_FOUND = "Nothing is wrong, as far as can be seen from here."


def examination_document(examined: Examination) -> dict[str, Any]:
    return {
        "sound": examined.is_sound,
        "findings": [
            {
                "id": one.rule,
                "severity": one.severity.value,
                "about": one.about,
                "what": one.what,
                "evidence": one.evidence,
                "advice": one.advice,
                "page": one.page,
            }
            for one in examined.findings
        ],
        "lookedAt": list(examined.looked_at),
        "unanswered": list(examined.unanswered),
    }


def examination_text(examined: Examination) -> str:
    """Return the findings, the most urgent first, then what was looked at."""
    parts = [_finding_text(one) for one in examined.findings] or [NOTHING_FOUND]
    parts += ["\n".join(f"Not known: {sentence}" for sentence in examined.unanswered)] if examined.unanswered else []
    return "\n\n".join([*parts, _summary(examined)])


def _finding_text(finding: Diagnosis) -> str:
    return "\n".join(
        (
            f"{finding.severity.value.upper()} {finding.rule}: {finding.about}",
            f"  {finding.what}",
            f"  Evidence: {finding.evidence}",
            f"  Do: {finding.advice}",
            f"  More: {finding.page}",
        )
    )


def _summary(examined: Examination) -> str:
    counts = Counter(one.severity for one in examined.findings)
    nouns = {"information": "remark"}
    found = [count_of(counts[one], nouns.get(one.value, one.value)) for one in URGENCY if counts[one]]
    return f"{', '.join(found) or 'No findings'}. Looked at: {', '.join(examined.looked_at)}."
