"""Message handlers: the functions that users register for topics, and the possible results of a call.

    @consumer.on("user-registered")
    async def grant(message): ...              # runs in the event loop, several calls at a time

    @consumer.on("clicks", batch=100)
    def count(messages): ...                   # a plain function: runs in a thread, with up to 100 messages

A handler that returns has consumed the message. If it raises, the message is delivered again later; `RetryLater` says when. A
handler of an orderly consumer with `auto_commit=False` returns a `Verdict`.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from enum import Enum, auto
from types import TracebackType
from typing import Any, NamedTuple

from skyrocket.client.errors import ClientError, ConfigurationError
from skyrocket.client.received import Received

BATCH_MAX = 1_024  # Apache's client has the same bound


class Verdict(Enum):
    """The return value of a handler. None, or any other value, means DONE."""

    DONE = auto()
    LATER = auto()  # deliver again later, as if the handler had raised
    COMMIT = auto()  # orderly with auto_commit=False: this message and all before it are consumed
    ROLLBACK = auto()  # orderly with auto_commit=False: deliver everything since the last commit again


class RetryLater(ClientError):  # noqa: N818 — a request of the handler, not a fault
    """Raise it in a handler to have the message delivered again.

    `delay_level`: 1 to 18 (1 s to 2 h). With 0 the broker chooses, longer with each retry. -1 makes the message a dead letter.
    `suspend_ms`: for an orderly consumer, how long the queue pauses. `messages`: the messages of a batch to deliver again; the
    others of the batch are consumed.
    """

    def __init__(
        self, why: str = "", *, delay_level: int = 0, suspend_ms: int | None = None, messages: list[Received] | None = None
    ) -> None:
        super().__init__(why or "The handler asked for a retry.")
        self.delay_level = delay_level
        self.suspend_ms = suspend_ms
        self.messages = messages


HandlerFunction = Callable[[Any], Awaitable[object] | object]
"""Takes one message, or a list of messages if it was registered with `batch`."""


class MessageHandler(NamedTuple):
    """A registered handler function."""

    function: HandlerFunction
    batch: int  # the most messages in one call; 0: one message, not in a list
    is_async: bool


class HandlerFailure(NamedTuple):
    """Messages that a handler failed to consume, and the exception it raised."""

    messages: list[Received]
    error: Exception


class CallResult:
    """The result of a call into a user's code: the returned value or the exception.

    As a context manager it stores the exception instead of raising it. The exception of a handler decides what happens to the
    message; it must not end the consumer's own task.
    """

    __slots__ = ("error", "value")

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.value: object = None

    def __enter__(self) -> CallResult:
        self.error = self.value = None
        return self

    def __exit__(self, _kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None) -> bool:
        if not isinstance(error, Exception):
            return False  # no exception, or the cancellation of this task, or the end of the process
        self.error = error
        return True


def make_handler(function: HandlerFunction, batch: int = 0) -> MessageHandler:
    """Check a handler function and find out whether it is async. Raises ConfigurationError."""
    if not callable(function):
        raise ConfigurationError(f"{function!r} is not callable. Register a function that takes a message.")
    if not 0 <= batch <= BATCH_MAX:
        raise ConfigurationError(f"A handler takes batches of 1 to {BATCH_MAX} messages, not {batch}.")
    is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)
    return MessageHandler(function, batch, is_async)


def verdict_of(value: object) -> Verdict:
    """Convert the value that a handler returned. Anything but a `Verdict` means DONE."""
    return value if isinstance(value, Verdict) else Verdict.DONE
