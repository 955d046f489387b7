"""Scenes that the doctor is called to: groups, topics and messages, and questions about them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from skyrocket.client import Admin, Consumer, Message, Producer, Received
from skyrocket.client.queues import Queue
from skyrocket.doctor.examination import Examination, examine_cluster
from skyrocket.doctor.finding import Diagnosis
from tests.client.consumer_support import QUICK
from tests.client.servers import BROKER, Servers
from tests.support.waiting import WAIT_S_MAX


async def examine(nameserver: str, *, group: str = "", topic: str = "", every_s: float = 0.0) -> Examination:
    async with Admin(nameserver) as admin:
        return await examine_cluster(admin, [group] if group else (), [topic] if topic else (), every_s=every_s)


async def finding_of(nameserver: str, rule: str, **asked: Any) -> Diagnosis:
    """Ask until the doctor finds it: members and brokers need a moment to tell each other. Return the finding."""
    async with asyncio.timeout(WAIT_S_MAX):
        while True:
            found = [one for one in (await examine(nameserver, **asked)).findings if one.rule == rule]
            if found:
                return found[0]
            await asyncio.sleep(0.1)


def rules_of(examined: Examination) -> list[str]:
    """Return the ids of findings about the cluster: what the machine of the tests is like does not matter."""
    return [one.rule for one in examined.findings if one.about != "this machine"]


async def prepare(servers: Servers, queues: int = 2) -> tuple[str, str]:
    """Create a topic and a group that has consumed nothing of it. Returns their names."""
    topic, group = servers.topic("ill"), servers.topic("patient")
    async with Admin(servers.nameserver) as admin:
        await admin.topics.create(topic, queues=queues)
        await admin.groups.create(group)
        await admin.offsets.set(group, {Queue(topic, BROKER, number): 0 for number in range(queues)})
    return topic, group


async def send(servers: Servers, topic: str, count: int, tag: str = "") -> None:
    """Send messages, and wait until the queues have them: Apache's broker dispatches a moment later."""
    async with Producer(servers.nameserver) as producer, Admin(servers.nameserver) as admin:
        before = (await admin.topics.status(topic)).messages
        for _ in range(count):
            await producer.send(Message(topic, b"m", tag=tag or None))
        async with asyncio.timeout(WAIT_S_MAX):
            while (await admin.topics.status(topic)).messages < before + count:  # noqa: ASYNC110
                await asyncio.sleep(0.02)


@asynccontextmanager
async def member(
    servers: Servers, group: str, topic: str, expression: Any = "*", *, broadcasting: bool = False, hangs: bool = False
) -> AsyncIterator[str]:
    """Run a member of a group, and yield its client id."""
    consumer = Consumer(
        servers.nameserver,
        group=group,
        start="first",
        consumer_limits=QUICK,
        instance=servers.topic("member"),
        broadcasting=broadcasting,
        close_timeout_ms=0,
    )
    released = asyncio.Event()

    @consumer.on(topic, expression)
    async def handle(_message: Received) -> None:
        if hangs:
            await released.wait()

    async with consumer:
        yield consumer.client_id
        released.set()


def texts_of(findings: Sequence[Diagnosis]) -> str:
    return "\n".join(str(one) for one in findings)
