"""Interceptors of producers and consumers: what they see, in which order, and that their errors lose no message."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from skyrocket.client import (
    ConfigurationError,
    Consumer,
    ConsumerInterceptor,
    InvalidMessageError,
    Message,
    Outcome,
    Producer,
    ProducerInterceptor,
    Receipt,
    Received,
    RetryLater,
    TransactionProducer,
    Verdict,
)
from skyrocket.client import sync as sync_client
from skyrocket.client.producer.fast_path import FastPath
from tests.client.consumer_support import QUICK, make_topic, numbered, send, take
from tests.client.servers import Servers, until


class Recording(ProducerInterceptor):
    def __init__(self, name: str, calls: list[tuple[Any, ...]]) -> None:
        self.name = name
        self.calls = calls

    def before_send(self, message: Message) -> Message:
        self.calls.append(("before", self.name, message.body))
        return msgspec.structs.replace(
            message, properties={**message.properties, "by": message.properties.get("by", "") + self.name}
        )

    def after_send(self, message: Message, receipt: Receipt | None, error: BaseException | None) -> None:
        self.calls.append(("after", self.name, message.properties["by"], None if receipt is None else receipt.message_id, error))


class Failing(ProducerInterceptor):
    def before_send(self, message: Message) -> Message:
        raise ValueError("before")

    def after_send(self, message: Message, receipt: Receipt | None, error: BaseException | None) -> None:
        raise ValueError("after")


async def test_interceptors_change_messages_in_order_and_see_the_receipt(ours: Servers):
    topic = ours.topic("intercepted")
    await make_topic(ours, topic, 1)
    calls: list[tuple[Any, ...]] = []
    async with Producer(ours.nameserver, interceptors=[Recording("a", calls), Recording("b", calls)]) as producer:
        receipt = await producer.send(Message(topic, b"0"))
        soon = await producer.send_soon(Message(topic, b"1"))
        batch = await producer.send_batch([Message(topic, b"2"), Message(topic, b"3")])
        await producer.send_oneway(Message(topic, b"4"))
    ids = [receipt.message_id, receipt.message_id, soon.message_id, soon.message_id, *[batch.message_id] * 4, None, None]
    assert calls[:4] == [
        ("before", "a", b"0"),
        ("before", "b", b"0"),
        ("after", "b", "ab", receipt.message_id, None),
        ("after", "a", "ab", receipt.message_id, None),
    ]
    assert [call[3] for call in calls if call[0] == "after"] == ids
    async with Consumer(ours.nameserver, group=topic, topics=topic, start="first", consumer_limits=QUICK) as consumer:
        found = await take(consumer, 5)
    assert {(message.body, message.properties["by"]) for message in found} == {(body, "ab") for body in numbered(5)}


async def test_interceptor_sees_the_error_of_a_send(ours: Servers):
    calls: list[tuple[Any, ...]] = []
    async with Producer(ours.nameserver, body_bytes_max=10, interceptors=[Recording("a", calls)]) as producer:
        with pytest.raises(InvalidMessageError) as caught:
            await producer.send(Message("orders", b"larger than ten bytes"))
    assert calls[-1] == ("after", "a", "a", None, caught.value)


async def test_errors_of_interceptors_are_logged_and_the_message_is_sent(ours: Servers, caplog: pytest.LogCaptureFixture):
    topic = ours.topic("failing-interceptor")
    await make_topic(ours, topic, 1)
    calls: list[tuple[Any, ...]] = []
    async with Producer(ours.nameserver, interceptors=[Failing(), Recording("a", calls)]) as producer:
        receipt = await producer.send(Message(topic, b"0"))
    assert receipt.is_safe
    assert calls[-1][:4] == ("after", "a", "a", receipt.message_id)
    assert [record.getMessage() for record in caplog.records if "interceptor" in record.getMessage()] == [
        "The interceptor Failing.before_send failed. The message goes on without it.",
        "The interceptor Failing.after_send failed. The message goes on without it.",
    ]


async def test_interceptor_that_returns_no_message_changes_nothing(ours: Servers, caplog: pytest.LogCaptureFixture):
    class Wrong(ProducerInterceptor):
        def before_send(self, message: Message) -> Message:
            return Message("elsewhere", message.body)

    topic = ours.topic("wrong-interceptor")
    async with Producer(ours.nameserver, interceptors=[Wrong()]) as producer:
        receipt = await producer.send(Message(topic, b"0"))
    assert receipt.queue.topic == topic
    assert "must return a Message to the same topic" in caplog.text


async def test_half_messages_are_intercepted(ours: Servers):
    topic = ours.topic("intercepted-half")
    calls: list[tuple[Any, ...]] = []
    async with TransactionProducer(
        ours.nameserver, group=topic, check=lambda _: Outcome.COMMIT, interceptors=[Recording("a", calls)]
    ) as producer:
        result = await producer.transaction(Message(topic, b"0"), lambda _message, _id: Outcome.COMMIT)
    assert calls == [("before", "a", b"0"), ("after", "a", "a", result.receipt.message_id, None)]


async def test_a_producer_without_interceptors_keeps_its_fast_path(ours: Servers):
    async with Producer(ours.nameserver) as producer:
        assert isinstance(producer._strategy, FastPath)


def test_sync_producers_have_interceptors_too(ours: Servers):
    calls: list[tuple[Any, ...]] = []
    with sync_client.Producer(ours.nameserver, interceptors=[Recording("a", calls)]) as producer:
        receipt = producer.send(Message(ours.topic("intercepted-sync"), b"0"))
    assert calls[-1] == ("after", "a", "a", receipt.message_id, None)


# --- consumers


class Watching(ConsumerInterceptor):
    def __init__(self, name: str, calls: list[tuple[Any, ...]]) -> None:
        self.name = name
        self.calls = calls

    def before_consume(self, messages: Sequence[Received]) -> None:
        self.calls.append(("before", self.name, [message.body for message in messages]))

    def after_consume(self, messages: Sequence[Received], verdict: Verdict, error: Exception | None) -> None:
        self.calls.append(("after", self.name, [message.body for message in messages], verdict, repr(error)))


class Broken(ConsumerInterceptor):
    def before_consume(self, messages: Sequence[Received]) -> None:
        raise ValueError("before")

    def after_consume(self, messages: Sequence[Received], verdict: Verdict, error: Exception | None) -> None:
        raise ValueError("after")


@pytest.mark.parametrize("in_thread", [False, True], ids=["async", "thread"])
async def test_consumer_interceptors_see_each_call_and_its_result(ours: Servers, in_thread: bool):
    topic = ours.topic("watched")
    await make_topic(ours, topic, 1)
    await send(ours, topic, numbered(2))
    calls: list[tuple[Any, ...]] = []
    interceptors = [Watching("a", calls), Broken(), Watching("b", calls)]
    consumer = Consumer(
        ours.nameserver, group=topic, start="first", consumer_limits=QUICK, concurrency=1, interceptors=interceptors
    )

    def act(message: Received) -> None:
        if message.body == b"1":
            raise RetryLater("later", delay_level=18)

    async def act_async(message: Received) -> None:
        act(message)

    consumer.on(topic)(act if in_thread else act_async)
    running = asyncio.create_task(consumer.run(handle_signals=False))
    await until(lambda: len(calls) == 8, "both messages are handled")
    consumer.stop()
    await running
    assert calls == [
        ("before", "a", [b"0"]),
        ("before", "b", [b"0"]),
        ("after", "b", [b"0"], Verdict.DONE, "None"),
        ("after", "a", [b"0"], Verdict.DONE, "None"),
        ("before", "a", [b"1"]),
        ("before", "b", [b"1"]),
        ("after", "b", [b"1"], Verdict.LATER, "RetryLater('later')"),
        ("after", "a", [b"1"], Verdict.LATER, "RetryLater('later')"),
    ]


async def test_interceptors_of_a_loop_are_refused(ours: Servers):
    consumer = Consumer(ours.nameserver, group="loops", topics="t", interceptors=[ConsumerInterceptor()])
    with pytest.raises(ConfigurationError, match="are called around handlers, and this consumer has none"):
        await consumer.start()
