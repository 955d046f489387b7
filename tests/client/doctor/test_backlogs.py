"""Backlogs and who causes them, masters that are gone and logs that are damaged: each made with real members and brokers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from skyrocket.client import Admin, Consumer, ConsumerLimits, Message, Producer, Received
from skyrocket.client.queues import Queue
from skyrocket.protocol.bodies import ConsumerData, HeartbeatData, SubscriptionData
from skyrocket.protocol.fastjson.codec import encode
from skyrocket.protocol.requests import RequestCode
from tests.client.consumer_support import QUICK, broker_address
from tests.client.doctor.scenes import finding_of, member, prepare, send
from tests.client.servers import BROKER, Servers, reader
from tests.support.processes.skyrocket_process import SkyrocketBroker, SkyrocketNameserver
from tests.support.waiting import WAIT_S_MAX


@asynccontextmanager
async def slow_member(
    servers: Servers, group: str, topic: str, pause_s: float, *, refuses: bool = False, consumer_limits: ConsumerLimits = QUICK
) -> AsyncIterator[str]:
    """Run a member that takes its time for each message, or refuses all of them."""
    consumer = Consumer(
        servers.nameserver,
        group=group,
        instance=servers.topic("member"),
        concurrency=1,
        close_timeout_ms=0,
        start="first",
        consumer_limits=consumer_limits,
    )

    @consumer.on(topic)
    async def handle(_message: Received) -> None:
        await asyncio.sleep(pause_s)
        if refuses:
            raise ValueError("not this one")

    async with consumer:
        yield consumer.client_id


@asynccontextmanager
async def producing(servers: Servers, topic: str, pause_s: float) -> AsyncIterator[None]:
    """Send messages all the time."""

    async def send_on(producer: Producer) -> None:
        while True:
            await producer.send(Message(topic, b"m"))
            await asyncio.sleep(pause_s)

    async with Producer(servers.nameserver) as producer:
        sending = asyncio.create_task(send_on(producer))
        yield
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)


async def test_a_member_that_is_slower_than_the_producers(servers: Servers):
    topic, group = await prepare(servers)
    await send(servers, topic, 30)
    async with slow_member(servers, group, topic, 0.2), producing(servers, topic, 0.01):
        found = await finding_of(servers.nameserver, "falling-behind", group=group, every_s=2)
    assert f"Group '{group}' falls behind in topic '{topic}'" in found.what
    assert "/s produced" in found.evidence
    assert found.advice == "Add members: there are 1 for 2 queues."


async def test_a_member_that_catches_up(ours: Servers):
    topic, group = await prepare(ours)
    await send(ours, topic, 200)
    async with slow_member(ours, group, topic, 0.05):
        found = await finding_of(ours.nameserver, "draining", group=group, every_s=2)
    assert f"Group '{group}' catches up in topic '{topic}'" in found.what


async def test_one_queue_has_most_of_the_backlog(ours: Servers):
    topic, group = await prepare(ours, queues=8)
    async with Producer(ours.nameserver) as producer:
        for _ in range(120):
            await producer.send(Message(topic, b"m"), queue=Queue(topic, BROKER, 5))
    async with member(ours, group, topic, hangs=True) as client_id:
        found = await finding_of(ours.nameserver, "skewed", group=group)
    assert f"{topic}" in found.what
    assert client_id in found.advice or "sharding key" in found.advice


async def test_messages_that_handlers_refuse_wait_for_their_retry(ours: Servers):
    topic, group = await prepare(ours)
    await send(ours, topic, 4)
    async with slow_member(ours, group, topic, 0.0, refuses=True):
        found = await finding_of(ours.nameserver, "retries-wait", group=group)
    assert f"%RETRY%{group}" in found.evidence


async def test_a_member_that_does_not_tell_its_queues(ours: Servers):
    topic, group = await prepare(ours)
    subscription = SubscriptionData(topic=topic, sub_string="*", sub_version=1)
    consumer = ConsumerData(group_name=group, subscription_data_set=[subscription])
    heartbeat = HeartbeatData(client_id="10.0.0.7@4711", consumer_data_set=[consumer])
    async with reader(ours) as read:
        await read.session.request_ok(await broker_address(read), RequestCode.HEART_BEAT, body=encode(heartbeat))
        found = await finding_of(ours.nameserver, "silent-member", group=group)
    assert "10.0.0.7@4711" in found.what


async def test_a_queue_that_no_member_reads(ours: Servers):
    """Queues are added to a topic: a member reads them once it has asked for the route again, half a minute later at most."""
    topic, group = await prepare(ours, queues=1)
    await send(ours, topic, 1)
    async with (
        slow_member(ours, group, topic, 0.0, consumer_limits=ConsumerLimits()),
        Admin(ours.nameserver) as admin,
        Producer(ours.nameserver) as producer,
    ):
        async with asyncio.timeout(WAIT_S_MAX):
            while (await admin.groups.progress(group)).lag:  # noqa: ASYNC110 — a broker sends no notification
                await asyncio.sleep(0.05)
        await admin.topics.create(topic, queues=4)
        await admin.offsets.set(group, {Queue(topic, BROKER, 3): 0})
        for _ in range(4):
            await producer.send(Message(topic, b"m"), queue=Queue(topic, BROKER, 3))
        found = await finding_of(ours.nameserver, "standing-queue", group=group)
    assert found.evidence == "4 messages in 1 queue without a member."


async def test_a_member_that_is_stuck(ours: Servers):
    topic, group = await prepare(ours, queues=1)
    await send(ours, topic, 4)
    async with member(ours, group, topic, hangs=True) as client_id:
        await finding_of(ours.nameserver, "halted-member", group=group, every_s=0.3)
        found = await finding_of(ours.nameserver, "stuck-member", group=group, every_s=10)
    assert client_id in found.what


async def test_a_tag_that_only_older_messages_may_have(servers: Servers):
    topic, group = await prepare(servers, queues=1)
    await send(servers, topic, 5, tag="rare")
    await send(servers, topic, 70, tag="paid")
    async with member(servers, group, topic, "rare") as client_id:
        found = await finding_of(servers.nameserver, "tag-not-seen", group=group)
    assert client_id in found.evidence


# --- brokers


@pytest.fixture
def nameserver(tmp_path: Path):
    with SkyrocketNameserver(tmp_path / "names") as names:
        yield names.nameserver


async def test_a_slave_whose_master_is_gone(nameserver: str, tmp_path: Path):
    both = {"brokerName": "pair", "brokerIP2": "127.0.0.1"}
    slave = {**both, "brokerRole": "SLAVE", "brokerId": 1}
    with (
        SkyrocketBroker(tmp_path / "master", nameserver, both) as master,
        SkyrocketBroker(tmp_path / "slave", nameserver, slave) as reading,
    ):
        master.kill()
        found = await finding_of(nameserver, "no-master")
        assert reading.address in found.evidence
    assert found.about == "broker pair"


def damage_log(home: Path) -> None:
    (log,) = home.rglob("commitlog")
    with min(path for path in log.iterdir() if path.name.isdigit()).open("r+b") as file:
        file.seek(10_000)
        file.write(b"damage")


async def test_a_log_that_scrubbing_has_found_damaged(nameserver: str, tmp_path: Path):
    settings = {"mappedFileSizeCommitLog": 64 * 1024, "scrubBytesPerSecond": 2**30}
    with SkyrocketBroker(tmp_path / "broker", nameserver, settings):
        async with Producer(nameserver) as producer:
            for _ in range(60):
                await producer.send(Message("orders", bytes(4_000)))
        damage_log(tmp_path)
        found = await finding_of(nameserver, "log-damaged", topic="orders")
    assert "damaged range" in found.evidence
