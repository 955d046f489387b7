"""What a verification found: numbers, problems, and remarks that are none."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

PROBLEMS_MAX: Final = 10_000  # kept of one target; more are counted


@dataclass
class VerifyResult:
    """The result for one target: a store, a replica or an archive."""

    kind: str
    target: str
    counts: dict[str, int] = field(default_factory=dict)  # what was verified, such as messages
    problems: list[str] = field(default_factory=list)
    more: int = 0  # problems that were not kept
    remarks: list[str] = field(default_factory=list)  # what an operator should know, and is no damage

    @property
    def is_sound(self) -> bool:
        return not self.problems and not self.more

    def add_problems(self, problems: list[str], more: int = 0) -> None:
        """Add problems, and count those beyond PROBLEMS_MAX."""
        room = PROBLEMS_MAX - len(self.problems)
        self.problems += problems[:room]
        self.more += more + max(0, len(problems) - room)
