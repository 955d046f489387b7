"""Offsets of queues as JSON: in options, and in a stream's checkpoint. Pure.

    {"orders": {"broker-a:0": 23, "broker-a:1": 0}}

Spark compares the offsets of a stream as text, so what is written here is always in one order: topics by name, queues by broker
and number.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from skyrocket.client.queues import Queue
from skyrocket.spark.errors import OffsetsError

OffsetsJson = dict[str, dict[str, int]]


def queue_key(queue: Queue) -> str:
    """A queue's name within its topic."""
    return f"{queue.broker_name}:{queue.queue_id}"


def in_order(queues: Iterable[Queue]) -> list[Queue]:
    return sorted(queues)


def offsets_json(offsets: Mapping[Queue, int]) -> OffsetsJson:
    """What a stream gives to Spark as its offset."""
    found: OffsetsJson = {}
    for queue in in_order(offsets):
        found.setdefault(queue.topic, {})[queue_key(queue)] = offsets[queue]
    return found


def offsets_text(offsets: Mapping[Queue, int]) -> str:
    """As one line, for a sentence or an option."""
    return json.dumps(offsets_json(offsets), separators=(",", ":"))


def offsets_of(found: Any) -> dict[Queue, int]:
    """The reverse. OffsetsError for what was not written here: a checkpoint of another source, or one that somebody changed."""
    if not isinstance(found, Mapping):
        raise OffsetsError(f"The offsets {_shown(found)} are not an object of topics; the checkpoint is not one of this source.")
    offsets: dict[Queue, int] = {}
    for topic, queues in found.items():
        if not isinstance(queues, Mapping):
            raise OffsetsError(f"The offsets of topic '{topic}' are {_shown(queues)}, not an object of queues.")
        for key, offset in queues.items():
            broker, _, number = str(key).rpartition(":")
            if not broker or not number.isdecimal():
                raise OffsetsError(f"'{key}' in the offsets of topic '{topic}' is not a queue such as broker-a:0.")
            if isinstance(offset, bool) or not isinstance(offset, int) or offset < 0:
                raise OffsetsError(f"The offset of {topic} {key} is {_shown(offset)}, not a whole number of at least 0.")
            offsets[Queue(str(topic), broker, int(number))] = offset
    return offsets


def _shown(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 80 else text[:77] + "…"
