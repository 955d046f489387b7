"""Workers of the dispatcher end when no queue is ready, and no batch waits because of that."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, NamedTuple

import pytest

from skyrocket.client.consumer.assigned_queue import AssignedQueue
from skyrocket.client.consumer.dispatch.completion import Completion
from skyrocket.client.consumer.dispatch.dispatcher import Dispatcher
from skyrocket.client.consumer.dispatch.work_batch import WorkBatch
from skyrocket.client.consumer.limits import ConsumerLimits
from skyrocket.client.consumer.subscription import make_subscription
from skyrocket.client.queues import Queue


class Pulled(NamedTuple):
    queue_offset: int
    size_bytes: int = 1
    topic: str = "orders"


class Runner:
    """Handles batches without handlers: takes their messages, waits if it is told to, and may fail."""

    uses_threads = False

    def __init__(self) -> None:
        self.handled: list[int] = []
        self.fails_at: int | None = None
        self.waits = False
        self.on_batch = lambda: None

    async def run(self, batch: WorkBatch) -> None:
        while (message := batch.take_next()) is not None:
            if message.queue_offset == self.fails_at:
                raise RuntimeError("a fault of the client itself")
            if self.waits:
                await asyncio.sleep(0)
            self.handled.append(message.queue_offset)
            batch.done.append(message)
        self.on_batch()


class Scene:
    def __init__(self, concurrency: int = 1) -> None:
        self.runner = Runner()
        redelivery: Any = None
        completion = Completion(
            redelivery, ConsumerLimits(), lambda: 0, broadcasting=False, retries_max=None, on_ready=self._add_ready
        )
        runner: Any = self.runner
        self.dispatcher = Dispatcher(
            completion, runner, lambda: 0, concurrency=concurrency, handler_batch_max=0, is_paused=lambda _: False
        )
        queue = Queue("orders", "broker-a", 0)
        self.assigned = AssignedQueue(queue, make_subscription("orders", "*", 0), 0, 0, ConsumerLimits())

    def _add_ready(self, assigned: AssignedQueue) -> None:
        self.dispatcher.add_ready(assigned)

    def pull(self, count: int) -> None:
        """Add messages as a pull does."""
        process_queue = self.assigned.process_queue
        first = process_queue.next_offset
        messages: Any = [Pulled(first + number) for number in range(count)]
        process_queue.add(messages, first + count)
        self.dispatcher.add_ready(self.assigned)

    async def settle(self) -> None:
        assert await self.dispatcher.drain(5_000)


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("concurrency", [1, 20])
async def test_messages_that_arrive_while_a_worker_ends_are_handled(concurrency: int, waits: bool):
    scene = Scene(concurrency)
    scene.runner.waits = waits
    left = [32, 100, 1]

    def pull_more() -> None:
        if left:
            scene.pull(left.pop())

    scene.runner.on_batch = pull_more
    scene.pull(32)
    await scene.settle()
    assert sorted(scene.runner.handled) == list(range(165))
    assert scene.assigned.process_queue.commit_offset == 165
    assert scene.assigned.batches_in_progress == 0


async def test_worker_that_fails_is_logged_and_the_next_batch_is_handled(caplog: pytest.LogCaptureFixture):
    scene = Scene()
    scene.runner.fails_at = 2
    with caplog.at_level(logging.ERROR):
        scene.pull(4)
        scene.pull(100)
        await scene.settle()
    assert "A worker failed" in caplog.text
    assert "a fault of the client itself" in caplog.text
    assert scene.assigned.process_queue.commit_offset == 2  # the message that it failed at is not finished
    assert set(range(104)) - set(scene.runner.handled) == {2}


async def test_worker_that_is_cancelled_before_its_first_step_is_forgotten():
    scene = Scene()
    scene.pull(4)
    scene.dispatcher.close()
    assert await scene.dispatcher.abandon() == 2  # a batch, and its worker
    assert await scene.dispatcher.drain(100)
