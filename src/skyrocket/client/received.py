"""A message as a consumer receives it. Properties are decoded, and a body decompressed, on first access.

`Received` wraps a decoded record. `PulledMessage` comes from a pull and decodes the rest of its record on first access: most
handlers use the body and a property or two, and decoding every field would double the cost of receiving.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from skyrocket.client.queues import Queue
from skyrocket.compiled import twin
from skyrocket.protocol.errors import RecordError
from skyrocket.protocol.hosts import host_text
from skyrocket.protocol.message.compression import plain_body
from skyrocket.protocol.message.message_id import encode_offset_id
from skyrocket.protocol.message.properties import (
    KEY_SEPARATOR,
    KEYS,
    SHARDING_KEY,
    TAGS,
    UNIQUE_KEY,
    decode_properties,
)
from skyrocket.protocol.message.record import (
    Record,
    RecordTuple,
    decode_record,
    fixed_bytes_of,
    magic_for,
    split_same_topic,
    topic_field,
)


class Arrival(NamedTuple):
    """What the messages of one pull have in common. One object serves all of them, so it costs a message nothing."""

    at_ms: int  # when this client received them, in ms since 1970; 0: unknown
    queue_end: int = 0  # the offset that the queue's next message was to get; 0: unknown


_UNKNOWN_ARRIVAL: Final = Arrival(0)


class Received:
    """A received message. Its attributes cover what handlers need; `record` has every field as it was stored.

    `topic` is the user's topic: without namespace, and the original topic when the message came through a retry topic.
    """

    __slots__ = ("_arrival", "_body", "_properties", "broker_name", "record", "topic")

    record: Record

    def __init__(
        self,
        record: Record,
        *,
        broker_name: str = "",
        topic: str = "",
        arrived_ms: int = 0,
        properties: dict[str, str] | None = None,
    ) -> None:
        self.record = record
        self.broker_name = broker_name
        self.topic = topic or record.topic
        self._arrival = Arrival(arrived_ms) if arrived_ms else _UNKNOWN_ARRIVAL
        self._properties = properties
        self._body: bytes | None = None

    # --- content

    @property
    def body(self) -> bytes:
        """The body as its producer passed it. Raises CompressionError when a compressed body is damaged."""
        if self._body is None:
            self._body = plain_body(self.record)
        return self._body

    @property
    def properties(self) -> dict[str, str]:
        """All properties, including those of the system."""
        if self._properties is None:
            self._properties = decode_properties(self.record.properties)
        return self._properties

    @property
    def tag(self) -> str:
        return self.properties.get(TAGS, "")

    @property
    def keys(self) -> list[str]:
        return self.properties.get(KEYS, "").split(KEY_SEPARATOR) if KEYS in self.properties else []

    @property
    def sharding_key(self) -> str:
        return self.properties.get(SHARDING_KEY, "")

    @property
    def flag(self) -> int:
        return self.record.flag

    # --- identity

    @property
    def message_id(self) -> str:
        """The producer's unique id, equal for all attempts and deliveries of one send. Without one, the offset id."""
        return self.properties.get(UNIQUE_KEY) or self.offset_id

    @property
    def offset_id(self) -> str:
        """The position of this copy: the broker, and the offset in its commit log."""
        return encode_offset_id(self.record.store_host, self.record.physical_offset)

    @property
    def queue(self) -> Queue:
        """The queue from which the message was read; after a retry, a queue of the retry topic."""
        return Queue(self.record.topic, self.broker_name, self.record.queue_id)

    @property
    def queue_id(self) -> int:
        return self.record.queue_id

    @property
    def queue_offset(self) -> int:
        return self.record.queue_offset

    @property
    def size_bytes(self) -> int:
        """The size of the body as it was sent, compressed or not."""
        return len(self.record.body)

    @property
    def reconsume_times(self) -> int:
        """How often the message was delivered before and failed."""
        return self.record.reconsume_times

    @property
    def transaction_id(self) -> str:
        return self.properties.get(UNIQUE_KEY, "")

    # --- times and hosts

    @property
    def arrived_ms(self) -> int:
        """When this client received the message, in milliseconds since 1970; 0: unknown."""
        return self._arrival.at_ms

    @property
    def behind(self) -> int:
        """How many messages its queue had after this one when it was pulled; 0 for the newest.

        The count includes messages that a filter leaves out. It is 0 for a message that did not come from a pull.
        """
        return max(0, self._arrival.queue_end - self.queue_offset - 1)

    @property
    def born_ms(self) -> int:
        return self.record.born_timestamp

    @property
    def stored_ms(self) -> int:
        return self.record.store_timestamp

    @property
    def born_host(self) -> str:
        return host_text(self.record.born_host)

    @property
    def store_host(self) -> str:
        return host_text(self.record.store_host)

    def __repr__(self) -> str:
        where = f"{self.topic}/{self.broker_name or '?'}/{self.queue_id}@{self.queue_offset}"
        return f"<Received {self.message_id} {where} tag={self.tag!r} {len(self.record.body)} bytes>"


