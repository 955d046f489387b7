"""Redirects: messages that are stored in a system topic first and reach their own queue later.

Delayed messages, timed messages and half messages are redirected. Most redirects only store the message elsewhere, with a few
properties behind its own. The fast path decides these once for many messages with the same properties; a `FastRedirect` says how.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from skyrocket.protocol.message.properties import NAME_END, REAL_QUEUE_ID, REAL_TOPIC, VALUE_END

REAL_QUEUE = frozenset({REAL_TOPIC, REAL_QUEUE_ID})  # the properties that name the queue a redirected message goes to in the end


class RedirectAdditions(NamedTuple):
    """What a fast redirect adds to messages of one queue. `unique_key.MARK` stands where each message's unique key goes."""

    properties: bytes  # stored behind the message's own properties and those that the broker adds
    recall_words: bytes | None = None  # the plain text of the recall handle that goes into the response


class FastRedirect(NamedTuple):
    """Where messages are stored whose properties are alike except for the unique key."""

    topic: str
    queue_id: int
    additions: Callable[[str, int], RedirectAdditions | None]
    """Called with the topic and queue that a message was sent to. None sends the message to the general path."""
    delay_ms: int | None = None  # their consume queue entries hold the time of delivery instead of the tag's hash
    kept_flags: int = -1  # the bits of the system flag that are stored


@lru_cache(maxsize=1024)  # producers send to few queues, again and again
def real_queue_properties(topic: str, queue_id: int) -> bytes:
    """Encode the properties that name the queue a redirected message goes to in the end."""
    return f"{REAL_TOPIC}{NAME_END}{topic}{VALUE_END}{REAL_QUEUE_ID}{NAME_END}{queue_id}{VALUE_END}".encode()
