"""Java and Python clients in one cluster: each consumes what the other sends, and both share a group."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator

import pytest

from skyrocket.client import Admin, Consumer, Message, Outcome, Producer, Received, TransactionProducer
from tests.client.consumer_support import QUICK, make_topic, numbered, numbers, send, take
from tests.client.servers import Servers, until
from tests.support.apache.java_scenes import Cluster, Out, Scenes
from tests.support.apache.transaction_scenes import COMMIT, ROLLBACK, TransactionScenes
from tests.support.processes.skyrocket_process import registered
from tests.support.waiting import WAIT_S_MAX

pytestmark = pytest.mark.interop

# Java members rebalance at once when members change, and often enough to notice a crash.
OPTIONS = ["-Drocketmq.client.rebalance.waitInterval=2000", "-Drocketmq.client.rebalance.minInterval=50"]


def java(servers: Servers, home: str, factory: pytest.TempPathFactory) -> Scenes:
    cluster = Cluster(servers.nameserver, registered(servers.nameserver)[0], "any")
    return Scenes(factory.mktemp(home) / "scenes", f"java-{servers.name}", cluster, OPTIONS)


_machines: dict[str, Scenes] = {}


@pytest.fixture(scope="module")
def machines() -> Iterator[dict[str, Scenes]]:
    """Yield one Java process for each kind of server, shared by the tests of this module."""
    yield _machines
    for scenes in _machines.values():
        scenes.kill()
    _machines.clear()


@pytest.fixture
def scenes(servers: Servers, machines: dict[str, Scenes], tmp_path_factory: pytest.TempPathFactory) -> Scenes:
    if servers.name not in machines:
        machines[servers.name] = java(servers, servers.name, tmp_path_factory)
    return machines[servers.name]


async def test_python_consumes_what_java_sends(servers: Servers, scenes: Scenes):
    topic = scenes.topic("to-python", 1)
    large = b"large enough " * 1_000
    compressing = {kind: scenes.producer(compressOver=64, compressType=kind) for kind in ("ZLIB", "LZ4", "ZSTD")}
    scenes.send(topic, Out(b"plain", tags="web", keys="u-42", flag=7, properties={"colour": "grün"}))
    scenes.send(topic, *(Out(b"in a batch %d" % number) for number in range(3)), how="batch")
    for kind, producer in compressing.items():
        scenes.send(topic, Out(large, keys=kind), by=producer)
    scenes.send(topic, Out(b"delayed", properties={"DELAY": "1"}))
    scenes.send(topic, *(Out(b"%d" % number) for number in range(10)), queue=0)
    async with Consumer(servers.nameserver, group=topic, topics=topic, start="first", consumer_limits=QUICK) as consumer:
        found = await take(consumer, 18)
    plain = found[0]
    assert (plain.body, plain.tag, plain.keys, plain.flag, plain.properties["colour"]) == (
        b"plain",
        "web",
        ["u-42"],
        7,
        "grün",
    )
    bodies = Counter(message.body for message in found)
    assert bodies[large] == 3
    assert {message.keys[0] for message in found if message.body == large} == {"ZLIB", "LZ4", "ZSTD"}
    assert {b"delayed", b"in a batch 0", b"in a batch 1", b"in a batch 2"} <= bodies.keys()
    assert numbers(message for message in found if message.body.isdigit()) == list(range(10))


async def test_java_consumes_what_python_sends(servers: Servers, scenes: Scenes):
    topic = scenes.topic("to-java", 1)
    large = b"large enough " * 1_000

    async def committed(_message: Message, _transaction_id: str) -> Outcome:
        return Outcome.COMMIT

    async def rolled_back(_message: Message, _transaction_id: str) -> Outcome:
        return Outcome.ROLLBACK

    async def check(_message: Received) -> Outcome:
        return Outcome.UNKNOWN

    async with Producer(servers.nameserver) as producer:
        await producer.send(Message(topic, b"plain", tag="web", keys=["u-42"], flag=7, properties={"colour": "grün"}))
        await producer.send_batch([Message(topic, b"in a batch %d" % number) for number in range(3)])
        await producer.send(Message(topic, b"delayed", delay_level=1))
        for number in range(10):
            await producer.send(Message(topic, b"%d" % number, sharding_key="one"))
    for kind in ("zlib", "lz4", "zstd"):
        async with Producer(servers.nameserver, compression=kind) as producer:
            await producer.send(Message(topic, large, keys=[kind]))
    async with TransactionProducer(servers.nameserver, group=f"{topic}-t", check=check) as producer:
        await producer.transaction(Message(topic, b"committed"), committed)
        await producer.transaction(Message(topic, b"rolled back"), rolled_back)
    consumer = scenes.push(topic, topic, **{"from": "first"})
    heard = scenes.heard(consumer, 19)
    scenes.ask("stop", consumer)
    bodies = Counter(got.body for got in heard)
    (plain,) = [got for got in heard if got.body == b"plain"]
    assert (plain.flag, plain.properties["TAGS"], plain.properties["KEYS"], plain.properties["colour"]) == (
        7,
        "web",
        "u-42",
        "grün",
    )
    assert bodies[large] == 3
    assert bodies[b"committed"] == 1
    assert b"rolled back" not in bodies
    assert b"delayed" in bodies
    assert sum(body.startswith(b"in a batch") for body in bodies) == 3
    assert len(heard) == 19


async def test_python_consumes_only_committed_transactions_of_java(servers: Servers, tmp_path_factory: pytest.TempPathFactory):
    topic = servers.topic("java-transactions")
    await make_topic(servers, topic, 1)
    scenes = TransactionScenes(tmp_path_factory.mktemp("transactions") / "scenes", servers.nameserver, [])
    try:
        producer = scenes.producer(f"{topic}-t")
        for number in range(6):
            scenes.transact(producer, COMMIT if number % 2 else ROLLBACK, topic, str(number))
        # while Java runs: it ends a transaction with a oneway request
        async with Consumer(servers.nameserver, group=topic, topics=topic, start="first", consumer_limits=QUICK) as consumer:
            assert numbers(await take(consumer, 3)) == [1, 3, 5]
    finally:
        scenes.kill()


async def test_python_consumes_only_committed_transactions_of_python(servers: Servers):
    topic = servers.topic("transactional")
    await make_topic(servers, topic, 1)

    async def decide(message: Message, _transaction_id: str) -> Outcome:
        return Outcome.COMMIT if int(message.body) % 2 else Outcome.ROLLBACK

    async def check(_message: Received) -> Outcome:
        return Outcome.UNKNOWN

    async with TransactionProducer(servers.nameserver, group=f"{topic}-t", check=check) as producer:
        for body in numbered(10):
            await producer.transaction(Message(topic, body), decide)
    async with Consumer(servers.nameserver, group=topic, topics=topic, start="first", consumer_limits=QUICK) as consumer:
        assert numbers(await take(consumer, 5)) == [1, 3, 5, 7, 9]


async def test_java_and_python_members_share_queues_through_a_join_a_leave_and_a_crash(
    servers: Servers, scenes: Scenes, tmp_path_factory: pytest.TempPathFactory
):
    topic = scenes.topic("mixed", 8)
    group = topic
    got: list[int] = []

    async def ask(machine: Scenes, verb: str, *words: object) -> object:
        return await asyncio.to_thread(getattr(machine, verb), *words)

    async def wait_until_shared(machine: Scenes, name: str, consumer: Consumer) -> None:
        async with asyncio.timeout(WAIT_S_MAX):
            while True:
                theirs = await asyncio.to_thread(machine.share, name)
                ours = {queue.queue_id for queue in consumer.queues}
                if len(theirs) == len(ours) == 4 and not theirs & ours:
                    return
                await asyncio.sleep(0.1)

    consumer = Consumer(servers.nameserver, group=group, start="first", consumer_limits=QUICK)

    @consumer.on(topic)
    async def handle(message: Received) -> None:
        got.append(int(message.body))

    async with consumer:
        await until(lambda: len(consumer.queues) == 8, "the Python member has all queues")
        await send(servers, topic, numbered(40))
        await until(lambda: len(got) >= 40, "40 messages")
        name = await asyncio.to_thread(lambda: scenes.push(group, topic, **{"from": "first"}))  # join
        await wait_until_shared(scenes, name, consumer)
        await send(servers, topic, numbered(120, since=40))
        await until(lambda: len(got) >= 80, "the Python member has its half")
        heard = await asyncio.to_thread(scenes.heard, name, 40)
        # Java counts a message as consumed some time after its listener has reported it here.
        async with Admin(servers.nameserver) as admin, asyncio.timeout(WAIT_S_MAX):
            while (await admin.groups.progress(group, topic)).lag:
                await ask(scenes, "ask", "persist", name)
                await asyncio.sleep(0.05)
        await ask(scenes, "ask", "stop", name)  # leave
        await until(lambda: len(consumer.queues) == 8, "the Python member has all queues again")
        await send(servers, topic, numbered(160, since=120))
        await until(lambda: len(got) >= 120, "all messages")
        crashing = await asyncio.to_thread(java, servers, "crashing", tmp_path_factory)
        try:
            name = await asyncio.to_thread(lambda: crashing.push(group, topic, **{"from": "first"}))
            await wait_until_shared(crashing, name, consumer)
        finally:
            crashing.kill()  # crash
        await until(lambda: len(consumer.queues) == 8, "the Python member has all queues once more")
        await send(servers, topic, numbered(200, since=160))
        await until(lambda: len(got) >= 160, "all messages again")
    both = Counter([*got, *(int(each.body) for each in heard)])
    assert both == Counter(range(200)), "each message was consumed once"
