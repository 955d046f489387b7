"""Limits how much of the backlog one batch of a stream takes: `maxOffsetsPerTrigger`, `minOffsetsPerTrigger`, `maxTriggerDelay`.

    admission = Admission(most=10_000, least=500, delay_ms_max=60_000)
    admission.admit({queue: its backlog}, now_ms)      # {queue: how many offsets to take}; empty: wait for more

The limits count offsets, not messages: with a filter at the broker, a batch has fewer messages. As in Spark's Kafka source, a
limit is divided among queues in proportion to their backlogs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from skyrocket.client.queues import Queue


def divide_limit(backlog: Mapping[Queue, int], most: int) -> dict[Queue, int]:
    """Divide `most` offsets among queues in proportion to their backlogs, without a remainder.

    Each queue with a backlog gets at least one offset, so that large queues never starve a small one. With more queues than
    offsets, each gets one, and the total exceeds the limit by that much.
    """
    waiting = whole_backlog(backlog)
    left, left_waiting = most, sum(waiting.values())
    if left_waiting <= most:
        return waiting
    shares: dict[Queue, int] = {}
    for queue in sorted(waiting, key=lambda queue: (waiting[queue], queue)):  # smallest first: rounding favours the large
        shares[queue] = max(1, left * waiting[queue] // left_waiting)
        left, left_waiting = max(0, left - shares[queue]), left_waiting - waiting[queue]
    return shares


@dataclass(slots=True)
class Admission:
    most: int | None = None  # maxOffsetsPerTrigger
    least: int | None = None  # minOffsetsPerTrigger
    delay_ms_max: int = 15 * 60_000  # maxTriggerDelay: no message waits longer than this for others
    _has_begun: bool = False  # the first batch of a query does not wait, nor does the first after a restart
    _waiting_since_ms: int | None = None

    def admit(self, backlog: Mapping[Queue, int], now_ms: int) -> dict[Queue, int]:
        """Return what the next batch takes of each queue, within both limits."""
        if self._must_wait(sum(whole_backlog(backlog).values()), now_ms):
            return {}
        self._has_begun = True
        self._waiting_since_ms = None
        return whole_backlog(backlog) if self.most is None else divide_limit(backlog, self.most)

    def _must_wait(self, total: int, now_ms: int) -> bool:
        if self.least is None or not self._has_begun or not 0 < total < self.least:
            return False
        if self._waiting_since_ms is None:
            self._waiting_since_ms = now_ms
        return now_ms - self._waiting_since_ms < self.delay_ms_max


def whole_backlog(backlog: Mapping[Queue, int]) -> dict[Queue, int]:
    """Return everything that waits, for a trigger without limits. Queues without a backlog are left out."""
    return {queue: count for queue, count in backlog.items() if count > 0}
