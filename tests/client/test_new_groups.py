"""A new group that starts at the end of its queues gets every message that is sent once it has begun to look for that end."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from skyrocket.client import Consumer, Message, Producer, PullConsumer
from skyrocket.client.consumer.offsets.queue_offsets import QueueOffsets
from skyrocket.client.queues import Queue
from skyrocket.protocol.bodies import BrokerData, QueueData, TopicRouteData
from skyrocket.protocol.command import Command
from skyrocket.protocol.fastjson.codec import encode
from skyrocket.protocol.headers import (
    GetMaxOffsetResponseHeader,
    SearchOffsetRequestHeader,
    SearchOffsetResponseHeader,
)
from skyrocket.protocol.message.record import Record, encode_record
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from tests.client.consumer_support import QUICK, make_topic, numbered, numbers, take
from tests.client.scripted_brokers import ScriptedBroker, scripted_brokers
from tests.client.servers import Servers
from tests.support.waiting import WAIT_S_MAX


@pytest.fixture
def send_after_lookups(monkeypatch: pytest.MonkeyPatch, servers: Servers) -> str:
    """Send a numbered message to queue 0 after each offset request of a consumer. Returns the topic."""
    topic, sent = servers.topic("new-group"), iter(range(100))

    def hook(name: str) -> None:
        original = getattr(QueueOffsets, name)

        async def ask_and_send(self: QueueOffsets, queue: Queue, *rest: Any) -> Any:
            try:
                return await original(self, queue, *rest)
            finally:
                if queue.topic == topic:
                    async with Producer(servers.nameserver, group="between") as producer:
                        await producer.send(Message(topic, b"%d" % next(sent)), queue=queue)

        monkeypatch.setattr(QueueOffsets, name, ask_and_send)

    for name in ("committed_offset", "max_offset", "offset_at"):
        hook(name)
    return topic


async def test_messages_between_the_offset_requests_of_a_new_group_are_delivered(servers: Servers, send_after_lookups: str):
    topic = send_after_lookups
    await make_topic(servers, topic, 1)
    async with Consumer(servers.nameserver, group=topic, topics=topic, consumer_limits=QUICK) as consumer:
        assert numbers(await take(consumer, 2)) == [0, 1]


async def test_pull_consumer_of_a_new_group_gets_messages_between_its_offset_requests(servers: Servers, send_after_lookups: str):
    topic = send_after_lookups
    await make_topic(servers, topic, 1)
    async with PullConsumer(servers.nameserver, group=topic, consumer_limits=QUICK) as consumer:
        await consumer.subscribe(topic)
        messages = await consumer.poll(timeout_ms=int(WAIT_S_MAX * 1000))
        assert numbers(messages)[0] == 0


async def test_messages_of_a_queue_that_is_added_later_are_delivered_from_the_first_on(servers: Servers, tmp_path: Path):
    """A broadcasting consumer asks no broker for offsets of the group, so no broker corrects the end of a young queue to 0."""
    topic = servers.topic("added-queue")
    await make_topic(servers, topic, 1)
    async with Consumer(
        servers.nameserver, group=topic, topics=topic, broadcasting=True, offsets_folder=tmp_path, consumer_limits=QUICK
    ) as consumer:
        await make_topic(servers, topic, 2)
        session = consumer._require_engine().session
        (queue,) = consumer.queues
        async with Producer(servers.nameserver, group="other", instance="other") as producer:
            for body in numbered(3):
                await producer.send(Message(topic, body), queue=queue._replace(queue_id=1))
        await session.refresh_routes()
        assert numbers(await take(consumer, 3)) == [0, 1, 2]


class OldQueues(ScriptedBroker):
    """A broker whose queues have lost their first messages, so that it never answers 0 for a new group."""

    def __init__(self) -> None:
        super().__init__()
        self.queues = 1
        self.ends = [100, 205]  # where each queue ends
        self.searched: list[tuple[int, int]] = []  # queue, timestamp
        self.pulled: dict[int, int] = {}  # queue -> the first offset pulled
        self.forget(RequestCode.QUERY_CONSUMER_OFFSET)
        self.respond(RequestCode.QUERY_CONSUMER_OFFSET, self._query)
        self.respond(RequestCode.GET_MAX_OFFSET, self._end)
        self.respond(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, self._search)

    def _route(self, command: Command) -> Command:
        if command.fields["topic"].startswith("%"):
            return command.response(ResponseCode.TOPIC_NOT_EXIST)
        route = TopicRouteData(
            queue_datas=[QueueData(broker_name="scripted", read_queue_nums=self.queues, write_queue_nums=self.queues, perm=6)],
            broker_datas=[BrokerData(cluster="c", broker_name="scripted", broker_addrs=self.addresses)],
        )
        return command.response(0, body=encode(route))

    def _query(self, command: Command) -> Command:
        self.ends[int(command.fields["queueId"])] += 1  # another message comes between the requests of the consumer
        return command.response(ResponseCode.QUERY_NOT_FOUND, remark="no offset")

    def _end(self, command: Command) -> Command:
        return command.response(0, GetMaxOffsetResponseHeader(offset=self.ends[int(command.fields["queueId"])]))

    def _search(self, command: Command) -> Command:
        header = command.header(SearchOffsetRequestHeader)
        self.searched.append((header.queue_id, header.timestamp))
        return command.response(0, SearchOffsetResponseHeader(offset=201))

    def _pull(self, command: Command) -> Command:
        queue_id, offset = int(command.fields["queueId"]), int(command.fields["queueOffset"])
        self.pulled.setdefault(queue_id, offset)
        records = [
            encode_record(Record(topic="t", body=b"%d" % number, queue_offset=number, queue_id=queue_id))
            for number in range(offset, self.ends[queue_id])
        ]
        fields = {"suggestWhichBrokerId": "0", "nextBeginOffset": str(offset + len(records)), "minOffset": "50", "maxOffset": "0"}
        response = command.response(ResponseCode.SUCCESS if records else ResponseCode.PULL_NOT_FOUND, body=b"".join(records))
        response.fields = fields
        return response


async def test_queue_that_comes_later_starts_where_the_group_joined():
    """A broker that was away when the group began comes back with a backlog: the group gets what was sent since it joined."""
    began_ms = time.time_ns() // 1_000_000
    async with scripted_brokers(1, OldQueues) as (broker,):
        assert isinstance(broker, OldQueues)
        async with Consumer(broker.address, group="g", topics="t", consumer_limits=QUICK) as consumer:
            assert numbers(await take(consumer, 1)) == [100]
            assert not broker.searched  # the first queues start at their end, exactly
            broker.queues = 2
            await consumer._require_engine().session.refresh_routes()
            assert numbers(await take(consumer, 5)) == [201, 202, 203, 204, 205]
        assert broker.pulled == {0: 100, 1: 201}
        ((queue_id, since_ms),) = broker.searched
        assert queue_id == 1
        assert began_ms - 60_000 < since_ms <= time.time_ns() // 1_000_000
