"""Helpers for tests with consumers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from skyrocket.client import Consumer, ConsumerLimits, Message, Producer, Received
from skyrocket.protocol.headers import CreateTopicRequestHeader
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.system_names import DEFAULT_TOPIC
from tests.client.servers import Reader, Servers, reader
from tests.support.waiting import WAIT_S_MAX

QUICK = ConsumerLimits(
    rebalance_again_ms=100,
    commit_ms=200,
    after_failure_ms=200,
    when_not_locked_ms=200,
    suspend_ms=100,
    lock_renew_ms=1_000,
    pull_hold_ms=1_000,
)


async def make_topic(servers: Servers, topic: str, queues: int, perm: int = 6) -> None:
    """Create a topic, and wait until the nameserver has its route."""
    header = CreateTopicRequestHeader(
        topic=topic,
        default_topic=DEFAULT_TOPIC,
        read_queue_nums=queues,
        write_queue_nums=queues,
        perm=perm,
        topic_filter_type="SINGLE_TAG",
        topic_sys_flag=0,
        order=False,
    )
    async with reader(servers) as read, asyncio.timeout(WAIT_S_MAX):
        await read.session.request_ok(await broker_address(read), RequestCode.UPDATE_AND_CREATE_TOPIC, header)
        while await read.session.route(topic) is None:  # noqa: ASYNC110 — a nameserver sends no notification
            await asyncio.sleep(0.02)


async def broker_address(read: Reader) -> str:
    """Return the address of the broker."""
    route = await read.session.route(DEFAULT_TOPIC)
    assert route is not None
    address = read.session.routes.any_address(route.brokers[0])
    assert address is not None
    return address


async def send(servers: Servers, topic: str, bodies: Iterable[bytes], **options: Any) -> None:
    async with Producer(servers.nameserver) as producer:
        for body in bodies:
            await producer.send(Message(topic, body, **options))


def numbered(count: int, since: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(since, count)]


def numbers(messages: Iterable[Received]) -> list[int]:
    return [int(message.body) for message in messages]


async def take(consumer: Consumer, count: int) -> list[Received]:
    """Take the next `count` messages."""
    found: list[Received] = []
    async with asyncio.timeout(WAIT_S_MAX):
        async for message in consumer:
            found.append(message)
            if len(found) == count:
                break
    return found
