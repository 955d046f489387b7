"""When each thing of the demo happens. Pure.

in-line          │ over the queue
─────────────────┼───────────────────────────────────────────────────────────────▶ drained, audited
                 │            coupons killed      coupons again   red packets join
0              0.25           0.25 + 0.2          0.25 + 0.4      0.25 + 0.5      1        of --seconds
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from skyrocket.pipelines.signup.services import LATE_SERVICE, STOPPED_SERVICE

IN_LINE_SHARE: Final = 0.25


class DemoAction(StrEnum):
    """Something that happens to a service while sign-ups go on."""

    KILL = "killed with kill -9"
    RESTART = "started again"
    JOIN = "joins, from the first message"


class PlannedAction(NamedTuple):
    """An action with its time: seconds since the queued load began."""

    at_s: float
    action: DemoAction
    service: str

    @property
    def sentence(self) -> str:
        return f"{self.service}: {self.action.value}"


class DemoPlan(NamedTuple):
    """How long both loads take, and what happens during the second."""

    in_line_s: float
    queued_s: float
    actions: Sequence[PlannedAction]

    def due(self, elapsed_s: float, done: int) -> Sequence[PlannedAction]:
        """Return the actions whose time has come, of those after the first `done`."""
        return [one for one in self.actions[done:] if one.at_s <= elapsed_s]


# The share of --seconds after which an action comes, counted from the begin of the queued load.
_ACTIONS: Final = (
    (0.20, DemoAction.KILL, STOPPED_SERVICE),
    (0.40, DemoAction.RESTART, STOPPED_SERVICE),
    (0.50, DemoAction.JOIN, LATE_SERVICE),
)


def make_plan(seconds: float) -> DemoPlan:
    """Divide so many seconds of load."""
    in_line_s = seconds * IN_LINE_SHARE
    actions = [PlannedAction(share * seconds, action, service) for share, action, service in _ACTIONS]
    return DemoPlan(in_line_s, seconds - in_line_s, actions)
