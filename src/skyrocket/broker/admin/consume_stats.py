"""Consumer progress: of one group (208) and of all groups (317), the store times of consumed messages (303), and the raw entries
of a consume queue (321).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from skyrocket.broker.admin.queue_offsets import bounds, stored_at, time_text
from skyrocket.broker.admin.slices import encode_list, encode_map, in_slices
from skyrocket.broker.context import BrokerContext
from skyrocket.broker.limits import QUEUE_ENTRIES_SHOWN_MAX
from skyrocket.net.connection import Connection
from skyrocket.net.router import RefusedError, Router
from skyrocket.protocol.bodies import (
    ConsumeQueueData,
    MessageQueue,
    OffsetWrapper,
    QueryConsumeQueueResponseBody,
    QueueTimeSpan,
)
from skyrocket.protocol.command import Command
from skyrocket.protocol.fastjson.codec import encode
from skyrocket.protocol.headers import (
    GetConsumeStatsInBrokerHeader,
    GetConsumeStatsRequestHeader,
    QueryConsumeQueueRequestHeader,
    QueryConsumeTimeSpanRequestHeader,
)
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from skyrocket.store.queues.consume_queue import ENTRY, ConsumeQueue


@dataclass(slots=True)
class _Diffs:
    """How far all groups are behind."""

    total: int = 0
    in_flight: int = 0


def _stats_body(tps: float, offset_table: bytes) -> bytes:
    """Return an encoded ConsumeStats."""
    return b'{"consumeTps":' + encode(tps) + b',"offsetTable":' + offset_table + b"}"


class ConsumeStatsHandlers:
    def __init__(self, context: BrokerContext) -> None:
        self._offsets = context.offsets
        self._topics = context.topics
        self._groups = context.groups
        self._clients = context.clients
        self._store = context.store
        self._settings = context.settings
        self._wall_ms = context.wall_ms
        self._counters = context.counters

    def register(self, router: Router) -> None:
        router.add(RequestCode.GET_CONSUME_STATS, self.consume_stats)
        router.add(RequestCode.GET_BROKER_CONSUME_STATS, self.all_consume_stats)
        router.add(RequestCode.QUERY_CONSUME_TIME_SPAN, self.time_span)
        router.add(RequestCode.QUERY_CONSUME_QUEUE, self.queue_entries)

    # --- offsets

    async def consume_stats(self, command: Command, _connection: Connection) -> Command:
        header = command.header(GetConsumeStatsRequestHeader)
        topics = [topic for topic in self._requested_topics(header) if topic in self._topics]
        tps = sum((self._counters.group_get(header.consumer_group, topic) for topic in topics), 0.0)
        table = await encode_map(self._progress_rows(header.consumer_group, topics))
        return command.response(ResponseCode.SUCCESS, body=_stats_body(tps, table))

    def _progress_rows(self, group: str, topics: list[str]) -> Iterator[tuple[MessageQueue, OffsetWrapper]]:
        for topic in topics:
            config = self._topics.get(topic)
            for queue_id in range(0 if config is None else config.read_queue_nums):
                wrapper = self._progress(group, topic, queue_id)
                pulled = self._offsets.pull_offset(group, topic, queue_id)
                wrapper.pull_offset = max(wrapper.consumer_offset, pulled)
                yield self._queue(topic, queue_id), wrapper

    def _requested_topics(self, header: GetConsumeStatsRequestHeader) -> list[str]:
        """Return the topics to report: the request's list, or the group's topics that it still subscribes to."""
        listed = [topic for topic in (header.topic_list or "").split(";") if topic.strip()]
        if listed:
            return list(dict.fromkeys(listed))
        group = header.consumer_group
        topics = [header.topic] if header.topic and header.topic.strip() else self._offsets.topics_of(group)
        return [topic for topic in topics if not self._clients.lacks_subscription(group, topic)]

    async def all_consume_stats(self, command: Command, _connection: Connection) -> Command:
        """Return the progress of all groups. Like Apache's response, it contains no pull offsets."""
        header = command.header(GetConsumeStatsInBrokerHeader)
        topics_of: dict[str, list[str]] = {}
        async for pairs in in_slices(self._offsets.iterate_pairs()):
            for topic, group in pairs:
                topics_of.setdefault(group, []).append(topic)
        diffs, groups = _Diffs(), list[bytes]()
        async for some in in_slices(list(self._groups)):
            for group in some:
                found = [
                    await self._topic_stats(group, topic, diffs)
                    for topic in topics_of.get(group, ())
                    if self._is_counted(group, topic, header)
                ]
                groups.append(b"{" + encode(group) + b":[" + b",".join(found) + b"]}")
        totals = b'"totalDiff":%d,"totalInflightDiff":%d' % (diffs.total, diffs.in_flight)
        start = b'{"brokerAddr":' + encode(self._settings().address) + b',"consumeStatsList":['
        return command.response(ResponseCode.SUCCESS, body=start + b",".join(groups) + b"]," + totals + b"}")

    def _is_counted(self, group: str, topic: str, header: GetConsumeStatsInBrokerHeader) -> bool:
        config = self._topics.get(topic)
        return config is not None and (config.order or not header.is_order) and not self._clients.lacks_subscription(group, topic)

    async def _topic_stats(self, group: str, topic: str, diffs: _Diffs) -> bytes:
        config = self._topics.get(topic)

        def rows() -> Iterator[tuple[MessageQueue, OffsetWrapper]]:
            for queue_id in range(0 if config is None else config.write_queue_nums):
                wrapper = self._progress(group, topic, queue_id)
                diffs.total += wrapper.broker_offset - wrapper.consumer_offset
                diffs.in_flight += wrapper.pull_offset - wrapper.consumer_offset
                yield self._queue(topic, queue_id), wrapper

        return _stats_body(self._counters.group_get(group, topic), await encode_map(rows()))

    def _progress(self, group: str, topic: str, queue_id: int) -> OffsetWrapper:
        consumed = max(0, self._offsets.query(group, topic, queue_id))
        last = stored_at(self._store, topic, queue_id, consumed - 1) if consumed else 0
        return OffsetWrapper(
            broker_offset=bounds(self._store, topic, queue_id).most, consumer_offset=consumed, last_timestamp=max(0, last)
        )

    def _queue(self, topic: str, queue_id: int) -> MessageQueue:
        return MessageQueue(topic, self._settings().broker_name, queue_id)

    # --- times

    async def time_span(self, command: Command, _connection: Connection) -> Command:
        header = command.header(QueryConsumeTimeSpanRequestHeader)
        config = self._topics.require(header.topic)
        now_ms = self._wall_ms()
        spans = (self._queue_time_span(header, queue_id, now_ms) for queue_id in range(config.write_queue_nums))
        body = b'{"consumeTimeSpanSet":' + await encode_list(spans) + b"}"
        return command.response(ResponseCode.SUCCESS, body=body)

    def _queue_time_span(self, header: QueryConsumeTimeSpanRequestHeader, queue_id: int, now_ms: int) -> QueueTimeSpan:
        topic = header.topic
        least, most = bounds(self._store, topic, queue_id)
        consumed = max(0, self._offsets.query(header.group, topic, queue_id))
        first = stored_at(self._store, topic, queue_id, least)
        last = stored_at(self._store, topic, queue_id, most - 1)
        at = stored_at(self._store, topic, queue_id, consumed - 1) if consumed else first
        behind = now_ms - stored_at(self._store, topic, queue_id, max(consumed, least)) if consumed < most else 0
        return QueueTimeSpan(
            message_queue=self._queue(topic, queue_id),
            min_time_stamp=first,
            min_time_stamp_str=time_text(first),
            max_time_stamp=last,
            max_time_stamp_str=time_text(last),
            consume_time_stamp=at,
            consume_time_stamp_str=time_text(at),
            delay_time=behind,
        )

    # --- entries

    def queue_entries(self, command: Command, _connection: Connection) -> Command:
        header = command.header(QueryConsumeQueueRequestHeader)
        topic = header.topic or ""
        queue = self._store.queues.get(topic, header.queue_id)
        if queue is None:
            raise RefusedError(ResponseCode.SYSTEM_ERROR, f"There is no queue {header.queue_id} of '{topic[:160]}'.")
        if not queue.min_offset <= header.index < queue.max_offset:
            remark = f"Queue {header.queue_id} of '{topic[:160]}' has no offset {header.index}."
            return command.response(ResponseCode.SUCCESS, remark=remark)
        body = QueryConsumeQueueResponseBody(
            queue_data=_entries(queue, header.index, min(header.count, QUEUE_ENTRIES_SHOWN_MAX)),
            max_queue_index=queue.max_offset,
            min_queue_index=queue.min_offset,
        )
        if header.consumer_group is not None:
            body.subscription_data = self._clients.subscription(header.consumer_group, topic)
            body.filter_data = "null"  # only SQL92 subscriptions have filter data
            if body.subscription_data is None:
                body.filter_data = f"Group '{header.consumer_group[:160]}' has no consumer of '{topic}' here."
        return command.response(ResponseCode.SUCCESS, body=encode(body))


def _entries(queue: ConsumeQueue, offset: int, count: int) -> list[ConsumeQueueData]:
    found: list[ConsumeQueueData] = []
    while len(found) < count and (packed := queue.read(offset + len(found), count - len(found))):
        found += [
            ConsumeQueueData(physic_offset=physical_offset, physic_size=size, tags_code=code)
            for physical_offset, size, code in ENTRY.iter_unpack(packed)
        ]
    return found
