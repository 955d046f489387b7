"""Reads from slaves: consumers follow the master's suggestion, read from the slave while the master is gone, and go back.

The pairs are mixed: Apache's brokers and ours. The consumers are ours and Apache's.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from skyrocket.client import Consumer, Message, Producer, PullConsumer, Queue, Received
from skyrocket.protocol.headers import QueryConsumerOffsetRequestHeader
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from tests.client.consumer_support import QUICK
from tests.client.servers import until
from tests.support.apache_admin import Admin
from tests.support.apache_cluster import ApacheCluster
from tests.support.replica_pair import BROKER, QUEUES, ReplicaPair
from tests.support.waiting import wait_until

pytestmark = pytest.mark.interop

PAIRS = [("apache", "apache"), ("apache", "ours"), ("ours", "ours"), ("ours", "apache")]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheCluster]:
    with ApacheCluster(tmp_path_factory.mktemp("apache")) as running:
        yield running


@pytest.fixture
def admin(tmp_path: Path) -> Iterator[Admin]:
    running = Admin(tmp_path / "admin")
    yield running
    running.kill()


async def send(pair: ReplicaPair, topic: str, first: int, count: int) -> set[int]:
    """Send numbered messages to the master. Return their numbers."""
    async with Producer(pair.nameserver) as producer:
        for number in range(first, first + count):
            await producer.send(Message(topic, b"%08d" % number))
    return set(range(first, first + count))


@asynccontextmanager
async def consuming(pair: ReplicaPair, group: str, topic: str) -> AsyncIterator[set[int]]:
    """A consumer of ours. Yields the numbers that it has received."""
    consumer = Consumer(pair.nameserver, group=group, start="first", consumer_limits=QUICK)
    numbers: set[int] = set()

    @consumer.on(topic)
    async def take(message: Received) -> None:
        numbers.add(int(message.body))

    async with consumer:
        yield numbers


def committed(pair: ReplicaPair, role: str, group: str, topic: str) -> int:
    """The offsets of a group in all queues, summed up."""
    total = 0
    for queue in range(QUEUES):
        header = QueryConsumerOffsetRequestHeader(consumer_group=group, topic=topic, queue_id=queue)
        answer = pair.ask(role, RequestCode.QUERY_CONSUMER_OFFSET, header)
        total += int(answer.fields["offset"]) if answer.code == ResponseCode.SUCCESS else 0
    return total


@pytest.mark.parametrize(("master", "slave"), PAIRS)
async def test_consumers_read_from_the_slave_while_the_master_is_gone_and_go_back(
    tmp_path: Path, cluster: ApacheCluster, admin: Admin, master: str, slave: str
):
    topic = f"orders-{master}-{slave}"
    with ReplicaPair(tmp_path / "pair", cluster, master, slave) as pair:  # type: ignore[arg-type]
        await asyncio.to_thread(pair.make_topic, topic)
        wanted = await send(pair, topic, 0, 60)
        async with consuming(pair, "early", topic) as early:
            await until(lambda: early == wanted, "the consumer gets what was sent before it came")
            await asyncio.to_thread(admin.consume, pair.nameserver, "javaEarly", topic)
            wanted |= await send(pair, topic, 60, 20)
            await until(lambda: early == wanted, "the consumer gets what is sent now")
            await asyncio.to_thread(pair.wait_until_copied, topic)
            await asyncio.to_thread(pair.kill_master)
            # Groups that begin now have only the slave.
            async with consuming(pair, "late", topic) as late:
                await until(lambda: late == wanted, "a new group reads everything from the slave")
            await asyncio.to_thread(admin.consume, pair.nameserver, "javaLate", topic)
            for group in ("javaEarly", "javaLate"):
                await asyncio.to_thread(_wait_for_java, admin, group, wanted)
            assert committed(pair, "slave", "late", topic) == len(wanted)  # where else
            await asyncio.to_thread(pair.start_master)
            wanted |= await send(pair, topic, 80, 20)
            await until(lambda: early == wanted, "the consumer goes back to the master")
            for group in ("javaEarly", "javaLate"):
                await asyncio.to_thread(_wait_for_java, admin, group, wanted)
        await until(lambda: committed(pair, "master", "early", topic) == len(wanted), "its offsets are the master's again")
        for group in ("javaEarly", "javaLate"):
            admin.stop_client(group)


def _wait_for_java(admin: Admin, group: str, wanted: set[int]) -> None:
    wait_until(lambda: {message.number for message in admin.received(group)} == wanted, f"Java's {group} gets everything")


@pytest.mark.parametrize(("master", "slave"), PAIRS)
async def test_pull_consumer_and_queue_offsets_use_the_slave(tmp_path: Path, cluster: ApacheCluster, master: str, slave: str):
    topic = f"pulled-{master}-{slave}"
    with ReplicaPair(tmp_path / "pair", cluster, master, slave) as pair:  # type: ignore[arg-type]
        await asyncio.to_thread(pair.make_topic, topic)
        wanted = await send(pair, topic, 0, 40)
        await asyncio.to_thread(pair.wait_until_copied, topic)
        await asyncio.to_thread(pair.kill_master)
        async with PullConsumer(pair.nameserver, group="pullers", start="first", consumer_limits=QUICK) as consumer:
            queues = await consumer.queues(topic)
            assert queues == [Queue(topic, BROKER, number) for number in range(QUEUES)]
            await consumer.assign(queues)
            received: set[int] = set()
            async with asyncio.timeout(120):
                while received != wanted:
                    received |= {int(message.body) for message in await consumer.poll()}
            await consumer.commit()
        assert committed(pair, "slave", "pullers", topic) == len(wanted)
