"""Our client through a proxy, in front of our servers and of Apache's. It connects to no other address."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from skyrocket.client import (
    Admin,
    Consumer,
    Message,
    NotFoundError,
    Outcome,
    Producer,
    PullConsumer,
    Queue,
    Received,
    TransactionProducer,
)
from skyrocket.client.options import ClientOptions
from skyrocket.client.session.session import Session
from tests.client.conftest import EACH
from tests.client.consumer_support import QUICK, make_topic, numbered, send
from tests.client.servers import BROKER, Servers, reader, until
from tests.support.processes.skyrocket_process import SkyrocketProxy


@pytest.fixture(scope="module", params=EACH)
def through(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """The servers as clients of a proxy see them."""
    servers: Servers = request.getfixturevalue(request.param)
    with SkyrocketProxy(tmp_path_factory.mktemp("proxy"), servers.nameserver) as proxy:
        yield replace(servers, nameserver=proxy.address)
        proxy.stop()
        assert proxy.complaints() == [], proxy.log_tail(100)


@asynccontextmanager
async def only_connection(servers: Servers) -> AsyncIterator[None]:
    """Check that the clients of this loop have a connection to the proxy and none to anybody else."""
    session = await Session.acquire(ClientOptions(servers.nameserver))
    try:
        yield
        assert list(session.dialer._connections) == [servers.nameserver]
    finally:
        await session.release()


async def test_messages_sent_in_every_way_arrive_and_failing_ones_come_again(through: Servers):
    topic = through.topic("ways")
    await make_topic(through, topic, 4)
    expected = Counter(numbered(20))
    members = [Consumer(through.nameserver, group=topic, start="first", consumer_limits=QUICK) for _ in range(2)]
    got: list[Counter[bytes]] = [Counter(), Counter()]
    tries: list[int] = []
    for consumer, counted in zip(members, got, strict=True):

        @consumer.on(topic)
        async def handle(message: Received, counted: Counter[bytes] = counted) -> None:
            if message.body == b"7":
                tries.append(message.reconsume_times)
                if len(tries) == 1:
                    raise ValueError("come again")
            counted[message.body] += 1

    async with only_connection(through), Producer(through.nameserver) as producer, members[0], members[1]:
        await until(lambda: all(len(member.queues) == 2 for member in members), "each has two queues")
        for body in numbered(5):
            await producer.send(Message(topic, body))
        await producer.send_batch([Message(topic, body) for body in numbered(10, since=5)])
        await asyncio.gather(*(producer.send(Message(topic, body)) for body in numbered(15, since=10)))
        for body in numbered(20, since=15):
            await producer.send_oneway(Message(topic, body))
        await producer.send(Message(topic, b"large" * 200_000))
        await until(lambda: (got[0] + got[1]).total() >= 21, "every message")
    assert got[0] + got[1] == expected + Counter([b"large" * 200_000])
    assert tries == [0, 1]


async def test_queues_are_locked_for_orderly_consumers_and_shared_out_anew_when_a_member_leaves(through: Servers):
    topic = through.topic("ordered")
    await make_topic(through, topic, 4)
    got: dict[int, list[int]] = defaultdict(list)
    members = [Consumer(through.nameserver, group=topic, start="first", orderly=True, consumer_limits=QUICK) for _ in range(2)]
    for consumer in members:

        @consumer.on(topic)
        async def handle(message: Received) -> None:
            got[message.queue_id].append(int(message.body))

    async with Producer(through.nameserver) as producer, members[0]:
        async with members[1]:
            await until(lambda: all(len(member.queues) == 2 for member in members), "each has two queues")
            for number in range(40):
                await producer.send(Message(topic, b"%d" % number), queue=Queue(topic, BROKER, number % 4))
            await until(lambda: sum(map(len, got.values())) >= 40, "40 messages")
        for number in range(40, 48):
            await producer.send(Message(topic, b"%d" % number), queue=Queue(topic, BROKER, number % 4))
        await until(lambda: sum(map(len, got.values())) >= 48, "the member that stayed has all queues")
    assert got == {queue: list(range(queue, 48, 4)) for queue in range(4)}


async def test_a_broker_checks_back_through_the_proxy(through: Servers):
    topic = through.topic("checked")
    checked: list[Received] = []

    def check(message: Received) -> Outcome:
        checked.append(message)
        return Outcome.COMMIT if message.keys == ["paid"] else Outcome.ROLLBACK

    async with (
        only_connection(through),
        TransactionProducer(through.nameserver, group=topic, check=check) as producer,
        reader(through) as read,
    ):
        await producer.transaction(Message(topic, b"rolled back"), lambda *_: Outcome.ROLLBACK)
        await producer.transaction(Message(topic, b"committed"), lambda *_: Outcome.COMMIT)
        for key in ("unpaid", "paid"):
            await producer.transaction(Message(topic, key.encode(), keys=[key]), lambda *_: Outcome.UNKNOWN)
        found = await read.at_least(topic, 2)
        await until(lambda: {message.keys[0] for message in checked} == {"paid", "unpaid"}, "both are checked")
    assert {message.body for message in found} == {b"committed", b"paid"}


async def test_a_reply_finds_its_way_back(through: Servers):
    topic = through.topic("requests")
    async with (
        Producer(through.nameserver, group="asking") as asking,
        Producer(through.nameserver, group="replying", instance="replier") as replier,
        reader(through) as read,
    ):
        requests = [asyncio.create_task(asking.request(Message(topic, b"%d" % n), timeout_ms=20_000)) for n in range(5)]
        for request in await read.at_least(topic, 5):
            await replier.reply_to(request, b"twice is %d" % (2 * int(request.body)))
        replies = await asyncio.gather(*requests)
    assert [reply.body for reply in replies] == [b"twice is %d" % (2 * n) for n in range(5)]


async def test_administration_of_a_cluster_with_one_broker_needs_no_ports(through: Servers):
    topic = through.topic("admin")
    async with only_connection(through), Admin(through.nameserver) as admin:
        await admin.topics.create(topic, queues=2)
        await send(through, topic, numbered(6), keys=["k"])
        got: list[Received] = []
        async with PullConsumer(through.nameserver, group=topic, start="first", consumer_limits=QUICK) as pulling:
            await pulling.subscribe(topic)
            while len(got) < 6:
                got += await pulling.poll(timeout_ms=1_000)
            await pulling.commit()
            await until_is(admin, topic, waiting=0)
        consumer = Consumer(through.nameserver, group=f"{topic}-push", start="first", consumer_limits=QUICK)
        consumer.on(topic)(got.append)
        async with consumer:
            await until(lambda: len(got) >= 12, "the consumer has them, too")
            state = await admin.groups.member_state(f"{topic}-push", consumer.client_id)  # the broker asks the consumer
            assert {queue.queue for queue in state.queues} >= {Queue(topic, BROKER, 0), Queue(topic, BROKER, 1)}
        await admin.offsets.reset(topic, topic, "first")
        await until_is(admin, topic, waiting=6)
        assert {message.body for message in await admin.messages.by_key(topic, "k")} == set(numbered(6))
        with pytest.raises(NotFoundError, match="registered at no nameserver"):
            await admin.messages.by_offset_id(got[0].offset_id)
        (broker,) = await admin.cluster.brokers()
        assert (broker.broker_name, broker.address) == (BROKER, through.nameserver)


async def until_is(admin: Admin, group: str, *, waiting: int) -> None:
    async with asyncio.timeout(30):
        while (await admin.groups.progress(group)).lag != waiting:  # noqa: ASYNC110 — a broker sends no notification
            await asyncio.sleep(0.05)
