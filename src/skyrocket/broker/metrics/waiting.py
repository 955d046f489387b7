"""Messages that wait inside the broker: delayed, timed and half messages. And damage that scrubbing has found.

Each figure is a row of the broker's runtime information, which its part of the broker writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from skyrocket.broker.context import BrokerContext
from skyrocket.metrics.family import Family, Measured, Row, gauge, single
from skyrocket.protocol.system_names import HALF_TOPIC, TRANSACTION_GROUP

_STORED: Final = ("storage_type", "storage_medium")
_VALUES: Final = ("local", "disk")

ENQUEUE_LAG: Final = gauge("rocketmq_timer_enqueue_lag", "Timed messages that are not in the timer wheel yet.", *_STORED)
DEQUEUE_LAG: Final = gauge("rocketmq_timer_dequeue_lag", "Timed messages in the timer wheel.", *_STORED)
DEQUEUE_MS: Final = gauge("rocketmq_timer_dequeue_latency_milliseconds", "How late timers are delivered.", *_STORED)
TIMING: Final = gauge("rocketmq_timing_messages", "Timed messages that wait, by the topic they go to.", *_STORED, "topic")

DELAYED: Final = gauge("skyrocket_delayed_messages", "Delayed messages that wait, by their level.", "level")
HALF: Final = gauge(
    "skyrocket_half_messages_unchecked",
    "Half messages behind the point up to which all have ended; some have ended, too.",
)
DAMAGED: Final = gauge("skyrocket_damaged_ranges", "Damaged ranges of the log that scrubbing has found.")

# Rows of the runtime information with one number: the metric of each, and what to multiply it with.
_ROWS: Final[Mapping[str, tuple[Family, int]]] = {
    "timerOffsetBehind": (ENQUEUE_LAG, 1),
    "timerCongestNum": (DEQUEUE_LAG, 1),
    "timerReadBehind": (DEQUEUE_MS, 1_000),
}
_LEVEL: Final = "scheduleMessageOffset_"
_SCRUBBED: Final = "scrubDamagedRanges"


class WaitingMetrics:
    def __init__(self, context: BrokerContext) -> None:
        self._runtime_figures = context.runtime_figures
        self._timer_metrics = context.timer_metrics
        self._store = context.store
        self._offsets = context.offsets

    def collect(self) -> Iterable[Measured]:
        rows: dict[str, str] = {}
        for figures in self._runtime_figures:
            rows |= figures()
        for name, (family, factor) in _ROWS.items():
            yield Measured(family, [(_VALUES, factor * int(rows[name]))] if name in rows else [])
        yield Measured(TIMING, [((*_VALUES, topic), count) for topic, count in self._timer_metrics.counts.items()])
        yield Measured(DELAYED, _levels(rows))
        yield single(HALF, self._half_messages())
        yield single(DAMAGED, int(rows.get(_SCRUBBED, 0)))

    def _half_messages(self) -> int:
        queue = self._store.queues.get(HALF_TOPIC, 0)
        checked = max(0, self._offsets.query(TRANSACTION_GROUP, HALF_TOPIC, 0))
        return 0 if queue is None else max(0, queue.max_offset - max(checked, queue.min_offset))


def _levels(rows: Mapping[str, str]) -> list[Row]:
    """Return the waiting messages of each delay level. A row has the delivered and the last offset: `17,40`."""
    found: list[Row] = []
    for name, text in rows.items():
        if name.startswith(_LEVEL):
            delivered, end = map(int, text.split(","))
            found.append(((name.removeprefix(_LEVEL),), max(0, end - delivered)))
    return found
