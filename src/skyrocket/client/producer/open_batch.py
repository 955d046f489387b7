"""The open batch: adds a message to the batch that the last one joined, as nearly every message of a busy producer does.

A call, an attribute or an object more for each message would be measurable, so both classes and `complete_futures` have compiled
twins.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar

from skyrocket.client.message import Message
from skyrocket.client.receipt import Receipt
from skyrocket.client.session.in_flight_limit import InFlightLimit
from skyrocket.compiled import twin

K = TypeVar("K", bound=Hashable)

ENTRY_BYTES: Final = 64  # roughly what a message adds to a batch beside its body and its properties: its id, and lengths

TryAdd = Callable[[Message], "Future[Receipt] | None"]


class Batch(Generic[K]):
    """Messages, their properties without the id, and the futures of their receipts: three parallel lists, because an object for
    each message would cost more."""

    __slots__ = ("due_ms", "futures", "key", "messages", "properties", "size_bytes")

    def __init__(self, key: K, due_ms: float) -> None:
        self.key = key
        self.due_ms = due_ms
        self.size_bytes = 0
        self.messages: list[Message] = []
        self.properties: list[str] = []
        self.futures: list[Future[Receipt]] = []


new_batch = twin("outgoing", Batch)


class JoinLimits(NamedTuple):
    """How large a batch may be that stays open for another message."""

    size_bytes: int
    messages: int
    body_bytes: int  # of one message
    entry_bytes: int = ENTRY_BYTES


class _BatchJoiner:
    """Adds messages to `batch`, the one that received the last message. `place_other` gets every message that cannot join it."""

    __slots__ = ("_encode_properties", "_in_flight", "_kind", "_limits", "_new_future", "_place_other", "batch")

    def __init__(
        self,
        in_flight: InFlightLimit,
        new_future: Callable[[], Future[Receipt]],
        limits: JoinLimits,
        kind: type[Message],
        encode_properties: Callable[[Message], str],
        place_other: TryAdd,
    ) -> None:
        self.batch: Batch[Any] | None = None
        self._in_flight = in_flight
        self._new_future = new_future
        self._limits = limits
        self._kind = kind
        self._encode_properties = encode_properties
        self._place_other = place_other

    def try_add(self, message: Message) -> Future[Receipt] | None:
        """Add a message, and return the future of its receipt. Return None when the in-flight limit is reached, or when
        `place_other` does."""
        batch, limits = self.batch, self._limits
        if (
            batch is None
            or message.__class__ is not self._kind
            or message.topic != batch.key
            or not message.wait_until_stored
            or message.sharding_key
            or message.is_delayed
        ):
            return self._place_other(message)
        body_bytes, properties = len(message.body), self._encode_properties(message)
        own_bytes = body_bytes + len(properties) + limits.entry_bytes
        size_bytes = batch.size_bytes + own_bytes
        if size_bytes > limits.size_bytes or len(batch.messages) > limits.messages:
            return self._place_other(message)
        if body_bytes > limits.body_bytes or not self._in_flight.try_acquire(own_bytes):
            return None
        future = self._new_future()
        batch.size_bytes = size_bytes
        batch.messages.append(message)
        batch.properties.append(properties)
        batch.futures.append(future)
        return future


if TYPE_CHECKING:
    BatchJoiner = _BatchJoiner
else:
    BatchJoiner = twin("outgoing", _BatchJoiner)


def _complete_futures(futures: list[Future[Receipt]], receipts: list[Receipt]) -> None:
    """Set the receipt of each message whose future nobody has cancelled."""
    for future, receipt in zip(futures, receipts, strict=True):
        if not future.done():
            future.set_result(receipt)


complete_futures = twin("outgoing", _complete_futures)
