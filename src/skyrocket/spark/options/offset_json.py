"""Offsets of queues as JSON, in options and in a stream's checkpoint. Pure.

    {"orders": {"broker-a:0": 23, "broker-a:1": 0}}

Spark compares the offsets of a stream as text. So the order is fixed: topics by name, queues by broker and number.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from skyrocket.client.queues import Queue
from skyrocket.spark.errors import OffsetsError

OffsetsJson = dict[str, dict[str, int]]


def queue_key(queue: Queue) -> str:
    """Return a queue's name within its topic, such as broker-a:0."""
    return f"{queue.broker_name}:{queue.queue_id}"


def offsets_json(offsets: Mapping[Queue, int]) -> OffsetsJson:
    """Return offsets as the JSON object that Spark keeps as a stream's offset."""
    found: OffsetsJson = {}
    for queue in sorted(offsets):
        found.setdefault(queue.topic, {})[queue_key(queue)] = offsets[queue]
    return found


def parse_offsets_json(found: Any) -> dict[Queue, int]:
    """Parse what `offsets_json` returned. Raise OffsetsError for the checkpoint of another source, or an edited one."""
    if not isinstance(found, Mapping):
        raise OffsetsError(f"The offsets {_shorten(found)} are not a JSON object of topics. The checkpoint is of another source.")
    offsets: dict[Queue, int] = {}
    for topic, queues in found.items():
        if not isinstance(queues, Mapping):
            raise OffsetsError(f"The offsets of topic '{topic}' are {_shorten(queues)}, not a JSON object of queues.")
        for key, offset in queues.items():
            broker, _, number = str(key).rpartition(":")
            if not broker or not number.isdecimal():
                raise OffsetsError(f"The offsets of topic '{topic}' name '{key}', which is not a queue such as broker-a:0.")
            if isinstance(offset, bool) or not isinstance(offset, int) or offset < 0:
                raise OffsetsError(f"The offset of {topic} {key} is {_shorten(offset)}, not a whole number of at least 0.")
            offsets[Queue(str(topic), broker, int(number))] = offset
    return offsets


def _shorten(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 80 else text[:77] + "…"
