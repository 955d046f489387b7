"""Reads from slaves: consumers follow the master's suggestion, read from the slave while the master is gone, and go back.

The pairs are mixed: Apache's brokers and ours. The consumers are ours and Apache's.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from skyrocket.client import Admin as OurAdmin
from skyrocket.client import Consumer, Message, Producer, PullConsumer, Queue, Received
from skyrocket.protocol.bodies import HARuntimeInfo
from skyrocket.protocol.fastjson.codec import decode
from skyrocket.protocol.headers import GetMaxOffsetRequestHeader, QueryConsumerOffsetRequestHeader
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from skyrocket.spark.fetch.connections import connections
from skyrocket.spark.fetch.range_reader import RangeReader
from skyrocket.spark.options.source_options import source_options
from skyrocket.spark.source.partitions import QueuePartition
from tests.client.consumer_support import QUICK
from tests.client.servers import until
from tests.support.apache.admin import Admin
from tests.support.apache.cluster import ApacheCluster
from tests.support.processes.replica_pair import BROKER, QUEUES, ReplicaPair
from tests.support.waiting import wait_until

pytestmark = pytest.mark.interop

PAIRS = [("apache", "apache"), ("apache", "ours"), ("ours", "ours"), ("ours", "apache")]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheCluster]:
    with ApacheCluster(tmp_path_factory.mktemp("apache")) as running:
        yield running


@pytest.fixture(scope="module")
def admin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Admin]:
    running = Admin(tmp_path_factory.mktemp("admin"))
    yield running
    running.kill()


@pytest.fixture(scope="module", params=PAIRS, ids="-".join)
def pair(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, cluster: ApacheCluster
) -> Iterator[ReplicaPair]:
    """A master and a slave. Every test leaves both running. It starts none in a thread, with which the process would end."""
    master, slave = request.param
    with ReplicaPair(tmp_path_factory.mktemp("pair"), cluster, master, slave) as running:
        yield running


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


async def test_consumers_read_from_the_slave_while_the_master_is_gone_and_go_back(pair: ReplicaPair, admin: Admin):
    topic = f"orders-{pair.name}"
    await asyncio.to_thread(pair.make_topic, topic)
    java_early, java_late = f"javaEarly-{pair.name}", f"javaLate-{pair.name}"
    wanted = await send(pair, topic, 0, 60)
    async with consuming(pair, "early", topic) as early:
        await until(lambda: early == wanted, "the consumer gets what was sent before it came")
        await asyncio.to_thread(admin.consume, pair.nameserver, java_early, topic)
        wanted |= await send(pair, topic, 60, 20)
        await until(lambda: early == wanted, "the consumer gets what is sent now")
        await asyncio.to_thread(pair.wait_until_copied, topic)
        await asyncio.to_thread(pair.kill_master)
        # Groups that begin now have only the slave.
        async with consuming(pair, "late", topic) as late:
            await until(lambda: late == wanted, "a new group reads everything from the slave")
        await asyncio.to_thread(admin.consume, pair.nameserver, java_late, topic)
        for group in (java_early, java_late):
            await asyncio.to_thread(_wait_for_java, admin, group, wanted)
        assert committed(pair, "slave", "late", topic) == len(wanted)  # where else
        pair.start_master()
        wanted |= await send(pair, topic, 80, 20)
        await until(lambda: early == wanted, "the consumer goes back to the master")
        for group in (java_early, java_late):
            await asyncio.to_thread(_wait_for_java, admin, group, wanted)
    await until(lambda: committed(pair, "master", "early", topic) == len(wanted), "its offsets are the master's again")
    for group in (java_early, java_late):
        admin.stop_client(group)


def _wait_for_java(admin: Admin, group: str, wanted: set[int]) -> None:
    wait_until(lambda: {message.number for message in admin.received(group)} == wanted, f"Java's {group} gets everything")


async def test_pull_consumer_and_queue_offsets_use_the_slave(pair: ReplicaPair):
    topic = f"pulled-{pair.name}"
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
    pair.start_master()


def read_all(pair: ReplicaPair, topic: str) -> set[int]:
    """Read all queues of a topic as a task of Spark's source does. Return the numbers of the messages."""
    options = source_options({"nameserver": pair.nameserver, "subscribe": topic, "retryTimeout": "60s"}, "batch")
    numbers: set[int] = set()
    for queue in range(QUEUES):
        header = GetMaxOffsetRequestHeader(topic=topic, queue_id=queue)
        stop = int(pair.ask("slave", RequestCode.GET_MAX_OFFSET, header).fields["offset"])
        part = QueuePartition(Queue(topic, BROKER, queue), 0, stop)
        for batch in RangeReader(options, part, ["body"]).batches():
            numbers |= {int(body) for body in batch["body"].to_pylist()}
    return numbers


async def test_spark_source_reads_from_the_suggested_slave_and_from_the_slave_alone(pair: ReplicaPair):
    topic = f"spark-{pair.name}"
    await asyncio.to_thread(pair.make_topic, topic)
    wanted = await send(pair, topic, 0, 400)
    await asyncio.to_thread(pair.wait_until_copied, topic)
    assert await asyncio.to_thread(read_all, pair, topic) == wanted  # the master suggests the slave with each answer
    await asyncio.to_thread(pair.kill_master)
    assert await asyncio.to_thread(read_all, pair, topic) == wanted
    pair.start_master()
    assert await asyncio.to_thread(read_all, pair, topic) == wanted


connections.clear_after_fork()


async def test_state_of_replication_is_shown(pair: ReplicaPair, admin: Admin):
    topic = f"shown-{pair.name}"
    await asyncio.to_thread(pair.make_topic, topic)
    await send(pair, topic, 0, 10)
    await asyncio.to_thread(pair.wait_until_copied, topic)

    def status(role: str) -> HARuntimeInfo:
        return decode(pair.ask(role, RequestCode.GET_BROKER_HA_STATUS).body, HARuntimeInfo)

    def is_level() -> bool:
        return [(one.diff, one.in_sync) for one in status("master").ha_connection_info] == [(0, True)]

    await asyncio.to_thread(wait_until, is_level, "the master knows that its slave has everything")
    of_master, of_slave = status("master"), status("slave")
    assert (of_master.master, of_slave.master, of_master.in_sync_slave_nums) == (True, False, 1)
    assert of_slave.ha_client_runtime_info.max_offset == of_master.master_commit_log_max_offset > 0
    assert of_slave.ha_client_runtime_info.master_addr is not None
    printed = admin.admin("haStatus", "-n", pair.nameserver, "-b", pair.address("master"))
    assert str(of_master.master_commit_log_max_offset) in printed, printed
    async with OurAdmin(pair.nameserver) as ours:
        states = {state.broker_id: state for state in await ours.cluster.states() if state.broker_name == BROKER}
    assert {broker_id: state.is_master for broker_id, state in states.items()} == {0: True, 1: False}
