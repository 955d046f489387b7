"""What a rule finds: what is so, the evidence, and what to do. Rules are tables of pure functions from facts to symptoms."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, Generic, NamedTuple, TypeVar

from skyrocket.report.parts import Severity

PAGE: Final = "docs/doctor.md"
NAMES_MAX: Final = 5  # in one sentence

Facts = TypeVar("Facts")


class Symptom(NamedTuple):
    """What a rule says; the table of rules adds its id and its severity."""

    about: str  # such as: group coupons, broker broker-a
    what: str
    evidence: str
    advice: str  # empty: there is nothing to do


class Diagnosis(NamedTuple):
    """One finding. `rule` is stable: scripts may look for it, and the documentation has a section of that name."""

    rule: str
    severity: Severity
    about: str
    what: str
    evidence: str
    advice: str

    @property
    def page(self) -> str:
        return f"{PAGE}#{self.rule}"


class DoctorRule(NamedTuple, Generic[Facts]):
    """One row of a table of rules."""

    name: str
    severity: Severity
    find: Callable[[Facts], Iterable[Symptom]]


def one_symptom(
    about: Callable[[Facts], str], tell: Callable[[Facts], str | None], what: str, advice: str
) -> Callable[[Facts], Iterator[Symptom]]:
    """Return a rule with fixed sentences. `tell` returns the evidence; None when there is nothing to say."""

    def find(facts: Facts) -> Iterator[Symptom]:
        evidence = tell(facts)
        if evidence is not None:
            yield Symptom(about(facts), what, evidence, advice)

    return find


def apply_rules(rules: Sequence[DoctorRule[Facts]], facts: Facts) -> list[Diagnosis]:
    """Apply every rule. Findings come in the order of the table."""
    return [Diagnosis(rule.name, rule.severity, *symptom) for rule in rules for symptom in rule.find(facts)]


def list_names(names: Iterable[object]) -> str:
    """Name the first few of many."""
    texts = [str(name) for name in names]
    return ", ".join(texts[:NAMES_MAX]) + (f" and {len(texts) - NAMES_MAX} more" if len(texts) > NAMES_MAX else "")
