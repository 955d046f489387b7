"""Acknowledgement of several popped messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar

from msgspec import field

from skyrocket.protocol.bodies.body import Body, Int32, Int64

LONG_NAMES = {
    "consumerGroup": "c",
    "topic": "t",
    "retry": "r",
    "startOffset": "so",
    "queueId": "q",
    "reviveQueueId": "rq",
    "popTime": "pt",
    "invisibleTime": "it",
    "bitSet": "b",
}
"""Apache writes the short names and reads both."""


class BatchAck(Body):
    """Messages of one pop. Group and topic are required: without them, Apache writes the long names."""

    key_aliases: ClassVar[Mapping[str, str]] = LONG_NAMES

    consumer_group: str = field(name="c")
    topic: str = field(name="t")
    retry: str | None = field(name="r", default=None)
    start_offset: Int64 = field(name="so", default=0)
    queue_id: Int32 = field(name="q", default=0)
    revive_queue_id: Int32 = field(name="rq", default=0)
    pop_time: Int64 = field(name="pt", default=0)
    invisible_time: Int64 = field(name="it", default=0)
    bits: bytes | None = field(name="b", default=None)
    """Base64 on the wire.

    Bit n, from the lowest of the first byte, acknowledges startOffset + n. Java reads an empty value as null.
    """

    def offsets(self) -> list[int]:
        """Return the acknowledged queue offsets."""
        found = []
        for index, byte in enumerate(self.bits or b""):
            for bit in range(8):
                if byte >> bit & 1:
                    found.append(self.start_offset + 8 * index + bit)
        return found


def bits_of(indexes: Iterable[int]) -> bytes:
    """Return the bit set with these bits, without zero bytes at the end, as in Java."""
    whole = 0
    for index in indexes:
        whole |= 1 << index
    return whole.to_bytes((whole.bit_length() + 7) // 8, "little")


class BatchAckMessageRequestBody(Body):
    key_aliases: ClassVar[Mapping[str, str]] = LONG_NAMES

    broker_name: str | None = None
    acks: list[BatchAck] | None = None
