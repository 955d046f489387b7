"""A message of the timer topic: what its properties say of when it is due and where it goes, and how it comes there."""

from __future__ import annotations

import logging
from typing import NamedTuple

from skyrocket.broker.delay.timers import asked_for_ms, number
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

log = logging.getLogger(__name__)

# Begins with an end, because a producer may have left its own out.
_MORE = f"{VALUE_END}{TIMER_ENQUEUE_MS}{NAME_END}%d{VALUE_END}{TIMER_DEQUEUE_MS}{NAME_END}%d{VALUE_END}".encode()


class Timing(NamedTuple):
    """What the properties say; the same for all messages of a shape (`property_shapes`)."""

    out_ms: int  # the start of the slot that it belongs to
    end_ms: int  # and its end
    asked_ms: int | None  # when it is to be delivered, or how long after it was stored
    after_stored: bool
    deletes: str | None  # the message that it takes back
    was_rolled: bool  # it has been out of the wheel before
    topic: str
    topic_hash: int
    unique_key: str | None  # perhaps marked
    address: Address | None  # None where a message cannot be

    @classmethod
    def of(cls, properties: dict[str, str], precision_ms: int) -> Timing | None:
        """None when they do not say where it goes, and when."""
        out_ms, topic = number(properties.get(TIMER_OUT_MS)), properties.get(REAL_TOPIC)
        if out_ms is None or topic is None or out_ms < 0:
            return None
        out_ms -= out_ms % precision_ms
        after_stored = TIMER_ROLL_TIMES not in properties and not {TIMER_DELAY_SEC, TIMER_DELAY_MS}.isdisjoint(properties)
        return cls(
            out_ms,
            out_ms + precision_ms,
            asked_for_ms(properties, 0) if after_stored else number(properties.get(TIMER_DELIVER_MS)),
            after_stored,
            properties.get(TIMER_DELETE_UNIQUE_KEY),
            TIMER_ENQUEUE_MS in properties,
            topic,
            tags_code(topic),
            properties.get(UNIQUE_KEY),
            _address(topic, properties),
        )

    def due_ms(self, stored_ms: int) -> int:
        """When it is to be delivered: within its slot, whatever its properties say."""
        if self.asked_ms is None:
            return self.end_ms
        asked_ms = self.asked_ms + stored_ms if self.after_stored else self.asked_ms
        return min(max(asked_ms, self.out_ms + 1), self.end_ms)


def _address(topic: str, properties: dict[str, str]) -> Address | None:
    queue_id = number(properties.get(REAL_QUEUE_ID))
    if queue_id is None or topic == TIMER_TOPIC or not is_directory_name((topic, queue_id)):
        return None
    return Address.of(topic, queue_id, tags_code(properties.get(TAGS)), index_keys(properties))


def out_times(taken_in_ms: int, now_ms: int) -> bytes:
    """What is added to the properties of messages that were taken in and are delivered at these times."""
    return _MORE % (taken_in_ms, now_ms)


def delivered(record: memoryview, timing: Timing, key: bytes | None, more: bytes) -> ReaddressRequest | None:
    """On its way to its own topic, with `out_times`. None when it cannot go there."""
    address = timing.address
    if address is None:
        log.error("A timed message does not say where it goes, and goes nowhere: its topic is %r.", timing.topic[:256])
        return None
    if timing.was_rolled:
        properties = decode_properties(bytes(properties_of(record)))
        properties |= decode_properties(more)
        return (record, address._replace(keys=index_keys(properties), properties=encode_properties(properties)), None, b"")
    has_room = len(record) + len(more) <= PROPERTIES_BYTES_MAX  # most are not longer altogether
    if not has_room and len(properties_of(record)) + len(more) > PROPERTIES_BYTES_MAX:
        more = b""
    return (record, address, key, more)


def rolled(record: memoryview, due_ms: int, more: bytes) -> ReaddressRequest:
    """On its way to the end of the timer topic, because it is due beyond the window."""
    properties = decode_properties(bytes(properties_of(record)))
    times = number(properties.get(TIMER_ROLL_TIMES)) or 0
    properties |= decode_properties(more)
    properties |= {
        TIMER_ROLL_TIMES: str(times + 1),
        TIMER_DELIVER_MS: str(due_ms),  # a delay means nothing any more: it is stored at another time now
    }
    code, keys = tags_code(properties.get(TAGS)), index_keys(properties)
    return (record, Address.of(TIMER_TOPIC, 0, code, keys, encode_properties(properties)), None, b"")
