"""Handlers: the functions that users register for topics, and how one is called with what a worker has in hand.

    @consumer.on("user-registered")
    async def grant(message): ...              # in the event loop, several at a time

    @consumer.on("clicks", batch=100)
    def count(messages): ...                   # a plain function: in a thread, with as many as there are

A handler that returns has handled the message. One that raises gets it again later; `RetryLater` says when. An orderly consumer
that commits by hand answers with a `Verdict`.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from enum import Enum, auto
from typing import Any, NamedTuple

from skyrocket.client.errors import ClientError, ConfigurationError
from skyrocket.client.received import Received

BATCH_MAX = 1_024  # Java's bound


class Verdict(Enum):
    """What a handler may return beside None, which is DONE."""

    DONE = auto()
    LATER = auto()  # as if it had raised
    COMMIT = auto()  # orderly, by hand: this and everything before is done
    ROLLBACK = auto()  # orderly, by hand: everything since the last commit is to come again


class RetryLater(ClientError):  # noqa: N818 — raised to say what is wanted, not what went wrong
    """Raise it in a handler to get the message again.

    `delay_level`: 1 to 18 (1 s to 2 h); 0 leaves it to the broker, which waits longer each time; -1 makes it a dead letter.
    `suspend_ms`: of an orderly queue, how long to wait. `messages`: of a batch, those to get again; the others are done.
    """

    def __init__(
        self, why: str = "", *, delay_level: int = 0, suspend_ms: int | None = None, messages: list[Received] | None = None
    ) -> None:
        super().__init__(why or "The handler asked for it.")
        self.delay_level = delay_level
        self.suspend_ms = suspend_ms
        self.messages = messages


Handle = Callable[[Any], Awaitable[object] | object]
"""Given a message, or a list of them where it was registered with `batch`."""


class Handler(NamedTuple):
    handle: Handle
    batch: int  # 0: one message, not a list
    is_async: bool


class Failure(NamedTuple):
    """Messages whose handler failed, and with what."""

    messages: list[Received]
    error: Exception


def handler(handle: Handle, batch: int = 0) -> Handler:
    if not callable(handle):
        raise ConfigurationError(f"{handle!r} cannot be called, so it cannot handle messages.")
    if not 0 <= batch <= BATCH_MAX:
        raise ConfigurationError(f"A handler takes 1 to {BATCH_MAX} messages at once, not {batch}.")
    return Handler(handle, batch, inspect.iscoroutinefunction(handle) or inspect.iscoroutinefunction(type(handle).__call__))


def verdict_of(result: object) -> Verdict:
    """What a handler returned; anything but a verdict is how functions happen to end, and means that it is done."""
    return result if isinstance(result, Verdict) else Verdict.DONE
