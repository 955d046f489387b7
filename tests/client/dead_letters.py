"""Make dead letters: a group that refuses every message at once."""

from __future__ import annotations

import asyncio
from collections import Counter

from skyrocket.client import Admin, Consumer, Message, NoRouteError, Producer, Received
from skyrocket.protocol.system_names import dead_letter_topic
from tests.client.consumer_support import QUICK
from tests.client.servers import Servers
from tests.support.waiting import WAIT_S_MAX, wait_until


def kill_messages(servers: Servers, count: int, topic: str = "", group: str = "") -> tuple[str, str]:
    """Send messages to a topic, and have a group refuse them at once. Returns topic and group when all are dead letters."""
    topic, group = topic or servers.topic("orders"), group or servers.topic("refusing")
    before = asyncio.run(count_letters(servers, group))

    async def run() -> None:
        async with Admin(servers.nameserver) as admin:
            await admin.topics.create(topic, queues=2)
        consumer = Consumer(servers.nameserver, group=group, start="first", retries_max=0, consumer_limits=QUICK)
        refused = Counter[bytes]()

        @consumer.on(topic)
        async def handle(message: Received) -> None:
            refused[message.body] += 1
            raise ValueError("no stock")

        async with Producer(servers.nameserver) as producer, consumer, asyncio.timeout(WAIT_S_MAX):
            for number in range(count):
                tag, why = ("paid", "no stock 1") if number % 2 else ("open", "no stock 2")
                properties = {"exception": why, "colour": "blå"}
                await producer.send(Message(topic, b"%d" % number, tag=tag, keys=[f"o-{number}"], properties=properties))
            while len(refused) < count:  # noqa: ASYNC110
                await asyncio.sleep(0.02)

    asyncio.run(run())
    wait_until(lambda: asyncio.run(count_letters(servers, group)) == before + count, "the messages are not dead")
    return topic, group


async def count_letters(servers: Servers, group: str) -> int:
    """Count the letters that can be read."""
    async with Admin(servers.nameserver) as admin:
        try:
            return len([one async for one in admin.messages.read(dead_letter_topic(group))])
        except NoRouteError:
            return 0
