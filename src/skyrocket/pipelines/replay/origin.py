"""The properties of a replayed message: those of the original, and where the original came from. Pure.

    SKYROCKET_REPLAY        id of the replay
    SKYROCKET_REPLAY_FROM   place in the source: broker, queue, offset, topic, separated by spaces
    SKYROCKET_ORIGIN_ID     unique id of the original; a replay of a replay keeps the first one
    SKYROCKET_ORIGIN_BORN   when the original was sent, ms
    SKYROCKET_ORIGIN_STORE  when its broker stored it, ms

The place makes a replay exactly once: what has arrived in the target says how far the replay has come. The id lets consumers
recognise a message that they have handled before.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from skyrocket.client.message import is_reserved
from skyrocket.client.queues import Queue
from skyrocket.protocol.message import properties as p

REPLAY: Final = "SKYROCKET_REPLAY"
REPLAY_FROM: Final = "SKYROCKET_REPLAY_FROM"
ORIGIN_ID: Final = "SKYROCKET_ORIGIN_ID"
ORIGIN_BORN: Final = "SKYROCKET_ORIGIN_BORN"
ORIGIN_STORE: Final = "SKYROCKET_ORIGIN_STORE"
OWN_PROPERTIES: Final = frozenset({REPLAY, REPLAY_FROM, ORIGIN_ID, ORIGIN_BORN, ORIGIN_STORE})

# They belong to how the original was sent or delivered. The client sets the sharding key from its own field.
_LEFT_OUT: Final = frozenset({p.TRANSACTION_ID, p.TRANSACTION_CHECK_TIMES, p.CHECK_IMMUNITY_TIME, p.SHARDING_KEY})


class ReplayedFrom(NamedTuple):
    """A message's place in the source of a replay."""

    replay_id: str
    queue: Queue
    offset: int


def user_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties that an application set, without those that RocketMQ or an earlier replay added."""
    return {
        name: value
        for name, value in properties.items()
        if name.strip() and value.strip() and not is_reserved(name) and name not in _LEFT_OUT and name not in OWN_PROPERTIES
    }


def replayed_properties(
    properties: Mapping[str, str], place: ReplayedFrom, *, message_id: str, born_ms: int, store_ms: int
) -> dict[str, str]:
    """Return the properties of the message that a replay sends."""
    queue = place.queue
    return {
        **user_properties(properties),
        REPLAY: place.replay_id,
        REPLAY_FROM: f"{queue.broker_name} {queue.queue_id} {place.offset} {queue.topic}",
        ORIGIN_ID: properties.get(ORIGIN_ID) or message_id,
        ORIGIN_BORN: properties.get(ORIGIN_BORN) or str(born_ms),
        ORIGIN_STORE: properties.get(ORIGIN_STORE) or str(store_ms),
    }


def parse_place(properties: Mapping[str, str]) -> ReplayedFrom | None:
    """Return the place that a replay wrote into a message; None for any other message."""
    replay_id, place = properties.get(REPLAY), properties.get(REPLAY_FROM, "")
    parts = place.split(" ")
    if replay_id is None or len(parts) != 4 or not parts[1].isdecimal() or not parts[2].isdecimal():
        return None
    broker, queue_id, offset, topic = parts
    return ReplayedFrom(replay_id, Queue(topic, broker, int(queue_id)), int(offset))
