"""Transactions: commit, rollback and check-backs, against our broker and Apache's."""

from __future__ import annotations

import pytest

from skyrocket.client import InvalidMessageError, Message, Outcome, Received, TransactionProducer
from tests.client.servers import Servers, reader, until


def never(_: Received) -> Outcome:
    raise AssertionError("no check-back is expected")


async def test_committed_message_is_delivered_and_rolled_back_one_is_not(servers: Servers):
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


async def test_broker_checks_back_when_the_outcome_is_unknown(servers: Servers):
    topic = servers.topic("checked")
    checked: list[Received] = []

    async def check(message: Received) -> Outcome:
        checked.append(message)
        return Outcome.COMMIT if message.keys == ["paid"] else Outcome.ROLLBACK

    async with TransactionProducer(servers.nameserver, group=topic, check=check) as producer, reader(servers) as read:
        for key in ("unpaid", "paid"):
            await producer.transaction(Message(topic, key.encode(), keys=[key]), lambda *_: Outcome.UNKNOWN)
        found = await read.at_least(topic, 1)
        await until(lambda: {message.keys[0] for message in checked} == {"paid", "unpaid"}, "both are checked")
    assert [message.body for message in found] == [b"paid"]
    assert {message.topic for message in checked} == {topic}


async def test_later_producer_of_the_group_answers_check_backs(servers: Servers):
    """The producer that sent the message has left; another member of its group answers."""
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


async def test_check_that_raises_is_repeated(servers: Servers, caplog: pytest.LogCaptureFixture):
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


async def test_delayed_message_cannot_be_part_of_a_transaction():
    producer = TransactionProducer("127.0.0.1:9876", check=never)
    with pytest.raises(InvalidMessageError, match="delayed"):
        await producer.transaction(Message("t", b"m", delay_level=1), lambda *_: Outcome.COMMIT)
