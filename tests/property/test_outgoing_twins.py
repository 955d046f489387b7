"""The twins for outgoing messages check, count, add and complete the same as their references."""

from __future__ import annotations

from asyncio import Future, new_event_loop
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skyrocket.client.errors import InvalidMessageError
from skyrocket.client.message import Message, properties_without_id
from skyrocket.client.producer.open_batch import JoinLimits
from skyrocket.compiled import TWINS
from tests.support.twins import needs_twins

pytestmark = needs_twins
KINDS = ("reference", "compiled")


def made(name: str, kind: str) -> Callable[..., Any]:
    function: Callable[..., Any] = getattr(TWINS[name], kind)
    return function


# --- messages

fields = st.fixed_dictionaries(
    {
        "topic": st.sampled_from(["orders", "payments", "", " ", "a b", "x" * 128, "SCHEDULE_TOPIC_XXXX", 5, None]),
        "body": st.sampled_from([b"x", b"", bytearray(b"y"), memoryview(b"z"), "text", None]),
    },
    optional={
        "tag": st.sampled_from(["", "web", "grün", "a\x01b", "\ud800", 5, None]),
        "keys": st.sampled_from(["k", ["a", "b"], (), "", ["a b"], [""], [5]]),
        "properties": st.sampled_from([{}, {"a": "b"}, {"KEYS": "x"}, {"a": ""}, {"a": 5}]),
        "delay_level": st.sampled_from([0, 3, -1, "x"]),
        "deliver_in": st.sampled_from([None, timedelta(seconds=3)]),
        "deliver_at": st.sampled_from([None, datetime(2030, 1, 1, tzinfo=UTC), datetime(2030, 1, 1)]),  # noqa: DTZ001
        "sharding_key": st.sampled_from(["", "s", "a\x02b"]),
    },
)
PLAIN: dict[str, Any] = {"topic": "orders", "body": b"x"}


class Subclass(Message):
    """Not the class that the compiled twin knows."""


def unchecked(kind: type[Message], values: dict[str, Any]) -> Message:
    """A message that nobody has checked yet."""
    message = kind("orders", b"x")
    for name, value in values.items():
        setattr(message, name, value)
    return message


@given(several=st.lists(fields | st.just(PLAIN), min_size=1, max_size=4), kind=st.sampled_from([Message, Message, Subclass]))
@settings(max_examples=600)
def test_messages_are_checked_equally(several: list[dict[str, Any]], kind: type[Message]):
    for values in several:
        results: list[object] = []
        for way in KINDS:
            message = unchecked(kind, values)
            try:
                made("outgoing.check_message", way)(message)
            except (InvalidMessageError, TypeError) as error:
                results.append((type(error), str(error)))
            else:
                results.append(message)
        assert results[0] == results[1]


def test_message_without_a_field_is_refused_by_both():
    for way in KINDS:
        message = Message("orders", b"x")
        del message.tag
        with pytest.raises(AttributeError, match="tag"):
            made("outgoing.check_message", way)(message)


# --- the in-flight limit

steps = st.lists(st.tuples(st.sampled_from(["acquire", "release", "wait"]), st.integers(0, 120)), max_size=30)


@given(steps=steps, count_max=st.integers(1, 5), bytes_max=st.integers(1, 200))
def test_room_is_counted_equally(steps: list[tuple[str, int]], count_max: int, bytes_max: int):
    seen = []
    for way in KINDS:
        waiting: deque[object] = deque()
        count = made("outgoing.InFlightCount", way)(count_max, bytes_max, waiting)
        history = []
        for action, size in steps:
            if action == "wait":
                waiting.append(size) if size % 2 else waiting.clear()
                continue
            found = count.try_acquire(size) if action == "acquire" else count.add(-1, -size)
            history.append((found, count.count, count.size_bytes))
        seen.append(history)
    assert seen[0] == seen[1]


# --- the open batch

messages = st.builds(
    Message,
    st.sampled_from(["orders", "or" + "ders", "payments"]),
    st.binary(min_size=1, max_size=60),
    tag=st.sampled_from(["", "web", "grün"]),
    keys=st.sampled_from([(), "k"]),
    properties=st.sampled_from([{}, {"a": "b"}]),
    delay_level=st.sampled_from([0, 0, 0, 2]),
    deliver_in=st.just(None),
    sharding_key=st.sampled_from(["", "", "s"]),
    wait_until_stored=st.sampled_from([True, True, False]),
)


class Adding:
    """One kind of open batch, with a record of what it did."""

    def __init__(self, way: str, count_max: int, limits: JoinLimits) -> None:
        self.others: list[Message] = []
        self.futures = 0
        self.count = made("outgoing.InFlightCount", way)(count_max, 1_000, deque())
        self.batch = made("outgoing.Batch", way)("orders", 5.0)
        self.open = made("outgoing.BatchJoiner", way)(
            self.count, self.new_future, limits, Message, properties_without_id, self.place_other
        )

    def new_future(self) -> int:
        self.futures += 1
        return self.futures

    def place_other(self, message: Message) -> str:
        self.others.append(message)
        return "other"

    @property
    def state(self) -> tuple[object, ...]:
        batch = self.batch
        lists = (list(batch.messages), list(batch.properties), list(batch.futures))
        return batch.key, batch.due_ms, batch.size_bytes, lists, self.others, self.count.count, self.count.size_bytes


@given(
    given_messages=st.lists(messages, max_size=12),
    count_max=st.integers(1, 12),
    limits=st.builds(JoinLimits, st.sampled_from([50, 400, 4_000]), st.integers(0, 12), st.sampled_from([20, 60]), st.just(64)),
    opens_at=st.integers(0, 3),
)
@settings(max_examples=400)
def test_messages_join_the_open_batch_equally(given_messages: list[Message], count_max: int, limits: JoinLimits, opens_at: int):
    reference, compiled = (Adding(way, count_max, limits) for way in KINDS)
    for number, message in enumerate([*given_messages, SimpleNamespace(topic="orders")]):
        for adding in (reference, compiled):
            adding.open.batch = adding.batch if number >= opens_at else None
        assert reference.open.try_add(message) == compiled.open.try_add(message)
        assert reference.state == compiled.state


@given(cancelled=st.lists(st.booleans(), max_size=6))
def test_futures_get_their_receipts_unless_they_are_cancelled(cancelled: list[bool]):
    loop = new_event_loop()
    for way in KINDS:
        futures: list[Future[int]] = [Future(loop=loop) for _ in cancelled]
        for future, is_cancelled in zip(futures, cancelled, strict=True):
            if is_cancelled:
                future.cancel()
        made("outgoing.complete_futures", way)(futures, list(range(len(futures))))
        assert [None if future.cancelled() else future.result() for future in futures] == [
            None if is_cancelled else number for number, is_cancelled in enumerate(cancelled)
        ]
        with pytest.raises(ValueError, match=r"receipts|zip"):
            made("outgoing.complete_futures", way)(futures, [1] * (len(futures) + 1))
    loop.close()
