"""What goes wrong, one by one: each is one clear typed error, nothing hangs, and no task stays behind (`play` looks).

Exceptions in handlers, loops, callbacks and checks of transactions are in the tests of those; full caches of consumers in
test_consumer.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from skyrocket.client import (
    Admin,
    BrokerError,
    ClientLimits,
    Consumer,
    Message,
    NoNameserverError,
    NoRouteError,
    OverloadedError,
    Producer,
    PullConsumer,
    SendFailedError,
    SendTimedOutError,
    TimedOutError,
)
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from tests.client.conftest import EACH
from tests.client.consumer_support import QUICK, make_topic
from tests.client.servers import Servers, apache_servers, our_servers, reader
from tests.client.strange import Strange, strange

HASTY = ClientLimits(request_ms=300)
SOON_S = 60.0  # much longer than anything here takes, and shorter than for ever


@asynccontextmanager
async def listener(says: bytes) -> AsyncIterator[str]:
    """Somebody who takes connections, and is no nameserver: it says this to everything, or nothing."""

    async def talk(reading: asyncio.StreamReader, writing: asyncio.StreamWriter) -> None:
        while await reading.read(4096):
            writing.write(says)
        writing.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        await asyncio.sleep(0.05)  # its connections end


# --- a wrong address

Use = Callable[[str], Awaitable[object]]


async def sending(address: str) -> None:
    async with Producer(address, limits=HASTY) as producer:
        await producer.send(Message("t", b"m"), timeout_ms=1_000)


async def consuming(address: str) -> None:
    async with Consumer(address, group="g", topics="t", limits=HASTY):
        pass


async def pulling(address: str) -> None:
    async with PullConsumer(address, group="g", limits=HASTY) as consumer:
        await consumer.queues("t")


async def administrating(address: str) -> None:
    async with Admin(address, limits=HASTY) as admin:
        await admin.cluster.brokers()


USES = [sending, consuming, pulling, administrating]


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("address", ["127.0.0.1:1", "no-such-host.invalid:9876"])
async def test_nobody_at_the_address_is_told_with_the_address(use: Use, address: str):
    async with asyncio.timeout(SOON_S):
        with pytest.raises(NoNameserverError, match=address.replace(".", r"\.")):
            await use(address)


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("says", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n"], ids=["nothing", "http"])
async def test_somebody_else_at_the_address_is_told_too(use: Use, says: bytes):
    async with asyncio.timeout(SOON_S), listener(says) as address:
        with pytest.raises((NoNameserverError, TimedOutError), match="nameserver"):
            await use(address)


# --- a refused permission


async def test_a_topic_that_may_only_be_read_takes_no_message(servers: Servers):
    topic = servers.topic("readonly")
    await make_topic(servers, topic, 1, perm=4)
    async with Producer(servers.nameserver) as producer:
        with pytest.raises(NoRouteError, match=f"'{topic}' has no queue that accepts messages"):
            await producer.send(Message(topic, b"m"))


async def test_a_permission_that_is_taken_away_is_the_brokers_answer_at_once(ours: Servers):
    """Apache's brokers look at a topic's permission only when they tell routes."""
    topic = ours.topic("closed")
    await make_topic(ours, topic, 1)
    async with Producer(ours.nameserver) as producer:
        await producer.send(Message(topic, b"m"))
        await make_topic(ours, topic, 1, perm=4)
        with pytest.raises(BrokerError) as caught:
            await producer.send(Message(topic, b"m"))
    assert caught.value.code == ResponseCode.NO_PERMISSION
    assert topic in caught.value.remark


# --- an unknown topic


@pytest.mark.parametrize("kind", EACH)
async def test_where_topics_are_not_created_by_sending_an_unknown_one_is_told(kind: str, tmp_path: Path):
    run = our_servers if kind == "ours" else apache_servers
    with run(tmp_path, autoCreateTopicEnable="false") as servers:
        async with Producer(servers.nameserver) as producer, PullConsumer(servers.nameserver, group="g") as consumer:
            with pytest.raises(NoRouteError, match="Topic 'unknown' does not exist, and no broker creates topics") as caught:
                await producer.send(Message("unknown", b"m"), timeout_ms=30_000)
            assert caught.value.topic == "unknown"
            with pytest.raises(NoRouteError, match="Topic 'unknown' does not exist"):
                await consumer.queues("unknown")


# --- full


def refusing(broker: Strange, code: ResponseCode, remark: str) -> None:
    broker.answer(RequestCode.SEND_MESSAGE_V2, lambda command: command.response(code, remark=remark))


def silent(broker: Strange) -> None:
    broker.router.add(RequestCode.SEND_MESSAGE_V2, lambda *_: None)


async def test_a_broker_that_stays_too_busy_is_a_timeout_that_says_so_once():
    async with strange() as (broker,), Producer(broker.address) as producer:
        refusing(broker, ResponseCode.SYSTEM_BUSY, "the queue is full")
        with pytest.raises(SendTimedOutError) as caught:
            await producer.send(Message("t", b"m"), timeout_ms=400)
    assert len(caught.value.attempts) > 1
    assert not caught.value.outcome_is_unknown
    assert str(caught.value).count("the queue is full") == 1


async def test_a_broker_with_a_fault_is_tried_again_and_then_told():
    async with strange() as (broker,), Producer(broker.address) as producer:
        refusing(broker, ResponseCode.SYSTEM_ERROR, "the disk is full")
        with pytest.raises(SendFailedError, match=r"after 3 attempts.*the disk is full"):
            await producer.send(Message("t", b"m"))


async def test_too_many_under_way_are_waited_for_as_long_as_there_is_time():
    async with strange() as (broker,), Producer(broker.address, limits=ClientLimits(in_flight_max=1)) as producer:
        silent(broker)
        first = producer.send_soon(Message("t", b"m"), timeout_ms=1_000)
        await asyncio.sleep(0.05)
        with pytest.raises(TimedOutError, match=r"was not sent: the in-flight limit was reached"):
            await producer.send(Message("t", b"m"), timeout_ms=200)
        with pytest.raises(SendTimedOutError):
            await first


async def test_what_a_producer_has_not_room_for_is_refused_at_once():
    async with strange() as (broker,), Producer(broker.address, timeout_ms=300, limits=ClientLimits(soon_max=3)) as producer:
        silent(broker)
        futures = [producer.send_soon(Message("t", b"m")) for _ in range(3)]
        with pytest.raises(OverloadedError, match="3 messages of send_soon wait to be sent; this one was not accepted"):
            producer.send_soon(Message("t", b"m"))
        ends = await asyncio.gather(*futures, return_exceptions=True)
        assert all(isinstance(end, SendTimedOutError) for end in ends)


# --- a cancelled task


async def cancelled(job: Awaitable[object], once: Awaitable[object] | None = None) -> None:
    """After a moment, or once something has happened."""
    task = asyncio.ensure_future(job)
    await (asyncio.sleep(0.1) if once is None else once)
    assert not task.done(), "it should wait for something here"
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def loop_over(consumer: Consumer) -> None:
    async for _ in consumer:
        raise AssertionError("there is nothing to get")


async def test_whoever_waits_may_be_cancelled(servers: Servers):
    topic = servers.topic("awaited")
    await make_topic(servers, topic, 1)
    name = servers.nameserver
    async with asyncio.timeout(SOON_S), Producer(name) as producer, PullConsumer(name, group=f"{topic}-pull") as puller:
        async with reader(servers) as read:
            await cancelled(producer.request(Message(topic, b"?"), timeout_ms=60_000), once=read.at_least(topic, 1))
        await puller.assign(await puller.queues(topic))
        await puller.seek_to_end((await puller.queues(topic))[0])
        await cancelled(puller.poll(timeout_ms=60_000))
        async with Consumer(name, group=topic, topics="never-there", consumer_limits=QUICK) as consumer:
            await cancelled(loop_over(consumer))
            await cancelled(consumer.messages())
        with_handler = Consumer(name, group=f"{topic}-run", consumer_limits=QUICK)
        with_handler.on("never-there")(print)
        await cancelled(with_handler.run())
        async with reader(servers) as read:
            assert [message.body for message in await read.at_least(topic, 1)] == [b"?"]


async def test_a_start_may_be_cancelled():
    async with asyncio.timeout(SOON_S), listener(b"") as address:
        await cancelled(Consumer(address, group="g", topics="t").start())
        async with Producer(address) as producer:
            await cancelled(producer.send(Message("t", b"m")))


# --- an exception in a function that the client calls


async def test_what_a_selector_raises_reaches_who_gave_it(servers: Servers):
    topic = servers.topic("selected")
    async with Producer(servers.nameserver, limits=ClientLimits(in_flight_max=1)) as producer:
        for _ in range(3):
            with pytest.raises(ZeroDivisionError):
                await producer.send(Message(topic, b"m"), selector=lambda queues, _: queues[1 // 0])
        assert (await producer.send(Message(topic, b"m"))).is_safe, "what failed takes no room"
