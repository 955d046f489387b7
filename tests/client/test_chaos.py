"""Servers are killed and restarted under load while consumers join and leave: acknowledged messages arrive, in order.

`SKYROCKET_CHAOS_S` is the duration. `make chaos` runs a minute, which finds more than the few seconds of the test suite.
"""

from __future__ import annotations

import asyncio
import os
import random
import resource
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import NamedTuple

from skyrocket.client import Admin, ClientError, Consumer, Message, NoNameserverError, Producer, Queue, Received
from tests.client.consumer_support import QUICK, make_topic
from tests.client.servers import Servers, until
from tests.client.test_failures import mortal
from tests.support.processes.skyrocket_process import SkyrocketBroker, SkyrocketNameserver
from tests.support.waiting import WAIT_S_MAX

__all__ = ["mortal"]

LASTS_S = float(os.environ.get("SKYROCKET_CHAOS_S", "5"))
QUEUES = 4
LOAD_MIN = 100  # messages that are acknowledged meanwhile
GROWTH_MAX_KIB = 200 * 1024


class Victim(NamedTuple):
    """A server that is killed and restarted."""

    kill: Callable[[], None]
    start: Callable[[], None]


class Chaos:
    """Producers, consumers that come and go, and a task that kills servers."""

    def __init__(self, nameserver: str, topic: str, victims: Sequence[Victim]) -> None:
        self.nameserver = nameserver
        self.topic = topic
        self.victims = victims
        self.deaths = 0
        self.chance = random.Random(7)
        self.acknowledged: dict[Queue, list[int]] = defaultdict(list)
        self.seen: dict[Queue, dict[int, None]] = defaultdict(dict)  # each number once, in the order of first delivery
        self.until_s = 0.0

    @property
    def is_running(self) -> bool:
        """True for LASTS_S, and longer on a busy machine: until a server has died under some load on every queue."""
        now_s = asyncio.get_running_loop().time()
        is_enough = self.deaths > 0 and self.acknowledged_count > LOAD_MIN and len(self.acknowledged) == QUEUES
        return now_s < self.until_s or (not is_enough and now_s < self.until_s + WAIT_S_MAX)

    @property
    def acknowledged_count(self) -> int:
        return sum(map(len, self.acknowledged.values()))

    def member(self) -> Consumer:
        consumer = Consumer(
            self.nameserver, group=self.topic, start="first", orderly=True, close_timeout_ms=5_000, consumer_limits=QUICK
        )

        @consumer.on(self.topic)
        async def handle(message: Received) -> None:
            self.seen[message.queue].setdefault(int(message.body))

        return consumer

    async def open_producer(self, stack: AsyncExitStack, number: int) -> tuple[Producer, Queue]:
        """A producer and its queue. No server dies before all producers have theirs."""
        producer = await stack.enter_async_context(Producer(self.nameserver, timeout_ms=60_000, instance=f"p{number}"))
        return producer, (await producer.queues(self.topic))[number]

    async def produce(self, producer: Producer, queue: Queue) -> None:
        number = 0
        while self.is_running:
            try:
                await producer.send(Message(self.topic, b"%d" % number), queue=queue)
                self.acknowledged[queue].append(number)
            except ClientError:
                pass  # the message may be stored or not
            number += 1
            await asyncio.sleep(0.001)

    async def come_and_go(self) -> None:
        while self.is_running:
            try:
                async with self.member():
                    await asyncio.sleep(self.chance.uniform(0.3, 1.5))
            except NoNameserverError:
                pass  # both nameservers may be down
            await asyncio.sleep(self.chance.uniform(0.1, 0.5))

    async def kill(self) -> None:
        while self.is_running:
            await asyncio.sleep(self.chance.uniform(0.8, 2))
            victim = self.chance.choice(self.victims)
            await asyncio.to_thread(victim.kill)
            await asyncio.sleep(self.chance.uniform(0, 0.5))
            await asyncio.to_thread(victim.start)
            self.deaths += 1

    def all_arrived(self) -> bool:
        return all(self.seen[queue].keys() >= set(sent) for queue, sent in self.acknowledged.items())

    async def run(self) -> None:
        before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        async with self.member(), AsyncExitStack() as stack:
            producers = [await self.open_producer(stack, number) for number in range(QUEUES)]
            self.until_s = asyncio.get_running_loop().time() + LASTS_S
            await asyncio.gather(*(self.produce(*each) for each in producers), self.come_and_go(), self.kill())
            await until(self.all_arrived, "every acknowledged message arrives")
        count = self.acknowledged_count
        print(f"{count} messages were acknowledged while servers died {self.deaths} times")  # noqa: T201 — `make chaos` shows it
        assert count > LOAD_MIN
        for queue, seen in self.seen.items():
            promised = set(self.acknowledged[queue])
            in_order = [number for number in seen if number in promised]
            assert in_order == sorted(in_order), f"order of {queue}"
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib < GROWTH_MAX_KIB


async def test_acknowledged_messages_arrive_in_order_when_the_servers_die(mortal: Servers):
    """Our broker dies together with its nameserver."""
    chaos = Chaos(mortal.nameserver, mortal.topic("chaos"), [Victim(mortal.kill_broker, mortal.start_broker)])
    await make_topic(mortal, chaos.topic, QUEUES)
    await chaos.run()


async def test_acknowledged_messages_arrive_in_order_in_a_cluster_of_two_nameservers_and_two_brokers(tmp_path: Path):
    with SkyrocketNameserver(tmp_path / "one") as one, SkyrocketNameserver(tmp_path / "two") as two:
        names = f"{one.nameserver};{two.nameserver}"
        brokers = [SkyrocketBroker(tmp_path / name, names, {"brokerName": name}) for name in ("a", "b")]
        with brokers[0], brokers[1]:
            chaos = Chaos(names, "chaos", [Victim(each.kill, each.start) for each in (one, two, *brokers)])
            async with Admin(names) as admin:
                await admin.topics.create(chaos.topic, queues=QUEUES // 2)
            await chaos.run()
            assert {queue.broker_name for queue in chaos.acknowledged} == {"a", "b"}
