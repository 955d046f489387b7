"""Send strategies: how `Producer.send` handles a message. A producer chooses one when it starts, from its options.

FastPath       the default: small messages to known queues, with the request written from a template
BatchedPath    with `linger_ms`: messages share requests
GeneralPath    everything else: signed requests, namespaces, sequence stamps, latency avoidance; the others fall back to it
ScopedPath     with `tracing` or `interceptors`: a scope around one of the above
NotStarted     before `start` and after `close`: raises ClientClosedError
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Self

from skyrocket.client.errors import ClientClosedError
from skyrocket.client.message import Message
from skyrocket.client.producer.queue_selection import QueueSelector
from skyrocket.client.queues import Queue
from skyrocket.client.receipt import Receipt

TryEnqueue = Callable[[Message], "asyncio.Future[Receipt] | None"]


class SendStrategy(ABC):
    """Sends one message and returns its receipt."""

    try_enqueue: TryEnqueue | None = None
    """Puts a message into an open batch without a task, and returns the future of its receipt. The call returns None when the
    message needs `send`. The attribute is None when the strategy has no batches."""

    @abstractmethod
    async def send(
        self, message: Message, queue: Queue | None, selector: QueueSelector | None, timeout_ms: int | None
    ) -> Receipt:
        """Send the message, and return when a broker has acknowledged it. `timeout_ms` None: the producer's default."""

    async def drain(self) -> None:
        """Wait until every message in a batch has been acknowledged or has failed."""
        return

    def close(self) -> None:
        """Stop timers."""
        return


class NotStarted(SendStrategy):
    """Refuses every message: the producer is closed or has not been started."""

    async def send(
        self, _message: Message, _queue: Queue | None, _selector: QueueSelector | None, _timeout_ms: int | None
    ) -> Receipt:
        raise not_started()


def not_started() -> ClientClosedError:
    return ClientClosedError("The producer is closed or was not started. Use `async with Producer(…)`, or await start() first.")


class SendScope:
    """A context around one send, from the call to its receipt. This one does nothing; `helpers.tracing` has one with a span, and
    `interceptors` one that calls interceptors.

    `messages` are the messages to send: the user's, or copies with a trace context in their properties.
    """

    __slots__ = ("messages",)

    def __init__(self, messages: Sequence[Message]) -> None:
        self.messages = messages

    @property
    def message(self) -> Message:
        return self.messages[0]

    def acknowledge(self, receipt: Receipt) -> Receipt:
        """Note the receipt, and return it."""
        return receipt

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        return None


OpenScope = Callable[[Sequence[Message]], AbstractContextManager[SendScope]]


class ScopedPath(SendStrategy):
    """Opens a scope around each send of another strategy."""

    def __init__(self, strategy: SendStrategy, open_scope: OpenScope) -> None:
        self._strategy = strategy
        self._open_scope = open_scope

    async def send(
        self, message: Message, queue: Queue | None, selector: QueueSelector | None, timeout_ms: int | None
    ) -> Receipt:
        with self._open_scope([message]) as scope:
            return scope.acknowledge(await self._strategy.send(scope.message, queue, selector, timeout_ms))

    async def drain(self) -> None:
        await self._strategy.drain()

    def close(self) -> None:
        self._strategy.close()
