"""What a demo has seen and found. Plain values, which `presentation` shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from skyrocket.pipelines.audit.findings import AuditReport
from skyrocket.pipelines.signup.effect_ledger import LedgerTotals
from skyrocket.pipelines.signup.findings import ServiceFindings
from skyrocket.pipelines.signup.funnel import FunnelMinute
from skyrocket.pipelines.signup.latencies import PageLatencies
from skyrocket.pipelines.signup.sign_ups import DemoSettings

LOOKS_MAX: Final = 20_000  # of the backlog: an hour of load, and the draining


@dataclass(slots=True)
class DemoHistory:
    """What was seen while the demo ran."""

    backlogs: dict[str, list[tuple[float, float]]] = field(default_factory=dict)  # service -> (time in ms, waiting messages)
    events: list[tuple[int, str]] = field(default_factory=list)  # (time in ms, what happened)

    def add_backlog(self, service: str, at_ms: int, waiting: int) -> None:
        """Add a look. Beyond the bound, the demo goes on unseen."""
        looks = self.backlogs.setdefault(service, [])
        if len(looks) < LOOKS_MAX:
            looks.append((float(at_ms), float(waiting)))

    def waiting(self, service: str) -> int:
        """Return how many messages waited for a service at the last look."""
        looks = self.backlogs.get(service)
        return int(looks[-1][1]) if looks else 0

    def highest(self, service: str) -> int:
        """Return the longest backlog of a service."""
        return int(max((waiting for _, waiting in self.backlogs.get(service, ())), default=0))


@dataclass(frozen=True, slots=True)
class ServiceResult:
    """What one service did."""

    name: str
    expected: int  # users whom it had to serve
    totals: LedgerTotals
    letters: int  # its dead letters
    waits_ms: Sequence[int]  # from the sign-up to the effect, ascending
    findings: ServiceFindings


@dataclass(frozen=True, slots=True)
class LetterRow:
    """A dead letter, for the report."""

    service: str
    user: str
    attempts: int  # after which it was given up
    died_ms: int
    body: bytes


@dataclass(frozen=True, slots=True)
class DemoResult:
    """The whole demo."""

    settings: DemoSettings
    cluster: str
    began_ms: int
    in_line: PageLatencies
    queued: PageLatencies
    failed_sends: int
    duplicates: int
    late: int
    poison: int
    history: DemoHistory
    services: Sequence[ServiceResult]
    letters: Sequence[LetterRow]
    funnel: Sequence[FunnelMinute]
    audit: AuditReport
    consumed: Mapping[str, int]  # messages before the committed offset of each service's group
    problems: Sequence[str]
    drained_s: float  # from the end of the load until every service had served everybody

    @property
    def is_clean(self) -> bool:
        return not self.problems
