"""Messages that came in and went out, under RocketMQ 5's names: read from the broker's counters, which count once a turn.

A message counts for the topic that it is stored in. So a delayed message counts for `SCHEDULE_TOPIC_XXXX` first (type `delay`),
and for its own topic when it is delivered; a transactional one for the half topic first (`transaction`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate
from typing import Final

from skyrocket.broker.context import BrokerContext
from skyrocket.broker.load.counters import DEAD, GET, PUT, SEND_BACK, SIZE_BOUNDS, Counter
from skyrocket.metrics.family import Measured, Row, counter, gauge, histogram, single
from skyrocket.metrics.histogram import HistogramState
from skyrocket.protocol.system_names import (
    DEAD_LETTER_PREFIX,
    HALF_TOPIC,
    RETRY_PREFIX,
    SCHEDULE_TOPIC,
    SYSTEM_GROUP_PREFIX,
    TIMER_TOPIC,
)

PERMISSION: Final = gauge("rocketmq_broker_permission", "4 read, 2 write, 6 both.")
TOPICS: Final = gauge("rocketmq_topic_number", "Topics of the broker.")
GROUPS: Final = gauge("rocketmq_consumer_group_number", "Consumer groups of the broker.")
_IN: Final = ("topic", "message_type", "is_system")
_OUT: Final = ("topic", "consumer_group", "is_system")  # Apache's has is_retry, too, but for POP only
MESSAGES_IN: Final = counter("rocketmq_messages_in_total", "Messages stored.", *_IN)
BYTES_IN: Final = counter("rocketmq_throughput_in_total", "Bytes of messages stored.", *_IN)
MESSAGES_OUT: Final = counter("rocketmq_messages_out_total", "Messages pulled.", *_OUT)
BYTES_OUT: Final = counter("rocketmq_throughput_out_total", "Bytes of messages pulled.", *_OUT)
MESSAGE_SIZE: Final = histogram("rocketmq_message_size", "Bytes of each message stored.", *_IN)
DEAD_LETTERS: Final = counter(
    "rocketmq_send_to_dlq_messages_total", "Messages that a group gave up.", "consumer_group", "topic", "is_system"
)
SENT_BACK: Final = counter(
    "skyrocket_sent_back_messages_total", "Messages that a group sent back to consume them again.", "consumer_group", "topic"
)
REFUSED: Final = counter(
    "skyrocket_refused_requests_total", "Requests refused with SYSTEM_BUSY, because the broker or its disk was too slow."
)

_TYPES: Final = {SCHEDULE_TOPIC: "delay", TIMER_TOPIC: "delay", HALF_TOPIC: "transaction"}


def as_label(is_so: bool) -> str:
    return "true" if is_so else "false"


def is_retry(topic: str) -> bool:
    return topic.startswith((RETRY_PREFIX, DEAD_LETTER_PREFIX))


def is_system_group(group: str) -> bool:
    return group.upper().startswith(SYSTEM_GROUP_PREFIX)


class TrafficMetrics:
    def __init__(self, context: BrokerContext) -> None:
        self._settings = context.settings
        self._topics = context.topics
        self._groups = context.groups
        self._counters = context.counters
        self._flow_control = context.flow_control

    def collect(self) -> Iterable[Measured]:
        yield single(PERMISSION, self._settings().permission)
        yield single(TOPICS, len(self._topics))
        yield single(GROUPS, len(self._groups))
        yield single(REFUSED, self._flow_control.refused)
        yield Measured(MESSAGES_IN, self._rows(PUT, self._in_labels, _messages))
        yield Measured(BYTES_IN, self._rows(PUT, self._in_labels, _size_bytes))
        yield Measured(MESSAGE_SIZE, self._rows(PUT, self._in_labels, _sizes))
        yield Measured(MESSAGES_OUT, self._rows(GET, self._out_labels, _messages))
        yield Measured(BYTES_OUT, self._rows(GET, self._out_labels, _size_bytes))
        yield Measured(DEAD_LETTERS, self._rows(DEAD, self._dead_labels, _messages))
        yield Measured(SENT_BACK, self._rows(SEND_BACK, _split_key, _messages))

    def _rows(
        self, kind: str, labels: Callable[[str], tuple[str, ...]], value: Callable[[Counter], int | HistogramState]
    ) -> Iterator[Row]:
        for key, of_key in self._counters.of_kind(kind):
            yield labels(key), value(of_key)

    def _in_labels(self, topic: str) -> tuple[str, ...]:
        return topic, _TYPES.get(topic, "normal"), as_label(self._topics.is_system(topic))

    def _out_labels(self, key: str) -> tuple[str, ...]:
        group, topic = _split_key(key)
        return topic, group, as_label(self.is_system(topic, group))

    def _dead_labels(self, key: str) -> tuple[str, ...]:
        group, topic = _split_key(key)
        return group, topic, as_label(self.is_system(topic, group))

    def is_system(self, topic: str, group: str) -> bool:
        return self._topics.is_system(topic) or is_system_group(group)


def _split_key(key: str) -> tuple[str, str]:
    """Return group and topic of a counter's key, `topic@group`."""
    topic, _, group = key.partition("@")
    return group, topic


def _messages(of_key: Counter) -> int:
    return of_key.messages


def _size_bytes(of_key: Counter) -> int:
    return of_key.size_bytes


def _sizes(of_key: Counter) -> HistogramState:
    return HistogramState(SIZE_BOUNDS, list(accumulate(of_key.sizes)), float(of_key.size_bytes))
