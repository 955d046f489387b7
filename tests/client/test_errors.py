"""Failures, one by one: each raises one typed error with a clear message, nothing hangs, and no task is left over.

Errors in handlers, loops, callbacks and transaction checks are in their own tests; full caches of consumers in test_consumer.
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
from tests.client.scripted_brokers import ScriptedBroker, scripted_brokers
from tests.client.servers import Servers, apache_servers, our_servers, reader

SHORT_TIMEOUT = ClientLimits(request_ms=300)
SOON_S = 60.0  # far longer than any step here takes


@asynccontextmanager
async def listener(says: bytes) -> AsyncIterator[str]:
    """Run a server that is not a nameserver: it answers everything with these bytes, or with nothing."""

    async def talk(reading: asyncio.StreamReader, writing: asyncio.StreamWriter) -> None:
        while await reading.read(4096):
            writing.write(says)
        writing.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        await asyncio.sleep(0.05)  # let its connections close


# --- a wrong address

Use = Callable[[str], Awaitable[object]]


async def send(address: str) -> None:
    async with Producer(address, limits=SHORT_TIMEOUT) as producer:
        await producer.send(Message("t", b"m"), timeout_ms=1_000)


async def consume(address: str) -> None:
    async with Consumer(address, group="g", topics="t", limits=SHORT_TIMEOUT):
        pass


async def pull(address: str) -> None:
    async with PullConsumer(address, group="g", limits=SHORT_TIMEOUT) as consumer:
        await consumer.queues("t")


async def administrate(address: str) -> None:
    async with Admin(address, limits=SHORT_TIMEOUT) as admin:
        await admin.cluster.brokers()


USES = [send, consume, pull, administrate]


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("address", ["127.0.0.1:1", "no-such-host.invalid:9876"])
async def test_unreachable_nameserver_error_names_the_address(use: Use, address: str):
    async with asyncio.timeout(SOON_S):
        with pytest.raises(NoNameserverError, match=address.replace(".", r"\.")):
            await use(address)


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("says", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n"], ids=["nothing", "http"])
async def test_server_that_is_not_a_nameserver_is_an_error(use: Use, says: bytes):
    async with asyncio.timeout(SOON_S), listener(says) as address:
        with pytest.raises((NoNameserverError, TimedOutError), match="nameserver"):
            await use(address)


# --- permissions


async def test_send_to_a_read_only_topic_has_no_route(servers: Servers):
    topic = servers.topic("readonly")
    await make_topic(servers, topic, 1, perm=4)
    async with Producer(servers.nameserver) as producer:
        with pytest.raises(NoRouteError, match=f"'{topic}' has no queue that accepts messages"):
            await producer.send(Message(topic, b"m"))


async def test_revoked_write_permission_fails_the_next_send(ours: Servers):
    """Apache's brokers check a topic's permission only in the routes that they register."""
    topic = ours.topic("closed")
    await make_topic(ours, topic, 1)
    async with Producer(ours.nameserver) as producer:
        await producer.send(Message(topic, b"m"))
        await make_topic(ours, topic, 1, perm=4)
        with pytest.raises(BrokerError) as caught:
            await producer.send(Message(topic, b"m"))
    assert caught.value.code == ResponseCode.NO_PERMISSION
    assert topic in caught.value.remark


# --- unknown topics


@pytest.mark.parametrize("kind", EACH)
async def test_unknown_topic_is_an_error_when_sends_do_not_create_topics(kind: str, tmp_path: Path):
    run = our_servers if kind == "ours" else apache_servers
    with run(tmp_path, autoCreateTopicEnable="false") as servers:
        async with Producer(servers.nameserver) as producer, PullConsumer(servers.nameserver, group="g") as consumer:
            with pytest.raises(NoRouteError, match="Topic 'unknown' does not exist, and no broker creates topics") as caught:
                await producer.send(Message("unknown", b"m"), timeout_ms=30_000)
            assert caught.value.topic == "unknown"
            with pytest.raises(NoRouteError, match="Topic 'unknown' does not exist"):
                await consumer.queues("unknown")


# --- overload


def refuse_sends(broker: ScriptedBroker, code: ResponseCode, remark: str) -> None:
    broker.respond(RequestCode.SEND_MESSAGE_V2, lambda command: command.response(code, remark=remark))


def ignore_sends(broker: ScriptedBroker) -> None:
    broker.router.add(RequestCode.SEND_MESSAGE_V2, lambda *_: None)


async def test_broker_that_stays_busy_is_a_timeout_with_its_reason_once():
    async with scripted_brokers() as (broker,), Producer(broker.address) as producer:
        refuse_sends(broker, ResponseCode.SYSTEM_BUSY, "the queue is full")
        with pytest.raises(SendTimedOutError) as caught:
            await producer.send(Message("t", b"m"), timeout_ms=400)
    assert len(caught.value.attempts) > 1
    assert not caught.value.outcome_is_unknown
    assert str(caught.value).count("the queue is full") == 1


async def test_broker_with_a_fault_is_retried_and_then_an_error():
    async with scripted_brokers() as (broker,), Producer(broker.address) as producer:
        refuse_sends(broker, ResponseCode.SYSTEM_ERROR, "the disk is full")
        with pytest.raises(SendFailedError, match=r"after 3 attempts.*the disk is full"):
            await producer.send(Message("t", b"m"))


async def test_send_waits_at_the_in_flight_limit_until_its_timeout():
    async with scripted_brokers() as (broker,), Producer(broker.address, limits=ClientLimits(in_flight_max=1)) as producer:
        ignore_sends(broker)
        first = producer.send_soon(Message("t", b"m"), timeout_ms=1_000)
        await asyncio.sleep(0.05)
        with pytest.raises(TimedOutError, match=r"was not sent: the in-flight limit was reached"):
            await producer.send(Message("t", b"m"), timeout_ms=200)
        with pytest.raises(SendTimedOutError):
            await first


async def test_send_soon_beyond_its_limit_is_refused():
    async with (
        scripted_brokers() as (broker,),
        Producer(broker.address, timeout_ms=300, limits=ClientLimits(soon_max=3)) as producer,
    ):
        ignore_sends(broker)
        futures = [producer.send_soon(Message("t", b"m")) for _ in range(3)]
        with pytest.raises(OverloadedError, match="3 messages of send_soon wait to be sent; this one was not accepted"):
            producer.send_soon(Message("t", b"m"))
        results = await asyncio.gather(*futures, return_exceptions=True)
        assert all(isinstance(result, SendTimedOutError) for result in results)


# --- cancelled tasks


async def cancel(job: Awaitable[object], once: Awaitable[object] | None = None) -> None:
    """Start a job and cancel it after a moment, or after `once`."""
    task = asyncio.ensure_future(job)
    await (asyncio.sleep(0.1) if once is None else once)
    assert not task.done(), "the job must be waiting at this point"
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def loop_over(consumer: Consumer) -> None:
    async for _ in consumer:
        raise AssertionError("the topic is empty")


async def test_every_waiting_call_can_be_cancelled(servers: Servers):
    topic = servers.topic("awaited")
    await make_topic(servers, topic, 1)
    name = servers.nameserver
    async with asyncio.timeout(SOON_S), Producer(name) as producer, PullConsumer(name, group=f"{topic}-pull") as puller:
        async with reader(servers) as read:
            await cancel(producer.request(Message(topic, b"?"), timeout_ms=60_000), once=read.at_least(topic, 1))
        await puller.assign(await puller.queues(topic))
        await puller.seek_to_end((await puller.queues(topic))[0])
        await cancel(puller.poll(timeout_ms=60_000))
        async with Consumer(name, group=topic, topics="never-there", consumer_limits=QUICK) as consumer:
            await cancel(loop_over(consumer))
            await cancel(consumer.messages())
        with_handler = Consumer(name, group=f"{topic}-run", consumer_limits=QUICK)
        with_handler.on("never-there")(print)
        await cancel(with_handler.run())
        async with reader(servers) as read:
            assert [message.body for message in await read.at_least(topic, 1)] == [b"?"]


async def test_start_can_be_cancelled():
    async with asyncio.timeout(SOON_S), listener(b"") as address:
        await cancel(Consumer(address, group="g", topics="t").start())
        async with Producer(address) as producer:
            await cancel(producer.send(Message("t", b"m")))


# --- errors in the caller's functions


async def test_error_of_a_selector_reaches_the_caller(servers: Servers):
    topic = servers.topic("selected")
    async with Producer(servers.nameserver, limits=ClientLimits(in_flight_max=1)) as producer:
        for _ in range(3):
            with pytest.raises(ZeroDivisionError):
                await producer.send(Message(topic, b"m"), selector=lambda queues, _: queues[1 // 0])
        assert (await producer.send(Message(topic, b"m"))).is_safe, "failed sends do not use up the in-flight limit"
