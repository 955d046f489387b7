"""The doctor: what is wrong with the cluster, a group or a topic, the evidence, and what to do."""

from __future__ import annotations

import re
import shlex
from typing import Final, NamedTuple

from skyrocket.console.examinations import ExaminationResult, Subject
from skyrocket.console.limits import URGENT_MS
from skyrocket.console.visit import Answer, Page, Visit, attempt
from skyrocket.doctor.finding import Diagnosis
from skyrocket.report.parts import Severity


async def show_doctor(visit: Visit) -> Answer:
    """Show the last examination of what the visitor chose, and begin one if that is old. The page does not wait for it."""
    subject = Subject(visit.query.text("group"), visit.query.text("topic"))
    view = visit.clients.examinations.look(subject)
    states = await attempt(visit.admin.cluster.states())
    examined = view.result.examined if view.result else None
    values = {
        "subject": subject,
        "chosen": " ".join(f"--{name} {shlex.quote(value)}" for name, value in subject._asdict().items() if value),
        "view": view,
        "findings": [(one, link_subjects(one)) for one in examined.findings] if examined else [],
        "foreign": sorted({one.broker_name for one in states.value or [] if one.version and not one.skyrocket_version}),
    }
    return Page("doctor.html", "Doctor", values)


# --- findings


class FindingLink(NamedTuple):
    """A thing that a finding names, and the parts of the address of its page."""

    text: str
    parts: tuple[str, ...]


_ABOUT: Final = re.compile(r"(?P<kind>group|topic|broker|nameserver) (?P<name>[^\s,]+)(?: \((?P<address>[^)]+)\))?")


def link_subjects(finding: Diagnosis) -> list[FindingLink]:
    """Return the pages of what a finding is about. A broker that is known by its name alone is on the page of the cluster."""
    found = []
    for match in _ABOUT.finditer(finding.about):
        kind, name, address = match["kind"], match["name"], match["address"]
        if kind in ("group", "topic"):
            parts: tuple[str, ...] = (f"{kind}s", name)
        else:
            parts = ("brokers", address) if kind == "broker" and address else ("cluster",)
        found.append(FindingLink(match[0], parts))
    return found


def list_urgent(result: ExaminationResult | None, now_ms: int) -> list[Diagnosis]:
    """Return the findings that somebody should look at. After a while they may be cured, and count no more."""
    if result is None or result.examined is None or now_ms - result.ended_ms > URGENT_MS:
        return []
    return [one for one in result.examined.findings if one.severity in (Severity.PROBLEM, Severity.WARNING)]
