"""How much of what is there one batch of a stream may take: `maxOffsetsPerTrigger`, `minOffsetsPerTrigger` and `maxTriggerDelay`.

    admission = Admission(most=10_000, least=500, delay_ms_max=60_000)
    admission.admitted({queue: how many wait in it}, now_ms)         # {queue: how many of them to take}; nothing: wait for more

Offsets are counted, not messages: a filter at the broker makes fewer of them. As in Spark's Kafka source, a limit is shared among
queues in proportion to what waits in them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from skyrocket.client.queues import Queue


def shared(backlog: Mapping[Queue, int], most: int) -> dict[Queue, int]:
    """`most` offsets among these queues, in proportion, to the last one.

    Each queue that has anything gets at least one, so that a small one is not starved by large ones for ever: with more queues
    than offsets it is one each, and the limit is exceeded by so many.
    """
    waiting = everything(backlog)
    left, left_waiting = most, sum(waiting.values())
    if left_waiting <= most:
        return waiting
    shares: dict[Queue, int] = {}
    for queue in sorted(
        waiting, key=lambda queue: (waiting[queue], queue)
    ):  # the small first; what rounding leaves is the large's
        shares[queue] = max(1, left * waiting[queue] // left_waiting)
        left, left_waiting = max(0, left - shares[queue]), left_waiting - waiting[queue]
    return shares


@dataclass(slots=True)
class Admission:
    most: int | None = None  # maxOffsetsPerTrigger
    least: int | None = None  # minOffsetsPerTrigger
    delay_ms_max: int = 15 * 60_000  # maxTriggerDelay: no message waits longer for others to come
    _has_begun: bool = False  # the first batch of a query, also of one that was started again, does not wait
    _waiting_since_ms: int | None = None

    def admitted(self, backlog: Mapping[Queue, int], now_ms: int) -> dict[Queue, int]:
        """What the next batch takes, within both limits."""
        if self._is_worth_waiting(sum(everything(backlog).values()), now_ms):
            return {}
        self._has_begun = True
        self._waiting_since_ms = None
        return everything(backlog) if self.most is None else shared(backlog, self.most)

    def _is_worth_waiting(self, total: int, now_ms: int) -> bool:
        if self.least is None or not self._has_begun or not 0 < total < self.least:
            return False
        if self._waiting_since_ms is None:
            self._waiting_since_ms = now_ms
        return now_ms - self._waiting_since_ms < self.delay_ms_max


def everything(backlog: Mapping[Queue, int]) -> dict[Queue, int]:
    """For a trigger that asks for all there is, whatever the options say."""
    return {queue: count for queue, count in backlog.items() if count > 0}
