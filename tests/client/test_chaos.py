"""A broker killed and started again and again under load, with members that come and go: what was acknowledged arrives, in order.

`SKYROCKET_CHAOS_S` says for how long; a minute finds more than the few seconds that a test may take.
"""

from __future__ import annotations

import asyncio
import os
import random
import resource
from collections import defaultdict

from skyrocket.client import ClientError, Consumer, Message, NoNameserverError, Producer, Received
from tests.client.consuming import QUICK, make
from tests.client.playing import play
from tests.client.servers import Servers, until
from tests.client.test_failures import mortal

__all__ = ["mortal"]

LASTS_S = float(os.environ.get("SKYROCKET_CHAOS_S", "5"))
QUEUES = 4
GROWTH_MAX_KIB = 200 * 1024


class Chaos:
    def __init__(self, servers: Servers) -> None:
        self.servers = servers
        self.topic = servers.topic("chaos")
        self.chance = random.Random(7)
        self.acknowledged: dict[int, list[int]] = defaultdict(list)
        self.seen: dict[int, dict[int, None]] = defaultdict(dict)  # each number once, as it first came
        self.until_s = asyncio.get_running_loop().time() + LASTS_S

    @property
    def goes_on(self) -> bool:
        return asyncio.get_running_loop().time() < self.until_s

    def member(self) -> Consumer:
        consumer = Consumer(
            self.servers.nameserver, group=self.topic, start="first", orderly=True, close_timeout_ms=5_000, consumer_limits=QUICK
        )

        @consumer.on(self.topic)
        async def handle(message: Received) -> None:
            self.seen[message.queue_id].setdefault(int(message.body))

        return consumer

    async def produce(self, queue_id: int) -> None:
        number = 0
        async with Producer(self.servers.nameserver, timeout_ms=60_000, instance=f"p{queue_id}") as producer:
            queue = (await producer.queues(self.topic))[queue_id]
            while self.goes_on:
                try:
                    await producer.send(Message(self.topic, b"%d" % number), queue=queue)
                    self.acknowledged[queue_id].append(number)
                except ClientError:
                    pass  # nobody promised anything
                number += 1
                await asyncio.sleep(0.001)

    async def come_and_go(self) -> None:
        while self.goes_on:
            try:
                async with self.member():
                    await asyncio.sleep(self.chance.uniform(0.3, 1.5))
            except NoNameserverError:
                pass  # ours dies together with its broker
            await asyncio.sleep(self.chance.uniform(0.1, 0.5))

    async def kill(self) -> None:
        while self.goes_on:
            await asyncio.sleep(self.chance.uniform(0.8, 2))
            await asyncio.to_thread(self.servers.kill_broker)
            await asyncio.sleep(self.chance.uniform(0, 0.5))
            await asyncio.to_thread(self.servers.start_broker)

    def all_arrived(self) -> bool:
        return all(self.seen[queue].keys() >= set(sent) for queue, sent in self.acknowledged.items())


def test_acknowledged_messages_arrive_in_order_whatever_dies(mortal: Servers):
    async def scene() -> None:
        chaos = Chaos(mortal)
        await make(mortal, chaos.topic, QUEUES)
        before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        async with chaos.member():
            await asyncio.gather(*map(chaos.produce, range(QUEUES)), chaos.come_and_go(), chaos.kill())
            await until(chaos.all_arrived, "all that was acknowledged arrives")
        assert sum(map(len, chaos.acknowledged.values())) > 100
        for queue_id, seen in chaos.seen.items():
            promised = set(chaos.acknowledged[queue_id])
            in_order = [number for number in seen if number in promised]
            assert in_order == sorted(in_order), f"order of queue {queue_id}"
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib < GROWTH_MAX_KIB

    play(scene())
