"""Consumers when brokers die or refuse, when handlers hang, and when an administrator asks: no message is lost, nothing hangs."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from skyrocket.client import BrokerError, ConfigurationError, Consumer, Message, Producer, PullConsumer, Received, sql
from skyrocket.client.consumer.strategies import Averagely
from skyrocket.client.queues import Queue
from skyrocket.client.received import Received as Given
from skyrocket.net.router import Router
from skyrocket.net.server import Server
from skyrocket.protocol.bodies import (
    BrokerData,
    CMResult,
    ConsumeMessageDirectlyResult,
    ConsumerRunningInfo,
    GetConsumerStatusBody,
    QueueData,
    TopicRouteData,
)
from skyrocket.protocol.fastjson.codec import decode, encode
from skyrocket.protocol.headers import (
    ConsumeMessageDirectlyResultRequestHeader,
    GetConsumerRunningInfoRequestHeader,
    GetConsumerStatusRequestHeader,
)
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from tests.client.consumer_support import QUICK, broker_address, make_topic, numbered, numbers, send, take
from tests.client.servers import Servers, reader, until
from tests.client.test_failures import mortal
from tests.support.processes.cpu_pressure import read_cpu_wait_s
from tests.support.waiting import WAIT_S_MAX

__all__ = ["mortal"]


async def test_broker_restart_under_load_loses_no_message_and_keeps_order(mortal: Servers, caplog: pytest.LogCaptureFixture):
    topic = mortal.topic("dies")
    await make_topic(mortal, topic, 2)
    got: dict[int, list[int]] = defaultdict(list)
    acknowledged: list[int] = []
    consumer = Consumer(mortal.nameserver, group=topic, start="first", orderly=True, consumer_limits=QUICK)

    @consumer.on(topic)
    async def handle(message: Received) -> None:
        got[message.queue_id].append(int(message.body))

    async def produce(until_number: int) -> None:
        async with Producer(mortal.nameserver, timeout_ms=60_000) as producer:
            for number in range(len(acknowledged), until_number):
                await producer.send(Message(topic, b"%d" % number, sharding_key=str(number % 2)))
                acknowledged.append(number)

    async with consumer:
        await produce(200)
        await until(lambda: sum(map(len, got.values())) >= 150, "some messages")
        mortal.kill_broker()
        await asyncio.sleep(0.5)
        await asyncio.to_thread(mortal.start_broker)
        await produce(400)
        await until(lambda: {number for numbers_ in got.values() for number in numbers_} >= set(acknowledged), "all messages")
    for numbers_ in got.values():
        first_seen = list(dict.fromkeys(numbers_))
        assert first_seen == sorted(first_seen), "order per queue"
    assert "Pulling queue" in caplog.text


async def test_message_of_an_overdue_handler_is_sent_back(servers: Servers, caplog: pytest.LogCaptureFixture):
    topic = servers.topic("too-long")
    await make_topic(servers, topic, 1)
    await send(servers, topic, numbered(3))
    limits = replace(QUICK, handler_ms=300, tick_ms=100)
    consumer = Consumer(servers.nameserver, group=topic, start="first", close_timeout_ms=100, consumer_limits=limits)
    tries: Counter[bytes] = Counter()

    @consumer.on(topic)
    async def handle(message: Received) -> None:
        tries[message.body] += 1
        if message.body == b"1" and not message.reconsume_times:
            await asyncio.sleep(60)

    async with consumer:
        await until(lambda: tries[b"1"] == 2, "a second try")
        (queue,) = consumer.queues
        process_queue = consumer._require_engine().assigned.by_queue[queue].process_queue
        await until(lambda: process_queue.commit_offset == 3, "all messages are finished")
    assert "has not returned in 300 ms" in caplog.text


async def test_close_does_not_wait_forever_for_a_handler_in_a_thread(servers: Servers, caplog: pytest.LogCaptureFixture):
    topic = servers.topic("hangs")
    end = threading.Event()
    try:
        await make_topic(servers, topic, 1)
        await send(servers, topic, numbered(1))
        consumer = Consumer(servers.nameserver, group=topic, start="first", close_timeout_ms=200, consumer_limits=QUICK)
        started = threading.Event()

        @consumer.on(topic)
        def handle(_: Received) -> None:
            started.set()
            end.wait(WAIT_S_MAX)

        async with consumer:
            await until(started.is_set, "the handler has started")
            closing, waited_s = time.monotonic(), read_cpu_wait_s()
        assert time.monotonic() - closing < 10 + read_cpu_wait_s() - waited_s
        assert "did not end" in caplog.text
        async with Consumer(servers.nameserver, group=topic, topics=topic, start="last", consumer_limits=QUICK) as after:
            assert numbers(await take(after, 1)) == [0]
    finally:
        end.set()


async def test_namespace_is_invisible_to_the_user(servers: Servers):
    topic = servers.topic("spaced")
    await make_topic(servers, f"shop%{topic}", 1)
    consumer = Consumer(servers.nameserver, group=topic, start="first", namespace="shop", consumer_limits=QUICK)
    got: list[tuple[str, int]] = []

    @consumer.on(topic)
    async def handle(message: Received) -> None:
        got.append((message.topic, message.reconsume_times))
        if not message.reconsume_times:
            raise ValueError("try again")

    async with consumer, Producer(servers.nameserver, namespace="shop") as producer:
        await producer.send(Message(topic, b"m"))
        await until(lambda: len(got) == 2, "a second try")
        assert [queue.topic for queue in consumer.queues] == [topic]
    assert got == [(topic, 0), (topic, 1)]
    async with PullConsumer(servers.nameserver, group="g", start="first", namespace="shop") as pulling:
        await pulling.assign(await pulling.queues(topic))
        assert [message.topic for message in await pulling.poll(10_000)] == [topic]


async def test_many_consumers_start_at_the_same_time_in_one_loop(servers: Servers):
    topic = servers.topic("crowd")
    await make_topic(servers, topic, 4)
    consumers = [Consumer(servers.nameserver, group=topic, topics=topic, start="first", consumer_limits=QUICK) for _ in range(4)]
    await asyncio.gather(*(consumer.start() for consumer in consumers))
    try:
        await until(lambda: all(len(consumer.queues) == 1 for consumer in consumers), "one queue each")
        assert len({consumer.client_id for consumer in consumers}) == 4
    finally:
        await asyncio.gather(*(consumer.close() for consumer in consumers))


async def test_start_fails_if_a_broker_rejects_the_sql92_expression(servers: Servers):
    topic = servers.topic("wrong-sql")
    await make_topic(servers, topic, 1)
    consumer = Consumer(servers.nameserver, group=topic, topics={topic: sql("n >")}, consumer_limits=QUICK)
    with pytest.raises(BrokerError):
        await consumer.start()


# --- requests of administrators, through the broker


async def test_consumer_reports_its_state_and_consumes_a_message_directly(servers: Servers):
    topic = servers.topic("asked")
    await make_topic(servers, topic, 1)
    await send(servers, topic, [b"one", b"bad"])
    got: list[bytes] = []
    consumer = Consumer(servers.nameserver, group=topic, start="first", consumer_limits=QUICK)

    @consumer.on(topic)
    async def handle(message: Received) -> None:
        got.append(message.body)
        if message.body == b"bad" and len(got) > 2:
            raise ValueError("no")

    async with consumer, reader(servers) as read:
        await until(lambda: len(got) == 2, "both messages")
        address, ask = await broker_address(read), read.session.request_ok
        found: dict[bytes, Given] = {message.body: message for message in await read.all(topic)}

        info = GetConsumerRunningInfoRequestHeader(consumer_group=topic, client_id=consumer.client_id, jstack_enable=True)
        answer = await ask(address, RequestCode.GET_CONSUMER_RUNNING_INFO, info)
        running = decode(answer.body, ConsumerRunningInfo)
        assert running.properties["PROP_CONSUME_TYPE"] == "CONSUME_PASSIVELY"
        assert {subscription.topic for subscription in running.subscription_set} == {topic, f"%RETRY%{topic}"}
        assert [each.commit_offset for queue, each in running.mq_table.items() if queue.topic == topic] == [2]
        assert "thread" in (running.jstack or "")

        status = GetConsumerStatusRequestHeader(topic=topic, group=topic)
        answer = await ask(address, RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, status)
        table = decode(answer.body, GetConsumerStatusBody).consumer_table[consumer.client_id]
        assert {Queue.of(queue).queue_id: offset for queue, offset in table.items()} == {0: 2}

        results = {}
        for body, message in found.items():
            header = ConsumeMessageDirectlyResultRequestHeader(
                consumer_group=topic, client_id=consumer.client_id, msg_id=message.offset_id, broker_name=message.broker_name
            )
            answer = await ask(address, RequestCode.CONSUME_MESSAGE_DIRECTLY, header)
            results[body] = decode(answer.body, ConsumeMessageDirectlyResult)
        assert results[b"one"].consume_result is CMResult.CR_SUCCESS
        assert results[b"bad"].consume_result is CMResult.CR_THROW_EXCEPTION
        assert "no" in (results[b"bad"].remark or "")


# --- brokers that refuse, and wrong options


@asynccontextmanager
async def fake_broker(answers: dict[int, object]) -> AsyncIterator[str]:
    """Run a nameserver and broker in one: its route leads to itself, and it answers with the given handlers."""
    router = Router()
    server = Server(router)
    port = await server.listen("127.0.0.1", 0)
    route = TopicRouteData(
        queue_datas=[QueueData(broker_name="fake", read_queue_nums=1, write_queue_nums=1, perm=6)],
        broker_datas=[BrokerData(cluster="c", broker_name="fake", broker_addrs={0: f"127.0.0.1:{port}"})],
    )
    router.add(RequestCode.GET_ROUTEINFO_BY_TOPIC, lambda command, _: command.response(0, body=encode(route)))
    for code in (RequestCode.HEART_BEAT, RequestCode.UNREGISTER_CLIENT):
        router.add(code, lambda command, _: command.response(0))
    for code, answer in answers.items():
        router.add(code, answer)
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.close()
        await asyncio.sleep(0)


async def test_start_fails_if_the_broker_denies_permission():
    def refuse(command, _connection):
        return command.response(ResponseCode.NO_PERMISSION, remark="the account may not read it")

    async with fake_broker({RequestCode.GET_CONSUMER_LIST_BY_GROUP: refuse}) as address:
        with pytest.raises(BrokerError, match="may not read it"):
            await Consumer(address, group="g", topics="t").start()


async def test_topic_without_a_handler_is_refused_if_others_have_one():
    consumer = Consumer("127.0.0.1:1", group="g", topics=["a", "b"])
    consumer.on("a")(print)
    with pytest.raises(ConfigurationError, match="'b' has no handler"):
        await consumer.start()


async def test_failing_strategy_is_logged_and_retried(servers: Servers, caplog: pytest.LogCaptureFixture):
    topic = servers.topic("strategy")
    calls: list[str] = []

    class Unreliable(Averagely):
        def allocate(self, group, client_id, queues, client_ids, /):
            calls.append(client_id)
            if len(calls) < 4:
                raise ValueError("not today")
            return super().allocate(group, client_id, queues, client_ids)

    await make_topic(servers, topic, 2)
    async with Consumer(servers.nameserver, group=topic, topics=topic, strategy=Unreliable(), consumer_limits=QUICK) as consumer:
        await until(lambda: len(consumer.queues) == 2, "the strategy has recovered")
    assert "AVG failed: ValueError('not today')" in caplog.text
