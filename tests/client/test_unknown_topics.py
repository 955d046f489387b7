"""Consumers whose topic does not exist yet: they look for it often, and begin with its first message."""

from __future__ import annotations

import asyncio
import time

import pytest

from skyrocket.client import Consumer, ConsumerLimits, PullConsumer
from skyrocket.protocol.command import Command
from skyrocket.protocol.message.record import Record, encode_record
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from skyrocket.protocol.system_names import DEFAULT_TOPIC
from tests.client.consumer_support import numbers, send, take
from tests.client.scripted_brokers import ScriptedBroker, scripted_brokers
from tests.client.servers import Servers, until
from tests.support.waiting import WAIT_S_MAX

LOOKS = 10


class NoTopics(ScriptedBroker):
    """A nameserver that knows the routes of the topics in `known` only."""

    def __init__(self) -> None:
        super().__init__()
        self.known: set[str] = set()
        self.looked_s: list[float] = []  # when topic t was looked for

    def _route(self, command: Command) -> Command:
        topic = command.fields["topic"]
        if topic == "t":
            self.looked_s.append(time.monotonic())
        if topic not in self.known:
            return command.response(ResponseCode.TOPIC_NOT_EXIST, remark="no route")
        return super()._route(command)


@pytest.mark.parametrize("is_known", [True, False], ids=["known broker", "no broker"])
async def test_topic_is_looked_for_without_growing_pauses(is_known: bool):
    """With the default limits. Pauses that double from 1 s, as they once did, would need minutes for as many looks."""
    async with scripted_brokers(1, NoTopics) as (broker,):
        assert isinstance(broker, NoTopics)
        broker.known = {DEFAULT_TOPIC} if is_known else set()
        limits = ConsumerLimits() if is_known else ConsumerLimits(unknown_broker_ms=ConsumerLimits().unknown_broker_ms // 10)
        async with Consumer(broker.address, group="g", topics="t", start="first", consumer_limits=limits) as consumer:
            await until(lambda: len(broker.looked_s) >= LOOKS, "the topic is looked for")
            pauses = [later - sooner for sooner, later in zip(broker.looked_s, broker.looked_s[1:], strict=False)]
            assert sum(pauses[-4:]) < 4 * sum(pauses[:4]), "the pauses do not grow"
            broker.records = [encode_record(Record(topic="t", body=b"0", queue_offset=0))]
            broker.known.add("t")
            assert numbers(await take(consumer, 1)) == [0]


def test_default_pauses_are_short_enough():
    """A consumer begins within a second with a topic at a known broker, and within 5 s otherwise."""
    limits = ConsumerLimits()
    assert limits.unknown_topic_ms <= 500
    assert limits.unknown_broker_ms <= 4_000


async def test_brokers_that_create_topics_know_the_group_before_the_first_message():
    async with scripted_brokers(1, NoTopics) as (broker,):
        assert isinstance(broker, NoTopics)
        broker.known = {DEFAULT_TOPIC}
        async with Consumer(broker.address, group="g", topics="t", start="first"):
            assert RequestCode.HEART_BEAT in broker.requests


async def test_consumer_gets_the_message_that_creates_its_topic(servers: Servers):
    topic = servers.topic("first-message")
    async with Consumer(servers.nameserver, group=topic, topics=topic) as consumer:
        await asyncio.sleep(3)  # pauses that grow would be long by now
        await send(servers, topic, [b"0"])
        assert numbers(await take(consumer, 1)) == [0]


async def test_pull_consumer_gets_the_message_that_creates_its_topic(servers: Servers):
    topic = servers.topic("first-pull")
    async with PullConsumer(servers.nameserver, group=topic) as consumer:
        await consumer.subscribe(topic)
        await send(servers, topic, [b"0"])
        assert numbers(await consumer.poll(timeout_ms=int(WAIT_S_MAX * 1000))) == [0]