class PulledMessage(Received):
    """A message from a pull. Its checksum is verified; its record is decoded on first access.

    The message has the stored body and the rest of the record, each copied once out of the response, so that a message that is
    kept does not keep its neighbours.
    """

    __slots__ = ("_record", "_rest", "_stored_body", "queue_offset", "size_bytes")

    def __init__(self, parts: RecordTuple, broker_name: str, topic: str, arrival: Arrival) -> None:
        self.queue_offset, _, head, body, tail = parts  # type: ignore[misc]
        self._stored_body = body
        self._rest = head + tail
        self._body = None
        self.size_bytes = len(body)  # type: ignore[misc]
        self.broker_name = broker_name
        self.topic = topic
        self._arrival = arrival
        self._record: Record | None = None
        self._properties = None

    @property
    def record(self) -> Record:  # type: ignore[override]
        if self._record is None:
            body_at = fixed_bytes_of(self._rest)
            encoded = b"".join((self._rest[:body_at], self._stored_body, self._rest[body_at:]))
            self._record = decode_record(encoded, check_crc=False)  # verified when the pull arrived
        return self._record


# The slot under its public name: nearly every handler reads the body, and a property would cost a call.
PulledMessage.body = PulledMessage._stored_body  # type: ignore[assignment, misc, method-assign]


class CompressedMessage(PulledMessage):
    """A message from a pull whose body is compressed. It is decompressed on first access."""

    __slots__ = ()

    body = Received.body


def split_pulled_messages(
    data: bytes, wire_topic: str, *, broker_name: str, topic: str, arrived_ms: int, queue_end: int = 0
) -> list[Received]:
    """Split the body of a pull response into messages that show `topic`. Raises RecordError for a malformed record.

    Nearly always all records are of the topic that was asked for (`wire_topic`), and of one magic.
    """
    found: list[Received] = []
    shared, magic = (broker_name, topic, Arrival(arrived_ms, queue_end)), magic_for(wire_topic)
    at = split_pulled(data, 0, magic, topic_field(wire_topic, magic), shared, found)
    while at < len(data):
        first = decode_record(data, at)  # raises the error of a malformed record
        before, at = at, split_pulled(data, at, first.magic, topic_field(first.topic, first.magic), shared, found)
        if at == before:
            raise RecordError(f"The record at {at} is malformed.")
    return found


def _split_pulled(data: bytes, at: int, magic: int, topic: bytes, shared: tuple[str, str, Arrival], found: list[Received]) -> int:
    """Append the messages of the valid records of this magic and topic from `at` on. Return where the first other record starts.

    `shared` is what all messages of a response have in common: the names of broker and topic, and when it arrived.
    """
    parts: list[RecordTuple] = []
    end = split_same_topic(data, at, magic, topic, parts)
    found += [(CompressedMessage if each[1] else PulledMessage)(each, *shared) for each in parts]
    return end


split_pulled = twin("record", _split_pulled)
