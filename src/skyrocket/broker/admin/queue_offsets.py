"""Offsets and store times of one queue, for request handlers. A queue without messages is no error."""

from __future__ import annotations

import time
from typing import Final, NamedTuple

from skyrocket.store.message_store import MessageStore

NO_TIME: Final = -1
_UNREADABLE = 2**63 - 1  # the store's value when the message cannot be read


class OffsetBounds(NamedTuple):
    least: int  # offset of the first message
    most: int  # one past the last message


def bounds(store: MessageStore, topic: str, queue_id: int) -> OffsetBounds:
    queue = store.queues.get(topic, queue_id)
    return OffsetBounds(0, 0) if queue is None else OffsetBounds(queue.min_offset, queue.max_offset)


def stored_at(store: MessageStore, topic: str, queue_id: int, offset: int) -> int:
    """Return when a message was stored, in milliseconds; NO_TIME when it does not exist."""
    found = store.reading.store_timestamp_at(topic, queue_id, offset)
    return NO_TIME if found == _UNREADABLE else found


def offset_at(store: MessageStore, topic: str, queue_id: int, timestamp: int) -> int:
    """Return the offset of the first message stored at `timestamp` or later; the end of the queue for a negative `timestamp`."""
    if timestamp < 0:
        return bounds(store, topic, queue_id).most
    return store.reading.offset_by_time(topic, queue_id, timestamp)


def time_text(time_ms: int) -> str:
    """Format a time as Apache does, in the broker's time zone."""
    return f"{time.strftime('%Y-%m-%d#%H:%M:%S', time.localtime(time_ms // 1000))}:{time_ms % 1000:03d}"
