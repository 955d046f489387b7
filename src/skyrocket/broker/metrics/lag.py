"""How far consumer groups are behind, under RocketMQ 5's names.

    queue     0 … 40        … 57        … 64
                  │           │           └ end of the queue
                  │           └ pulled          ready: 64 - 57, from here on nobody has pulled
                  └ committed                   in flight: 57 - 40; lag: 64 - 40

Latencies are the age of the oldest message that is not consumed (lag), or not pulled (queueing). Apache's broker reports groups
with connected consumers only. Here every group with committed offsets counts: the lag of a group whose consumers are gone is the
one to know about. Queues in which a group has committed nothing do not count.

Store times are read from the log. What is not in memory is read in a thread, and READS_MAX bounds what one scrape reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from skyrocket.broker.admin.cold_answers import read_cold
from skyrocket.broker.admin.queue_offsets import bounds, stored_at
from skyrocket.broker.context import BrokerContext
from skyrocket.broker.metrics.traffic import as_label, is_retry, is_system_group
from skyrocket.broker.tables.consumer_offsets import NOT_FOUND
from skyrocket.metrics.family import Family, Fold, Measured, Row, gauge
from skyrocket.metrics.page import SliceClock
from skyrocket.store.cold_reads import RepeatedReads

READS_MAX: Final = 4_096  # store times that one scrape reads

_LABELS: Final = ("consumer_group", "topic", "is_retry", "is_system")
LAG: Final = gauge("rocketmq_consumer_lag_messages", "Messages that a group has not consumed.", *_LABELS)
IN_FLIGHT: Final = gauge("rocketmq_consumer_inflight_messages", "Messages that a group has pulled and not consumed.", *_LABELS)
READY: Final = gauge("rocketmq_consumer_ready_messages", "Messages that a group has not pulled.", *_LABELS)
LAG_MS: Final = gauge(
    "rocketmq_consumer_lag_latency_milliseconds", "Age of the oldest message not consumed.", *_LABELS, fold=Fold.MAX
)
QUEUEING_MS: Final = gauge(
    "rocketmq_consumer_queueing_latency_milliseconds", "Age of the oldest message not pulled.", *_LABELS, fold=Fold.MAX
)


@dataclass(slots=True)
class GroupLag:
    """The lag of one group in one topic."""

    labels: tuple[str, ...]
    in_flight: int = 0
    ready: int = 0
    lag_ms: int = 0
    queueing_ms: int = 0

    def add(self, committed: int, pulled: int, least: int, most: int) -> None:
        """Add a queue. Offsets outside of its bounds count as the bound."""
        committed = min(max(committed, least), most)
        pulled = min(max(pulled, committed), most)
        self.in_flight += pulled - committed
        self.ready += most - pulled


class LagMetrics:
    def __init__(self, context: BrokerContext) -> None:
        self._offsets = context.offsets
        self._topics = context.topics
        self._store = context.store
        self._wall_ms = context.wall_ms
        self._reads = RepeatedReads(context.store.reads)
        self._lags: list[GroupLag] = []

    async def prepare(self) -> None:
        """Measure all groups, a slice of them in each turn of the event loop."""
        slices, lags, reads = SliceClock(), list[GroupLag](), 0
        for topic, group in self._offsets.iterate_pairs():
            config = self._topics.get(topic)
            if config is None:
                continue
            is_system = self._topics.is_system(topic) or is_system_group(group)
            lag = GroupLag((group, topic, as_label(is_retry(topic)), as_label(is_system)))
            for queue_id in range(config.read_queue_nums):
                reads += await self._add_queue(lag, group, topic, queue_id, has_reads=reads < READS_MAX)
                if slices.is_over():
                    await slices.pause()
            lags.append(lag)
        self._lags = lags

    async def _add_queue(self, lag: GroupLag, group: str, topic: str, queue_id: int, *, has_reads: bool) -> int:
        """Add a queue to the lag. Return how many store times were read."""
        committed = self._offsets.query(group, topic, queue_id)
        least, most = bounds(self._store, topic, queue_id)
        if committed == NOT_FOUND or most == 0:
            return 0
        pulled = max(committed, self._offsets.pull_offset(group, topic, queue_id))
        lag.add(committed, pulled, least, most)
        if not has_reads or committed >= most:
            return 0
        age_ms = await self._age_ms(topic, queue_id, max(committed, least))
        lag.lag_ms = max(lag.lag_ms, age_ms)
        if pulled >= most:
            return 1
        lag.queueing_ms = max(lag.queueing_ms, age_ms if pulled <= committed else await self._age_ms(topic, queue_id, pulled))
        return 2

    async def _age_ms(self, topic: str, queue_id: int, offset: int) -> int:
        name = (topic, queue_id, offset)
        stored_ms = await read_cold(self._reads, name, lambda: stored_at(self._store, topic, queue_id, offset))
        return max(0, self._wall_ms() - stored_ms) if stored_ms > 0 else 0

    def collect(self) -> Iterable[Measured]:
        yield self._measured(LAG, "in_flight", "ready")
        yield self._measured(IN_FLIGHT, "in_flight")
        yield self._measured(READY, "ready")
        yield self._measured(LAG_MS, "lag_ms")
        yield self._measured(QUEUEING_MS, "queueing_ms")

    def _measured(self, family: Family, *parts: str) -> Measured:
        def rows() -> Iterator[Row]:
            for lag in self._lags:
                yield lag.labels, sum(getattr(lag, part) for part in parts)

        return Measured(family, rows())
