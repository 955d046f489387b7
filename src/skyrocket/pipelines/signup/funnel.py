"""The funnel: for each minute in which people registered, how many of them each step has reached. Pure.

    minute     registered  late  sms  push  coupons  red-packets
    12:00:00          298     4  298   121      298          298
    12:00:10          301    19  301   117      240            0        the coupon service is behind

A late sign-up counts in the minute in which it happened, and each user once in each step, however often a message came.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from skyrocket.pipelines.signup.services import SERVICES

REGISTERED: Final = "registered"
UNREADABLE: Final = "unreadable"  # poison messages, in the minute in which they were sent
STEPS: Final = (REGISTERED, *(service.name for service in SERVICES))


class StepCount(NamedTuple):
    """What Spark counted: users of one minute who have reached one step."""

    minute_ms: int
    step: str
    users: int
    late: int


@dataclass(slots=True)
class FunnelMinute:
    """One row of the funnel."""

    minute_ms: int
    users: Counter[str] = field(default_factory=Counter)  # by step
    late: int = 0  # registered users whose message came in a later minute
    unreadable: int = 0


def make_funnel(counts: Iterable[StepCount]) -> list[FunnelMinute]:
    """Make the rows of the funnel, by time."""
    minutes: dict[int, FunnelMinute] = {}
    for one in counts:
        minute = minutes.setdefault(one.minute_ms, FunnelMinute(one.minute_ms))
        if one.step == UNREADABLE:
            minute.unreadable += one.users
            continue
        minute.users[one.step] += one.users
        if one.step == REGISTERED:
            minute.late += one.late
    return [minutes[minute_ms] for minute_ms in sorted(minutes)]


def funnel_totals(minutes: Sequence[FunnelMinute]) -> dict[str, int]:
    """Return how many users reached each step, all minutes together."""
    return {step: sum(minute.users[step] for minute in minutes) for step in STEPS}


def compare_totals(totals: Mapping[str, int], expected: Mapping[str, int]) -> list[str]:
    """Return a sentence for each step whose total is not the expected one."""
    return [
        f"The funnel has {totals.get(step, 0):,} users at step '{step}' instead of {count:,}."
        for step, count in expected.items()
        if totals.get(step, 0) != count
    ]
