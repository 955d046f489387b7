"""What a consumer got, and what must hold of it: everything acknowledged, in order per queue.

A message may come twice, and may then go back: delivery is at least once. So the order is that of the first deliveries.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping

from skyrocket.client import Consumer, ConsumerLimits, Received
from tests.support.waiting import wait_until

# A consumer that looks for the new master soon, and locks its queues there.
QUICK = ConsumerLimits(
    after_failure_ms=200, when_not_locked_ms=200, rebalance_ms=1_000, rebalance_again_ms=200, tick_ms=200, commit_ms=500
)


class Consumption:
    def __init__(self, name: str) -> None:
        self._name = name
        self.bodies: set[bytes] = set()
        self._ends: dict[int, int] = {}  # the highest offset of each queue
        self._mistakes: list[str] = []
        self.repeated = 0

    def add(self, body: bytes, queue_id: int, offset: int) -> None:
        end = self._ends.get(queue_id, -1)
        if body in self.bodies:
            self.repeated += 1
        elif offset <= end:
            self._mistakes.append(f"{body!r} of queue {queue_id} at {offset} came after {end}")
        self.bodies.add(body)
        self._ends[queue_id] = max(end, offset)

    def check(self, acknowledged: Mapping[bytes, object]) -> None:
        """Wait until everything acknowledged was consumed. Nothing has come out of order."""

        def describe() -> str:
            lost = [body for body in acknowledged if body not in self.bodies]
            return f"{self._name} misses {len(lost)} of {len(acknowledged)}: {lost[:5]}"

        wait_until(lambda: acknowledged.keys() <= self.bodies, describe, every_s=0.2)
        assert self._mistakes == [], f"{self._name} got messages out of order: {self._mistakes[:5]}"


class OrderlyConsumer:
    """A consumer of our client, in a thread."""

    def __init__(self, nameserver: str, topic: str) -> None:
        self.consumed = Consumption("our consumer")
        self._loop = asyncio.new_event_loop()
        self._ended = asyncio.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._run(nameserver, topic),))
        self._thread.start()

    def __enter__(self) -> OrderlyConsumer:
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join()
        self._loop.close()

    async def _run(self, nameserver: str, topic: str) -> None:
        consumer = Consumer(nameserver, group="our-consumers", start="first", orderly=True, consumer_limits=QUICK)

        @consumer.on(topic)
        async def take(message: Received) -> None:
            self.consumed.add(message.body, message.record.queue_id, message.record.queue_offset)

        async with consumer:
            await self._ended.wait()
