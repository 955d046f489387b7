"""What handlers ask of one queue: its bounds, and when its messages were stored. One without messages is no error."""

from __future__ import annotations

import time
from typing import Final, NamedTuple

from skyrocket.store.message_store import MessageStore

NO_TIME: Final = -1
_UNREADABLE = 2**63 - 1  # what the store says where nothing behind an offset can be read


class OffsetBounds(NamedTuple):
    least: int  # the first message that is still there
    most: int  # one past the last


def bounds(store: MessageStore, topic: str, queue_id: int) -> OffsetBounds:
    queue = store.queues.get(topic, queue_id)
    return OffsetBounds(0, 0) if queue is None else OffsetBounds(queue.min_offset, queue.max_offset)


def stored_at(store: MessageStore, topic: str, queue_id: int, offset: int) -> int:
    """In milliseconds; NO_TIME when the message is not there."""
    found = store.reading.store_timestamp_at(topic, queue_id, offset)
    return NO_TIME if found == _UNREADABLE else found


def offset_at(store: MessageStore, topic: str, queue_id: int, timestamp: int) -> int:
    """Where to go on for messages from `timestamp` on; behind the last one when it is negative."""
    if timestamp < 0:
        return bounds(store, topic, queue_id).most
    return store.reading.offset_by_time(topic, queue_id, timestamp)


def time_text(time_ms: int) -> str:
    """As Apache shows a time to people: in the broker's time zone."""
    return f"{time.strftime('%Y-%m-%d#%H:%M:%S', time.localtime(time_ms // 1000))}:{time_ms % 1000:03d}"
