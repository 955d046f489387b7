"""How offsets are committed at brokers: side by side, but for the first one of a topic."""

from __future__ import annotations

import asyncio

from skyrocket.client.consumer.offsets.offset_commit import BrokerOffsetStore
from skyrocket.client.errors import UnreachableError
from skyrocket.client.queues import Queue


class Offsets:
    """Notes how many commits were under way with each one, itself included."""

    def __init__(self) -> None:
        self.under_way: dict[str, int] = {}
        self.beside: list[int] = []
        self.failing: set[Queue] = set()

    async def commit(self, queue: Queue, _offset: int, *, timeout_ms: int | None = None) -> None:
        self.under_way[queue.topic] = self.under_way.get(queue.topic, 0) + 1
        await asyncio.sleep(0)
        self.beside.append(self.under_way[queue.topic])
        await asyncio.sleep(0)
        self.under_way[queue.topic] -= 1
        if queue in self.failing:
            raise UnreachableError("away")


def queues(topic: str) -> dict[Queue, int]:
    return {Queue(topic, "broker-a", number): 5 for number in range(3)}


async def test_the_first_commit_of_a_topic_travels_alone_and_all_later_ones_together():
    """Apache's broker acknowledges two first commits that come at once, and keeps one of them."""
    offsets = Offsets()
    store = BrokerOffsetStore(offsets)  # type: ignore[arg-type]
    assert sorted(await store.write(queues("a"))) == sorted(queues("a"))
    assert offsets.beside == [1, 2, 2]
    offsets.beside.clear()
    await store.write(queues("a"))
    assert offsets.beside == [3, 3, 3]
    offsets.beside.clear()
    await store.write(queues("b"))
    assert offsets.beside == [1, 2, 2]


async def test_a_queue_whose_commit_failed_is_not_reported_as_committed():
    offsets = Offsets()
    offsets.failing = {Queue("a", "broker-a", 0), Queue("a", "broker-a", 2)}
    assert await BrokerOffsetStore(offsets).write(queues("a")) == [Queue("a", "broker-a", 1)]  # type: ignore[arg-type]
