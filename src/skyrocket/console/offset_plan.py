"""What a reset of offsets would do, queue by queue, before it is done. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from skyrocket.client.queues import Queue


class PlannedOffset(NamedTuple):
    queue: Queue
    now: int | None  # None: the group has no offset there yet
    then: int

    @property
    def moved(self) -> int:
        """How many messages are skipped; negative: so many are consumed again."""
        return 0 if self.now is None else self.then - self.now


class OffsetPlan(NamedTuple):
    rows: list[PlannedOffset]

    @property
    def skipped(self) -> int:
        return sum(max(0, row.moved) for row in self.rows)

    @property
    def repeated(self) -> int:
        return sum(max(0, -row.moved) for row in self.rows)


def plan_offsets(now: Mapping[Queue, int | None], then: Mapping[Queue, int]) -> OffsetPlan:
    return OffsetPlan([PlannedOffset(queue, now.get(queue), then[queue]) for queue in sorted(then)])
