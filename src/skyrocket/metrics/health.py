"""The health of a server: whether its process lives, and whether it serves.

    starting ──▶ serving ──▶ stopping        alive in all three; ready only while it serves, and has no reason against it

A reason is a function that returns a sentence, or None: `The disk is 92 % full.` It is asked in the server's event loop.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

Reason = Callable[[], str | None]


class Phase(StrEnum):
    STARTING = "starting"
    SERVING = "serving"
    STOPPING = "stopping"


class Health:
    def __init__(self, owner: str) -> None:
        """`owner` names the server in sentences, such as "the broker"."""
        self._owner = owner
        self.phase = Phase.STARTING
        self.reasons: list[Reason] = []

    def why_not_ready(self) -> list[str]:
        """Return a sentence for each reason why the server does not serve; none when it does."""
        if self.phase is not Phase.SERVING:
            return [f"{self._owner.capitalize()} is {self.phase}."]
        return [sentence for reason in self.reasons if (sentence := reason()) is not None]
