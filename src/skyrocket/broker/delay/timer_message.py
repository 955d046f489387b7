"""A message of the timer topic: its due time and destination by its properties, and the requests that move it there."""

from __future__ import annotations

import logging
from typing import NamedTuple

from skyrocket.broker.delay.timers import parse_number, requested_ms
from skyrocket.net.outside_log import OutsideLog
from skyrocket.protocol.limits import PROPERTIES_BYTES_MAX
from skyrocket.protocol.message.properties import (
    NAME_END,
    REAL_QUEUE_ID,
    REAL_TOPIC,
    TAGS,
    TIMER_DELAY_MS,
    TIMER_DELAY_SEC,
    TIMER_DELETE_UNIQUE_KEY,
    TIMER_DELIVER_MS,
    TIMER_DEQUEUE_MS,
    TIMER_ENQUEUE_MS,
    TIMER_OUT_MS,
    TIMER_ROLL_TIMES,
    UNIQUE_KEY,
    VALUE_END,
    decode_properties,
    encode_properties,
)
from skyrocket.protocol.message.record import properties_of
from skyrocket.protocol.message.tags import tags_code
from skyrocket.protocol.system_names import TIMER_TOPIC
from skyrocket.store.log.readdress import Address, ReaddressRequest
from skyrocket.store.message import index_keys
from skyrocket.store.queues.consume_queues import is_directory_name

outside = OutsideLog(logging.getLogger(__name__))

# Begins with a separator, because a producer may have omitted its last one.
_MORE = f"{VALUE_END}{TIMER_ENQUEUE_MS}{NAME_END}%d{VALUE_END}{TIMER_DEQUEUE_MS}{NAME_END}%d{VALUE_END}".encode()


class Timing(NamedTuple):
    """What properties say about due time and destination. All messages of one shape share it (`property_shapes`)."""

    out_ms: int  # the start of its slot
    end_ms: int  # the end of its slot
    asked_ms: int | None  # the requested time of delivery, or the delay after the store time
    after_stored: bool
    deletes: str | None  # the unique key of the message that it recalls
    was_rolled: bool  # it was rolled before
    topic: str
    topic_hash: int
    unique_key: str | None  # may contain the mark of `unique_key`
    address: Address | None  # None when the destination is invalid

    @classmethod
    def of(cls, properties: dict[str, str], precision_ms: int) -> Timing | None:
        """Return None when the destination or the time is missing."""
        out_ms, topic = parse_number(properties.get(TIMER_OUT_MS)), properties.get(REAL_TOPIC)
        if out_ms is None or topic is None or out_ms < 0:
            return None
        out_ms -= out_ms % precision_ms
        after_stored = TIMER_ROLL_TIMES not in properties and not {TIMER_DELAY_SEC, TIMER_DELAY_MS}.isdisjoint(properties)
        return cls(
            out_ms,
            out_ms + precision_ms,
            requested_ms(properties, 0) if after_stored else parse_number(properties.get(TIMER_DELIVER_MS)),
            after_stored,
            properties.get(TIMER_DELETE_UNIQUE_KEY),
            TIMER_ENQUEUE_MS in properties,
            topic,
            tags_code(topic),
            properties.get(UNIQUE_KEY),
            _address(topic, properties),
        )

    def due_ms(self, stored_ms: int) -> int:
        """Return the due time: always within its slot, whatever the properties say."""
        if self.asked_ms is None:
            return self.end_ms
        asked_ms = self.asked_ms + stored_ms if self.after_stored else self.asked_ms
        return min(max(asked_ms, self.out_ms + 1), self.end_ms)


def _address(topic: str, properties: dict[str, str]) -> Address | None:
    queue_id = parse_number(properties.get(REAL_QUEUE_ID))
    if queue_id is None or topic == TIMER_TOPIC or not is_directory_name((topic, queue_id)):
        return None
    return Address.of(topic, queue_id, tags_code(properties.get(TAGS)), index_keys(properties))


def time_properties(indexed_ms: int, now_ms: int) -> bytes:
    """Return the properties to add to a message that was indexed and is delivered at these times."""
    return _MORE % (indexed_ms, now_ms)


def delivery_request(record: memoryview, timing: Timing, key: bytes | None, more: bytes) -> ReaddressRequest | None:
    """Build the request that moves a message to its own topic, with `time_properties`. Return None when the topic is invalid."""
    address = timing.address
    if address is None:
        outside.error("A timed message cannot be delivered: its topic '%s' or its queue is invalid.", timing.topic)
        return None
    if timing.was_rolled:
        properties = decode_properties(bytes(properties_of(record)))
        properties |= decode_properties(more)
        return (record, address._replace(keys=index_keys(properties), properties=encode_properties(properties)), None, b"")
    has_room = len(record) + len(more) <= PROPERTIES_BYTES_MAX  # the whole record is mostly shorter than that
    if not has_room and len(properties_of(record)) + len(more) > PROPERTIES_BYTES_MAX:
        more = b""
    return (record, address, key, more)


def roll_request(record: memoryview, due_ms: int, more: bytes) -> ReaddressRequest:
    """Build the request that rolls a message, which is due beyond the window, to the end of the timer topic."""
    properties = decode_properties(bytes(properties_of(record)))
    times = parse_number(properties.get(TIMER_ROLL_TIMES)) or 0
    properties |= decode_properties(more)
    properties |= {
        TIMER_ROLL_TIMES: str(times + 1),
        TIMER_DELIVER_MS: str(due_ms),  # replaces a delay, which counts from the store time
    }
    code, keys = tags_code(properties.get(TAGS)), index_keys(properties)
    return (record, Address.of(TIMER_TOPIC, 0, code, keys, encode_properties(properties)), None, b"")
