"""What the demo proves: no sign-up was lost, each effect happened once, each poison message is a dead letter. Pure.

acknowledged ⊆ effects ⊆ sent        the answer to a send that failed is unknown, so its effect may or may not happen
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Final, NamedTuple

from skyrocket.pipelines.audit.findings import AuditReport
from skyrocket.report.texts import count_of

NAMED_MAX: Final = 5  # users in a sentence


@dataclass(frozen=True, slots=True)
class ServiceFindings:
    """What is wrong with the effects of one service."""

    missing: Sequence[str] = ()  # users who were registered and got nothing
    twice: Sequence[str] = ()
    unexpected: Sequence[str] = ()  # users who never registered, or not with this service
    lost_letters: Sequence[str] = ()  # poison messages that are not among the dead letters
    waiting: int = 0  # messages that its group has not consumed

    @property
    def is_clean(self) -> bool:
        return not (self.missing or self.twice or self.unexpected or self.lost_letters or self.waiting)


class ExpectedWork(NamedTuple):
    """What a service has to do."""

    acknowledged: Set[str]  # users whose sign-up the broker has confirmed
    sent: Set[str]  # and those whose sign-up may have arrived
    poison: Set[str]  # users of confirmed messages that nobody can read


def check_service(
    expected: ExpectedWork, effects: Mapping[str, int], letters: Set[str], *, stored: int, consumed: int
) -> ServiceFindings:
    """Compare what a service had to do with what it did. `effects` counts those of each user."""
    return ServiceFindings(
        missing=sorted(expected.acknowledged - effects.keys()),
        twice=sorted(user for user, count in effects.items() if count > 1),
        unexpected=sorted(effects.keys() - expected.sent),
        lost_letters=sorted(expected.poison - letters),
        waiting=max(0, stored - consumed),
    )


_KINDS: Final = (
    ("missing", "got nothing"),
    ("twice", "got it more than once"),
    ("unexpected", "got it without a sign-up"),
    ("lost_letters", "sent poison that is not among the dead letters"),
)


def find_problems(audit: AuditReport, services: Mapping[str, ServiceFindings]) -> list[str]:
    """Return a sentence for each thing that is wrong. Without any, nothing was lost and nothing was done twice."""
    problems = []
    if audit.missing:
        problems.append(f"{count_of(audit.missing, 'message')} of the sign-up page {_are(audit.missing)} not at the broker.")
    if audit.repeated:
        problems.append(f"{count_of(audit.repeated, 'message')} of the sign-up page {_are(audit.repeated)} stored twice.")
    if audit.unstamped:
        count = sum(audit.unstamped.values())
        problems.append(f"{count_of(count, 'message')} in the topic {_are(count)} not of the sign-up page.")
    for name, found in services.items():
        for kind, what in _KINDS:
            users: Sequence[str] = getattr(found, kind)
            if users:
                problems.append(f"{name}: {count_of(len(users), 'user')} {what}: {name_some(users)}.")
        if found.waiting:
            problems.append(f"{name}: {count_of(found.waiting, 'message')} {_are(found.waiting)} not consumed.")
    return problems


def name_some(users: Sequence[str]) -> str:
    """Name the first users, and count the others."""
    shown = ", ".join(users[:NAMED_MAX])
    return f"{shown} and {len(users) - NAMED_MAX:,} more" if len(users) > NAMED_MAX else shown


def _are(count: int) -> str:
    return "is" if count == 1 else "are"
