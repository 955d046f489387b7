"""Starting and ending offsets as the options specify them, before the cluster is asked. Pure.

    earliest, latest                                    each queue's first message, or the end of each queue
    {"orders": {"broker-a:0": 23, "broker-a:1": -2}}    an offset for each queue; -2 is earliest, -1 is latest
    {"orders": {"0": 23}}                               a number alone names that queue at every broker
    a timestamp in ms                                   the first message stored at that time or later, in every queue or in each

`offset_targets` returns the target of each queue: an offset (or -2, -1) or a timestamp. `cluster/resolution.py` turns targets
into offsets.
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
"""Topic → queue → number, as plain tuples: part of a value that is compared and pickled."""


class OffsetKind(Enum):
    OFFSET = "offset"
    TIMESTAMP = "timestamp"


class OffsetTarget(NamedTuple):
    """Where to start or stop in one queue."""

    kind: OffsetKind
    value: int  # an offset, EARLIEST or LATEST; or ms since 1970


class OffsetSpec(NamedTuple):
    """The value of an option: one number for all queues, or one for each queue."""

    option: str  # the option's name, for error messages
    kind: OffsetKind
    value: int | ByQueue

    @property
    def is_for_all(self) -> bool:
        return isinstance(self.value, int)


def earliest(option: str) -> OffsetSpec:
    return OffsetSpec(option, OffsetKind.OFFSET, EARLIEST)


def latest(option: str) -> OffsetSpec:
    return OffsetSpec(option, OffsetKind.OFFSET, LATEST)


# --- parsers of options


def parse_offsets(text: str) -> int | ByQueue:
    """Parse startingOffsets or endingOffsets."""
    word = text.strip().lower()
    if word in ("earliest", "latest"):
        return EARLIEST if word == "earliest" else LATEST
    return _parse_by_queue(text, EARLIEST, 'earliest, latest or JSON such as {"orders":{"broker-a:0":23,"broker-a:1":-2}}')


def parse_timestamps(text: str) -> ByQueue:
    """Parse an option whose name ends in ByTimestamp."""
    return _parse_by_queue(text, 0, 'JSON with ms for each queue, such as {"orders":{"broker-a:0":1700000000000}}')


def _parse_by_queue(text: str, least: int, shape: str) -> ByQueue:
    found = _parse_json(text, shape)
    topics = []
    for topic, queues in found.items():
        if not isinstance(queues, dict) or not queues:
            raise ValueError(f"{shape}, but topic '{topic}' has no queues")
        for key, number in queues.items():
            _check_key(key, topic, shape)
            if isinstance(number, bool) or not isinstance(number, int) or number < least:
                raise ValueError(f"{shape}, but the number of {topic} {key} is not a whole number of at least {least}")
        topics.append((topic, tuple(sorted(queues.items()))))
    return tuple(sorted(topics))


def parse_assignment(text: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Parse option `assign`: topic → its queues."""
    shape = 'JSON such as {"orders":["broker-a:0","broker-a:1"]} or {"orders":[0,1]}'
    topics = []
    for topic, queues in _parse_json(text, shape).items():
        if not isinstance(queues, list) or not queues:
            raise ValueError(f"{shape}, but topic '{topic}' has no queues")
        keys = []
        for queue in queues:
            if isinstance(queue, bool) or not isinstance(queue, str | int):
                raise ValueError(shape)
            _check_key(str(queue), topic, shape)
            keys.append(str(queue))
        topics.append((topic, tuple(sorted(set(keys)))))
    return tuple(sorted(topics))


def _parse_json(text: str, shape: str) -> dict[str, Any]:
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
        raise ValueError(f"{shape}, but '{key}' of topic '{topic}' is not a queue")


# --- queues


def is_named(queue: Queue, keys: Iterable[str]) -> bool:
    """Return whether one of the keys (broker-a:0, or 0 for every broker) names this queue."""
    return any(key in (queue_key(queue), str(queue.queue_id)) for key in keys)


def unknown_keys(keys: Iterable[str], queues: Iterable[Queue]) -> list[str]:
    """Return the keys that name none of the queues."""
    existing = {name for queue in queues for name in (queue_key(queue), str(queue.queue_id))}
    return [key for key in keys if key not in existing]


def offset_targets(spec: OffsetSpec, queues: Sequence[Queue]) -> dict[Queue, OffsetTarget]:
    """Return the target of each queue. Raise OptionError unless the option names exactly these queues."""
    if isinstance(spec.value, int):
        return dict.fromkeys(queues, OffsetTarget(spec.kind, spec.value))
    by_topic = {topic: dict(numbers) for topic, numbers in spec.value}
    _check_topics_and_queues(spec.option, by_topic, queues)
    found: dict[Queue, OffsetTarget] = {}
    for queue in queues:
        numbers = by_topic.get(queue.topic, {})
        number = numbers.get(queue_key(queue), numbers.get(str(queue.queue_id)))
        if number is None:
            raise OptionError(
                f"Option '{spec.option}' does not name {queue}. It must name every queue that the query reads "
                f"({EARLIEST} is the earliest offset, {LATEST} the latest)."
            )
        found[queue] = OffsetTarget(spec.kind, number)
    return found


def _check_topics_and_queues(option: str, by_topic: dict[str, dict[str, int]], queues: Sequence[Queue]) -> None:
    topics = {queue.topic for queue in queues}
    for topic, numbers in by_topic.items():
        if topic not in topics:
            raise OptionError(
                f"Option '{option}' names topic '{topic}', which the query does not read. It reads: {', '.join(sorted(topics))}."
            )
        of_topic = [queue for queue in queues if queue.topic == topic]
        unknown = unknown_keys(numbers, of_topic)
        if unknown:
            existing = ", ".join(map(queue_key, of_topic))
            raise OptionError(
                f"Option '{option}' names {topic} {unknown[0]}, which the query does not read. Its queues are: {existing}."
            )
