"""A message as a consumer gets it. Properties and body are unpacked when they are first looked at.

A message as it came with a pull: sound, its body at hand, and the rest of its record decoded when it is first asked for.

Most handlers want the body and a property or two; decoding every field of every record would cost them as much as all the rest.
"""

from __future__ import annotations

from skyrocket.client.queues import Queue
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
from skyrocket.protocol.message.record import PlainParts, Record, decode_record


class Received:
    """`record` has everything as it came; what people ask for has a name here.

    `topic` is the user's: without namespace, and the original one where the message came through a retry topic.
    """

    __slots__ = ("_body", "_properties", "arrived_ms", "broker_name", "record", "topic")

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
        self.arrived_ms = arrived_ms  # at this client, in ms since 1970; 0 where nobody noted it
        self._properties = properties
        self._body: bytes | None = None

    # --- what it says

    @property
    def body(self) -> bytes:
        """As its producer gave it. CompressionError when it was compressed and cannot be read."""
        if self._body is None:
            self._body = plain_body(self.record)
        return self._body

    @property
    def properties(self) -> dict[str, str]:
        """All of them, the system's too."""
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

    # --- which one it is

    @property
    def message_id(self) -> str:
        """The producer's unique id: the same however often it was sent or delivered. The offset id where there is none."""
        return self.properties.get(UNIQUE_KEY) or self.offset_id

    @property
    def offset_id(self) -> str:
        """Where this copy lies: which broker, and how far into its log."""
        return encode_offset_id(self.record.store_host, self.record.physical_offset)

    @property
    def queue(self) -> Queue:
        """The one that it was read from: a retry topic's queue is that topic's."""
        return Queue(self.record.topic, self.broker_name, self.record.queue_id)

    @property
    def queue_id(self) -> int:
        return self.record.queue_id

    @property
    def queue_offset(self) -> int:
        return self.record.queue_offset

    @property
    def size_bytes(self) -> int:
        """Of the body, as it travelled."""
        return len(self.record.body)

    @property
    def reconsume_times(self) -> int:
        """How often it was delivered before, and given back."""
        return self.record.reconsume_times

    @property
    def transaction_id(self) -> str:
        return self.properties.get(UNIQUE_KEY, "")

    # --- when and from where

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


class Pulled(Received):
    __slots__ = ("_parts", "_record", "queue_offset", "size_bytes")

    def __init__(self, parts: PlainParts, broker_name: str, topic: str, arrived_ms: int) -> None:
        self._parts = parts
        self._record: Record | None = None
        self._properties = None
        self.queue_offset, is_compressed, _, body, _ = parts  # type: ignore[misc]
        self._body = None if is_compressed else body
        self.size_bytes = len(body)  # type: ignore[misc]
        self.broker_name = broker_name
        self.topic = topic
        self.arrived_ms = arrived_ms

    @property
    def record(self) -> Record:  # type: ignore[override]
        if self._record is None:
            _, _, head, body, tail = self._parts
            self._record = decode_record(head + body + tail, check_crc=False)  # it was
        return self._record
