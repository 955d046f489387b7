"""Following the queues of a topic: order, errors that pass, errors that do not, queues that come later, and the end."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import aclosing

import pytest

from skyrocket.client import BrokerError, Queue, Received, UnreachableError
from skyrocket.client.admin import follow
from skyrocket.client.admin.follow import FollowStep, TopicFollower
from skyrocket.protocol.message.record import Record

Q0, Q1 = Queue("orders", "broker-a", 0), Queue("orders", "broker-a", 1)


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RETRY_S", "EMPTY_PAUSE_S", "NEW_QUEUES_S"):
        monkeypatch.setattr(follow, name, 0.001)


def message(queue: Queue, offset: int) -> Received:
    return Received(Record(topic=queue.topic, queue_id=queue.queue_id, queue_offset=offset, body=b"x"), broker_name="broker-a")


class Log:
    """Queues of a broker in memory."""

    def __init__(self, ends: Mapping[Queue, int]) -> None:
        self.ends = dict(ends)
        self.failures: list[Exception] = []
        self.pulls = 0

    async def pull(self, queue: Queue, offset: int) -> FollowStep:
        self.pulls += 1
        await asyncio.sleep(0)
        if self.failures:
            raise self.failures.pop(0)
        end = min(self.ends[queue], offset + 2)
        return FollowStep([message(queue, number) for number in range(offset, end)], max(offset, end))


async def take(follower: TopicFollower, begins: Mapping[Queue, int], count: int) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    async with asyncio.timeout(60), aclosing(follower.messages(begins)) as messages:
        async for one in messages:
            found.append((one.queue_id, one.queue_offset))
            if len(found) == count:
                break
    return found


async def test_messages_of_each_queue_come_in_order():
    found = await take(TopicFollower(Log({Q0: 5, Q1: 4}).pull, None), {Q0: 0, Q1: 1}, 8)
    assert [offset for queue, offset in found if queue == 0] == [0, 1, 2, 3, 4]
    assert [offset for queue, offset in found if queue == 1] == [1, 2, 3]


async def test_a_broker_that_does_not_answer_is_asked_again_and_nothing_is_lost():
    log = Log({Q0: 3})
    log.failures = [UnreachableError("gone"), UnreachableError("gone")]
    assert await take(TopicFollower(log.pull, None), {Q0: 0}, 3) == [(0, 0), (0, 1), (0, 2)]
    assert log.pulls >= 3


async def test_a_refusal_ends_it():
    log = Log({Q0: 0})
    log.failures = [BrokerError(16, "no permission", "127.0.0.1:10911")]
    with pytest.raises(BrokerError, match="no permission"):
        await take(TopicFollower(log.pull, None), {Q0: 0}, 1)


async def test_messages_that_come_later_arrive():
    log = Log({Q0: 0})
    taking = asyncio.ensure_future(take(TopicFollower(log.pull, None), {Q0: 0}, 1))
    while log.pulls < 3:  # noqa: ASYNC110
        await asyncio.sleep(0)
    assert not taking.done()
    log.ends[Q0] = 1
    assert await taking == [(0, 0)]


async def test_a_queue_that_the_topic_gets_later_is_followed_from_its_first_message():
    log = Log({Q0: 1, Q1: 2})
    looks = 0

    async def discover() -> Mapping[Queue, int]:
        nonlocal looks
        looks += 1
        if looks == 1:
            raise UnreachableError("no nameserver")
        return {Q0: 0, Q1: 0}

    found = await take(TopicFollower(log.pull, discover), {Q0: 1}, 2)
    assert found == [(1, 0), (1, 1)]  # queue 0 is followed from where it was


async def test_whoever_stops_leaves_no_task_behind():
    before = asyncio.all_tasks()
    await take(TopicFollower(Log({Q0: 5, Q1: 5}).pull, None), {Q0: 0, Q1: 0}, 1)
    assert asyncio.all_tasks() == before


async def test_a_slow_reader_bounds_what_is_read_ahead(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(follow, "BUFFERED_MESSAGES_MAX", 4)
    log = Log({Q0: 1_000})
    async with aclosing(TopicFollower(log.pull, None).messages({Q0: 0})) as messages:
        await anext(messages)
        for _ in range(100):
            await asyncio.sleep(0)
        assert log.pulls <= 5
