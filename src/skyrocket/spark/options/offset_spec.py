"""Where to begin and where to end, as the options say it, for the queues that there are. Pure.

    earliest, latest                                    each queue's first message, or what comes after its last
    {"orders": {"broker-a:0": 23, "broker-a:1": -2}}    an offset for each queue; -2 is its earliest, -1 its latest
    {"orders": {"0": 23}}                               a number alone is the queue of that number at every broker
    a moment in ms                                      the first message that was stored then or later, of every queue or of each

`wishes` tells for each queue what is wished there, as an offset (or -2, -1) or as a moment. `resolution` asks the cluster.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Any, Final, NamedTuple

from skyrocket.client.queues import Queue
from skyrocket.spark.errors import OptionError
from skyrocket.spark.options.offset_json import queue_key

EARLIEST: Final = -2
LATEST: Final = -1

ByQueue = tuple[tuple[str, tuple[tuple[str, int], ...]], ...]
"""Topic → queue → number, as plain tuples: it is part of a value that can be compared and pickled."""


class Kind(Enum):
    OFFSET = "offset"
    MOMENT = "moment"


class Wish(NamedTuple):
    kind: Kind
    value: int  # an offset, EARLIEST or LATEST; or ms since 1970


class OffsetSpec(NamedTuple):
    """One number for all queues, or one for each."""

    option: str  # as sentences name it
    kind: Kind
    value: int | ByQueue

    @property
    def is_for_all(self) -> bool:
        return isinstance(self.value, int)


def earliest(option: str) -> OffsetSpec:
    return OffsetSpec(option, Kind.OFFSET, EARLIEST)


def latest(option: str) -> OffsetSpec:
    return OffsetSpec(option, Kind.OFFSET, LATEST)


# --- reading options


def offsets(text: str) -> int | ByQueue:
    """Of startingOffsets and endingOffsets."""
    word = text.strip().lower()
    if word in ("earliest", "latest"):
        return EARLIEST if word == "earliest" else LATEST
    return by_queue(text, EARLIEST, 'earliest, latest or JSON such as {"orders":{"broker-a:0":23,"broker-a:1":-2}}')


def moments(text: str) -> ByQueue:
    """Of the options that end in ByTimestamp."""
    return by_queue(text, 0, 'JSON with ms for each queue, such as {"orders":{"broker-a:0":1700000000000}}')


def by_queue(text: str, least: int, shape: str) -> ByQueue:
    found = _json(text, shape)
    topics = []
    for topic, queues in found.items():
        if not isinstance(queues, dict) or not queues:
            raise ValueError(f"{shape}, and topic '{topic}' in it has no queues")
        for key, number in queues.items():
            _check_key(key, topic, shape)
            if isinstance(number, bool) or not isinstance(number, int) or number < least:
                raise ValueError(f"{shape}, and {topic} {key} in it is not a whole number of at least {least}")
        topics.append((topic, tuple(sorted(queues.items()))))
    return tuple(sorted(topics))


def assigned(text: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Of assign: topic → its queues."""
    shape = 'JSON such as {"orders":["broker-a:0","broker-a:1"]} or {"orders":[0,1]}'
    topics = []
    for topic, queues in _json(text, shape).items():
        if not isinstance(queues, list) or not queues:
            raise ValueError(f"{shape}, and topic '{topic}' in it has no queues")
        keys = []
        for queue in queues:
            if isinstance(queue, bool) or not isinstance(queue, str | int):
                raise ValueError(shape)
            _check_key(str(queue), topic, shape)
            keys.append(str(queue))
        topics.append((topic, tuple(sorted(set(keys)))))
    return tuple(sorted(topics))


def _json(text: str, shape: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        raise ValueError(shape) from None
    if not isinstance(found, dict) or not found:
        raise ValueError(shape)
    return found


def _check_key(key: str, topic: str, shape: str) -> None:
    broker, colon, number = key.rpartition(":")
    if not number.isdecimal() or (colon and not broker):
        raise ValueError(f"{shape}, and '{key}' of topic '{topic}' in it is no queue")


# --- queues


def named(queue: Queue, keys: Iterable[str]) -> bool:
    """Whether one of the keys means this queue."""
    return any(key in (queue_key(queue), str(queue.queue_id)) for key in keys)


def unknown_keys(keys: Iterable[str], queues: Iterable[Queue]) -> list[str]:
    """Those that mean none of the queues."""
    there = {name for queue in queues for name in (queue_key(queue), str(queue.queue_id))}
    return [key for key in keys if key not in there]


def wishes(spec: OffsetSpec, queues: Sequence[Queue]) -> dict[Queue, Wish]:
    """For each queue. OptionError where the option does not fit the queues: each is named, and no other."""
    if isinstance(spec.value, int):
        return dict.fromkeys(queues, Wish(spec.kind, spec.value))
    by_topic = {topic: dict(numbers) for topic, numbers in spec.value}
    _check_fit(spec.option, by_topic, queues)
    found: dict[Queue, Wish] = {}
    for queue in queues:
        numbers = by_topic.get(queue.topic, {})
        number = numbers.get(queue_key(queue), numbers.get(str(queue.queue_id)))
        if number is None:
            raise OptionError(
                f"Option '{spec.option}' says nothing of {queue}; it has to name every queue that is read "
                f"({EARLIEST} is the earliest offset, {LATEST} the latest)."
            )
        found[queue] = Wish(spec.kind, number)
    return found


def _check_fit(option: str, by_topic: dict[str, dict[str, int]], queues: Sequence[Queue]) -> None:
    topics = {queue.topic for queue in queues}
    for topic, numbers in by_topic.items():
        if topic not in topics:
            raise OptionError(
                f"Option '{option}' names topic '{topic}', which is not read; those are: {', '.join(sorted(topics))}."
            )
        of_topic = [queue for queue in queues if queue.topic == topic]
        unknown = unknown_keys(numbers, of_topic)
        if unknown:
            there = ", ".join(map(queue_key, of_topic))
            raise OptionError(f"Option '{option}' names {topic} {unknown[0]}, but the queues that are read are: {there}.")
