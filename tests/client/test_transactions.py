"""Transactions: what is committed is seen, what is rolled back is not, and a broker that does not know asks."""

from __future__ import annotations

import pytest

from skyrocket.client import InvalidMessageError, Message, Outcome, Received, TransactionProducer
from tests.client.servers import Servers, reader, until


def never(_: Received) -> Outcome:
    raise AssertionError("nobody should have to ask")


async def test_a_committed_message_is_seen_and_a_rolled_back_one_is_not(servers: Servers):
    topic = servers.topic("decided")
    async with TransactionProducer(servers.nameserver, group=topic, check=never) as producer, reader(servers) as read:
        done: list[str] = []

        async def commit(message: Message, transaction_id: str) -> Outcome:
            done.append(transaction_id)
            return Outcome.COMMIT

        back = await producer.transaction(Message(topic, b"rolled back"), lambda *_: Outcome.ROLLBACK)
        kept = await producer.transaction(Message(topic, b"committed", keys=["k"]), commit)
        found = await read.at_least(topic, 1)
    assert [(message.body, message.message_id) for message in found] == [(b"committed", kept.receipt.message_id)]
    assert done == [kept.receipt.message_id]
    assert (back.outcome, kept.outcome) == (Outcome.ROLLBACK, Outcome.COMMIT)


async def test_a_broker_asks_about_what_it_was_not_told(servers: Servers):
    topic = servers.topic("asked")
    asked: list[Received] = []

    async def check(message: Received) -> Outcome:
        asked.append(message)
        return Outcome.COMMIT if message.keys == ["paid"] else Outcome.ROLLBACK

    async with TransactionProducer(servers.nameserver, group=topic, check=check) as producer, reader(servers) as read:
        for key in ("unpaid", "paid"):
            await producer.transaction(Message(topic, key.encode(), keys=[key]), lambda *_: Outcome.UNKNOWN)
        found = await read.at_least(topic, 1)
        await until(lambda: {message.keys[0] for message in asked} == {"paid", "unpaid"}, "both are asked about")
    assert [message.body for message in found] == [b"paid"]
    assert {message.topic for message in asked} == {topic}


async def test_a_producer_that_starts_later_is_asked_too(servers: Servers):
    """The one that sent the message is gone: any other of its group knows the answer."""
    topic = servers.topic("orphan")
    async with TransactionProducer(servers.nameserver, group=topic, check=never) as gone:
        with pytest.raises(ZeroDivisionError):
            await gone.transaction(Message(topic, b"orphan"), lambda *_: 1 // 0)
    check = lambda _: Outcome.COMMIT  # noqa: E731
    async with TransactionProducer(servers.nameserver, group=topic, check=check) as heir, reader(servers) as read:
        await heir.queues(topic)
        await heir._session.send_heartbeats()
        (found,) = await read.at_least(topic, 1)
    assert found.body == b"orphan"


async def test_a_check_that_raises_is_asked_again(servers: Servers, caplog: pytest.LogCaptureFixture):
    topic = servers.topic("again")
    times: list[int] = []

    def check(_: Received) -> Outcome:
        times.append(1)
        if len(times) == 1:
            raise ConnectionError("the database is away")
        return Outcome.COMMIT

    async with TransactionProducer(servers.nameserver, group=topic, check=check) as producer, reader(servers) as read:
        await producer.transaction(Message(topic, b"m"), lambda *_: Outcome.UNKNOWN)
        await read.at_least(topic, 1)
    assert len(times) >= 2
    assert "the broker will check back again" in caplog.text


async def test_a_delayed_message_cannot_be_part_of_one():
    producer = TransactionProducer("127.0.0.1:9876", check=never)
    with pytest.raises(InvalidMessageError, match="delayed"):
        await producer.transaction(Message("t", b"m", delay_level=1), lambda *_: Outcome.COMMIT)
