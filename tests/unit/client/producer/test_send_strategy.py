"""The send strategy that a producer chooses at start, from its options."""

from __future__ import annotations

from typing import Any

import pytest

from skyrocket.client import ClientClosedError, Credentials, Message, Producer
from skyrocket.client.helpers import Tracing
from skyrocket.client.producer.batched_path import BatchedPath
from skyrocket.client.producer.fast_path import FastPath
from skyrocket.client.producer.general_path import GeneralPath
from skyrocket.client.producer.send_strategy import NotStarted, ScopedPath

NOWHERE = "127.0.0.1:1"  # no request is sent


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({}, FastPath),
        ({"compression": None, "retries": 0, "timeout_ms": 1}, FastPath),
        ({"linger_ms": 5}, BatchedPath),
        ({"linger_ms": 5, "namespace": "shop", "stamp": True}, BatchedPath),
        ({"namespace": "shop"}, GeneralPath),
        ({"stamp": True}, GeneralPath),
        ({"credentials": Credentials("key", "secret")}, GeneralPath),
        ({"avoid_slow_brokers": True}, GeneralPath),
        ({"attempt_timeout_ms": 100}, GeneralPath),
        ({"retry_unsafe": True}, GeneralPath),
    ],
    ids=str,
)
async def test_options_determine_the_strategy(options: dict[str, Any], kind: type):
    async with Producer(NOWHERE, **options) as producer:
        assert type(producer._strategy) is kind
        assert (producer._strategy.try_enqueue is not None) == (kind is BatchedPath)


@pytest.mark.parametrize(("options", "kind"), [({}, GeneralPath), ({"linger_ms": 5}, BatchedPath)], ids=str)
async def test_tracing_wraps_the_strategy(options: dict[str, Any], kind: type):
    async with Producer(NOWHERE, tracing=Tracing(), **options) as producer:
        strategy = producer._strategy
        assert isinstance(strategy, ScopedPath)
        assert type(strategy._strategy) is kind
        assert strategy.try_enqueue is None, "a message without a task would have no span"


async def test_producer_that_is_not_running_refuses_messages():
    producer = Producer(NOWHERE)
    for _ in range(2):
        assert type(producer._strategy) is NotStarted
        with pytest.raises(ClientClosedError, match="closed or was not started"):
            await producer.send(Message("orders", b"body"))
        await producer.start()
        await producer.close()
