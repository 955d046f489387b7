"""`LocalBroker`, which users start in their own tests: quick to start, a real broker, with a clock that tests can advance."""

from __future__ import annotations

import asyncio
import statistics
import time
from datetime import timedelta
from pathlib import Path

import pytest

from skyrocket.client import Consumer, Message, Outcome, Producer, TransactionProducer
from skyrocket.settings.errors import SettingsError
from skyrocket.store.errors import StoreError
from skyrocket.testing import Clock, LocalBroker, ThreadedBroker, sync

READY_MS_MAX = 200


async def test_it_is_ready_in_less_than_200_ms():
    """The median of several starts, in CPU time of this thread, so that other load on the machine does not count."""
    times_ms = []
    for _ in range(5):
        begun = time.thread_time()
        async with LocalBroker():
            times_ms.append(1000 * (time.thread_time() - begun))
    assert statistics.median(times_ms) < READY_MS_MAX


async def test_messages_returns_what_a_producer_sent():
    async with LocalBroker() as broker, Producer(broker.nameserver) as producer:
        await producer.send(Message("orders", b"one", tag="paid", keys=["o-1"]))
        await producer.send(Message("orders", b"two"))
        found = await broker.messages("orders")
        assert sorted(message.body for message in found) == [b"one", b"two"]
        assert {message.topic for message in found} == {"orders"}
        assert await broker.messages("no-such-topic") == []


async def test_messages_waits_for_a_number_of_messages():
    async with LocalBroker() as broker, Producer(broker.nameserver) as producer:
        waiting = asyncio.create_task(broker.messages("orders", at_least=2))
        await producer.send(Message("orders", b"one"))
        await producer.send(Message("orders", b"two"))
        assert len(await waiting) == 2
        with pytest.raises(TimeoutError, match=r"has 2 messages after 0\.01 s, not 3"):
            await broker.messages("orders", at_least=3, timeout_s=0.01)


async def test_create_topic_with_a_number_of_queues():
    async with LocalBroker() as broker:
        await broker.create_topic("orders", queues=3)
        async with Producer(broker.nameserver) as producer:
            assert len(await producer.queues("orders")) == 3


async def test_advance_delivers_delayed_and_timed_messages():
    async with LocalBroker() as broker, Producer(broker.nameserver) as producer:
        await producer.send(Message("orders", b"10 s", delay_level=3))
        await producer.send(Message("orders", b"1 h", deliver_in=timedelta(hours=1)))
        await broker.advance(5)
        assert await broker.messages("orders") == []
        await broker.advance(6)
        assert [message.body for message in await broker.messages("orders")] == [b"10 s"]
        await broker.advance(timedelta(hours=1))
        assert sorted(message.body for message in await broker.messages("orders")) == [b"1 h", b"10 s"]


async def test_advance_delivers_retries_and_then_a_dead_letter():
    calls: list[int] = []
    async with LocalBroker() as broker:
        consumer = Consumer(broker.nameserver, group="coupons", start="first", retries_max=1)

        @consumer.on("orders")
        async def fail(message) -> None:
            calls.append(message.reconsume_times)
            raise RuntimeError("not today")

        async with Producer(broker.nameserver) as producer:
            await producer.send(Message("orders", b"one"))
        async with consumer:
            await broker.messages("SCHEDULE_TOPIC_XXXX", at_least=1)  # sent back: it waits there for its delay
            assert calls == [0]
            await broker.advance(10)
            (dead,) = await broker.messages("%DLQ%coupons", at_least=1)
            assert calls == [0, 1]
            assert (dead.body, dead.topic) == (b"one", "orders")


async def test_advance_triggers_transaction_checks():
    async def unsure(*_: object) -> Outcome:
        return Outcome.UNKNOWN

    async def check(_: object) -> Outcome:
        return Outcome.COMMIT

    async with LocalBroker() as broker, TransactionProducer(broker.nameserver, group="pay", check=check) as producer:
        await producer.transaction(Message("paid", b"one"), unsure)
        assert await broker.messages("paid") == []
        await broker.advance(timedelta(minutes=1))
        assert [message.body for message in await broker.messages("paid", at_least=1)] == [b"one"]


async def test_settings_are_those_of_a_broker():
    async with LocalBroker({"messageDelayLevel": "1m 2m"}) as broker, Producer(broker.nameserver) as producer:
        await producer.send(Message("orders", b"one", delay_level=1))
        await broker.advance(59)
        assert await broker.messages("orders") == []
        await broker.advance(2)
        assert len(await broker.messages("orders")) == 1
    with pytest.raises(SettingsError, match="'nonsense' is not a setting of the broker"):
        LocalBroker({"nonsense": "1"})


async def test_files_stay_in_a_given_folder_and_temporary_ones_are_deleted(tmp_path: Path):
    temporary: list[Path] = []
    async with LocalBroker(folder=tmp_path) as broker, Producer(broker.nameserver) as producer:
        await producer.send(Message("orders", b"one"))
    async with LocalBroker(folder=tmp_path) as broker:
        assert [message.body for message in await broker.messages("orders")] == [b"one"]
        assert Path(broker.broker.settings().store_path).is_relative_to(tmp_path)
    async with LocalBroker() as broker:
        temporary.append(Path(broker.broker.settings().store_path))
        assert (temporary[0] / "checkpoint") in list(temporary[0].iterdir())
    assert not temporary[0].parent.exists()


async def test_a_folder_in_use_is_refused_and_nothing_is_left_running(tmp_path: Path):
    async with LocalBroker(folder=tmp_path):
        with pytest.raises(StoreError, match=r"lock|use"):
            await LocalBroker(folder=tmp_path).start()
    with sync.LocalBroker(folder=tmp_path), pytest.raises(StoreError):
        sync.LocalBroker(folder=tmp_path).start()


async def test_several_brokers_run_side_by_side():
    async with LocalBroker() as one, LocalBroker() as two, Producer(one.nameserver) as producer:
        await producer.send(Message("orders", b"one"))
        assert len(await one.messages("orders")) == 1
        assert await two.messages("orders") == []


def test_sync_broker_works_without_await():
    with sync.LocalBroker() as broker:
        broker.create_topic("orders", 1)

        async def send() -> None:
            async with Producer(broker.nameserver) as producer:
                await producer.send(Message("orders", b"later", delay_level=1))

        asyncio.run(send())
        assert broker.messages("orders") == []
        broker.advance(2)
        assert [message.body for message in broker.messages("orders", at_least=1)] == [b"later"]
    with pytest.raises(RuntimeError, match="not started"):
        broker.messages("orders")


async def test_threaded_broker_works_in_any_event_loop():
    with ThreadedBroker() as broker:
        async with Producer(broker.nameserver) as producer:
            await producer.send(Message("orders", b"later", delay_level=1))
        await broker.advance(2)
        assert len(await broker.messages("orders", at_least=1)) == 1


async def test_a_clock_cannot_go_back():
    async with LocalBroker() as broker:
        with pytest.raises(ValueError, match="not back"):
            await broker.advance(-1)
    clock = Clock()
    before_ms = clock()
    clock.advance(5_000)
    assert clock() >= before_ms + 5_000
