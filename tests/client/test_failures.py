"""Brokers and nameservers that die and restart during sends: no acknowledged message is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from skyrocket.client import (
    ClientError,
    Message,
    Producer,
    SendFailedError,
    SendTimedOutError,
    UnreachableError,
)
from skyrocket.client.limits import ClientLimits
from skyrocket.net.connection import Connection
from skyrocket.net.router import Router
from skyrocket.net.server import Server
from skyrocket.protocol.bodies import BrokerData, QueueData, TopicRouteData
from skyrocket.protocol.command import Command
from skyrocket.protocol.fastjson.codec import encode
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from tests.client.conftest import EACH
from tests.client.servers import Servers, apache_servers, our_servers, reader, until
from tests.support.ports import free_port
from tests.support.processes.skyrocket_process import SkyrocketBroker, SkyrocketNameserver


@pytest.fixture(params=EACH)
def mortal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Servers]:
    """Servers that the test may kill."""
    with (our_servers if request.param == "ours" else apache_servers)(tmp_path) as servers:
        yield servers


@asynccontextmanager
async def silent_broker(
    questions: list[Command] | None = None, code: ResponseCode | None = None
) -> AsyncIterator[tuple[str, str]]:
    """Run a server that is nameserver and broker: its route points to itself, and it answers no send.

    It appends the requests for a route to `questions`. With `code` it answers that to each send.
    """
    asked = [] if questions is None else questions
    router = Router()
    server = Server(router)
    port = await server.listen("127.0.0.1", 0)
    route = TopicRouteData(
        queue_datas=[QueueData(broker_name="silent", read_queue_nums=1, write_queue_nums=1, perm=6)],
        broker_datas=[BrokerData(cluster="c", broker_name="silent", broker_addrs={0: f"127.0.0.1:{port}"})],
    )

    def answer_route(command: Command, _: Connection) -> Command:
        asked.append(command)
        return command.response(0, body=encode(route))

    router.add(RequestCode.GET_ROUTEINFO_BY_TOPIC, answer_route)
    for other in (RequestCode.HEART_BEAT, RequestCode.UNREGISTER_CLIENT):
        router.add(other, lambda command, _: command.response(0))
    router.add(RequestCode.SEND_MESSAGE_V2, lambda command, _: None if code is None else command.response(code))
    try:
        yield f"127.0.0.1:{port}", "silence"
    finally:
        await server.close()
        await asyncio.sleep(0)  # let its task finish


async def test_no_acknowledged_message_is_lost_when_a_broker_is_killed_under_load(mortal: Servers):
    topic = mortal.topic("killed")
    acknowledged: set[str] = set()
    failed: list[ClientError] = []
    stop = asyncio.Event()

    async with Producer(mortal.nameserver, timeout_ms=60_000, stamp=True) as producer, reader(mortal) as read:

        async def sender() -> None:
            while not stop.is_set():
                try:
                    acknowledged.add((await producer.send(Message(topic, b"x" * 200))).message_id)
                except ClientError as error:
                    failed.append(error)

        senders = [asyncio.create_task(sender()) for _ in range(16)]
        await until(lambda: len(acknowledged) >= 500, "500 are acknowledged")
        mortal.kill_broker()
        before = len(acknowledged)
        await asyncio.to_thread(mortal.start_broker)
        await until(lambda: len(acknowledged) >= before + 500, "500 more are acknowledged")
        stop.set()
        await asyncio.gather(*senders)
        found = {message.message_id for message in await read.at_least(topic, len(acknowledged))}
    missing = acknowledged - found
    assert not missing, f"{len(missing)} of {len(acknowledged)} acknowledged messages are gone"
    assert not failed, f"the broker restarted within the timeout, but a send failed: {failed[0]}"


async def test_send_to_a_dead_broker_times_out_and_lists_its_attempts(tmp_path: Path):
    with our_servers(tmp_path) as servers:
        async with Producer(servers.nameserver) as producer:
            topic = servers.topic("dead")
            await producer.send(Message(topic, b"m"))
            servers.kill_broker()
            started = asyncio.get_running_loop().time()
            with pytest.raises(SendTimedOutError) as caught:
                await producer.send(Message(topic, b"m"), timeout_ms=700)
            assert 0.3 < asyncio.get_running_loop().time() - started < 5
        attempts = caught.value.attempts
        assert [type(attempt.error) for attempt in attempts][-1] is UnreachableError
        assert {attempt.broker for attempt in attempts} == {"broker-a"}


async def test_send_without_a_response_times_out_with_unknown_outcome():
    """The broker may have stored the message."""
    async with silent_broker() as (nameserver, topic), Producer(nameserver) as producer:
        with pytest.raises(SendTimedOutError) as caught:
            await producer.send(Message(topic, b"m"), timeout_ms=400)
        assert caught.value.outcome_is_unknown
        assert len(caught.value.attempts) == 1


@pytest.mark.parametrize("code", [None, ResponseCode.SYSTEM_BUSY])
async def test_after_a_send_that_got_no_answer_or_a_refusal_the_route_is_asked_for_again(code: ResponseCode | None):
    """The broker may be cut off, or be a slave now, and another one may be the master."""
    questions: list[Command] = []
    async with silent_broker(questions, code) as (nameserver, topic), Producer(nameserver) as producer:
        for _ in range(2):
            with pytest.raises(SendTimedOutError):
                await producer.send(Message(topic, b"m"), timeout_ms=200)
        assert len(questions) > 1


async def test_attempt_timeout_is_shorter_than_the_send_timeout():
    async with silent_broker() as (nameserver, topic), Producer(nameserver, attempt_timeout_ms=100) as producer:
        with pytest.raises(SendFailedError) as caught:
            await producer.send(Message(topic, b"m"), timeout_ms=1_000)
        assert len(caught.value.attempts) == 3


async def test_sends_to_known_topics_work_while_the_nameservers_are_down(tmp_path: Path):
    with SkyrocketNameserver(tmp_path / "names") as names, SkyrocketBroker(tmp_path / "broker", names.nameserver) as broker:
        limits = ClientLimits(routes_ms=100)
        async with Producer(names.nameserver, limits=limits) as producer:
            await producer.send(Message("known", b"m"))
            names.kill()
            await asyncio.sleep(0.5)  # let some route refreshes fail
            assert (await producer.send(Message("known", b"m"))).is_safe
            with pytest.raises(ClientError, match=r"No nameserver (answers|returned the route of topic 'unknown' within 500 ms)"):
                await producer.send(Message("unknown", b"m"), timeout_ms=500)
            await asyncio.to_thread(names.start)
            broker.stop()
            await asyncio.to_thread(broker.start)  # it registers again
            assert (await producer.send(Message("unknown", b"m"), timeout_ms=20_000)).is_safe


async def test_another_broker_takes_over_from_a_dead_one(tmp_path: Path):
    with SkyrocketNameserver(tmp_path / "names") as names:
        first = SkyrocketBroker(tmp_path / "a", names.nameserver, {"brokerName": "a"})
        second = SkyrocketBroker(tmp_path / "b", names.nameserver, {"brokerName": "b"})
        with first, second:
            async with Producer(names.nameserver) as producer:
                receipts = [await producer.send(Message("both", b"m")) for _ in range(16)]
                assert {receipt.queue.broker_name for receipt in receipts} == {"a", "b"}
                first.kill()
                receipts = [await producer.send(Message("both", b"m")) for _ in range(16)]
                assert {receipt.queue.broker_name for receipt in receipts} == {"b"}
            async with Producer(names.nameserver, avoid_slow_brokers=True, retries=0) as producer:
                failed = 0
                for _ in range(16):
                    try:
                        await producer.send(Message("both", b"m"))
                    except ClientError:
                        failed += 1
                assert failed <= 2, "after its first failure the broker is skipped"


async def test_broker_at_a_new_address_is_found(tmp_path: Path):
    """The broker restarts at another address. A failed send fetches the new route."""
    with SkyrocketNameserver(tmp_path / "names") as names:
        before = SkyrocketBroker(
            tmp_path / "before", names.nameserver, {"listenPort": free_port(-2, 1)}, store=tmp_path / "store"
        )
        with before:
            async with Producer(names.nameserver) as producer:
                await producer.send(Message("moving", b"m"))
                await asyncio.to_thread(before.stop)
                after = await asyncio.to_thread(
                    lambda: SkyrocketBroker(tmp_path / "after", names.nameserver, store=tmp_path / "store")
                )
                with after:
                    assert (await producer.send(Message("moving", b"m"), timeout_ms=20_000)).is_safe


async def test_in_flight_limit_bounds_the_memory_of_many_sends(ours: Servers):
    topic = ours.topic("flood")
    limits = ClientLimits(in_flight_max=50, in_flight_max_bytes=200_000)
    async with Producer(ours.nameserver, limits=limits, timeout_ms=30_000, compression=None) as producer:
        most = 0

        async def send() -> None:
            nonlocal most
            await producer.send(Message(topic, b"x" * 10_000))
            most = max(most, producer._session.in_flight.size_bytes)

        await asyncio.gather(*(send() for _ in range(500)))
    assert 0 < most <= 200_000
