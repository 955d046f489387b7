"""Message queues in bodies, as items of lists and as keys of maps; and queue locks of orderly consumers."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec
from msgspec import field

from skyrocket.protocol.bodies.body import Body, Int32, Int64


class MessageQueue:
    """One queue of one broker, hashable, and ordered as in Java (topic, broker, queue id).

    It is not a struct, because it is also a *key* of maps, for which msgspec only allows types that it decodes with a hook.
    """

    __slots__ = ("_hash", "broker_name", "queue_id", "topic")

    topic: Final[str]
    broker_name: Final[str]
    queue_id: Final[int]

    def __init__(self, topic: str, broker_name: str, queue_id: int) -> None:
        self.topic = topic
        self.broker_name = broker_name
        self.queue_id = queue_id
        self._hash = hash((topic, broker_name, queue_id))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MessageQueue):
            return NotImplemented
        return self._parts() == other._parts()

    def __lt__(self, other: MessageQueue) -> bool:
        return self._parts() < other._parts()

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"MessageQueue({self.topic!r}, {self.broker_name!r}, {self.queue_id})"

    def _parts(self) -> tuple[str, str, int]:
        return self.topic, self.broker_name, self.queue_id


class MessageQueueFields(Body):
    """The fields of a MessageQueue in JSON."""

    topic: str = ""
    broker_name: str = ""
    queue_id: Int32 = 0


class MessageQueueForC(Body):
    """A queue with its offset, for clients in C++, which have no maps with object keys."""

    topic: str = ""
    broker_name: str = ""
    queue_id: Int32 = 0
    offset: Int64 = 0


class MessageRequestMode(StrEnum):
    PULL = "PULL"
    POP = "POP"


class MessageQueueAssignment(Body):
    message_queue: MessageQueue | None = None
    mode: MessageRequestMode = MessageRequestMode.PULL
    attachments: dict[str, str] | None = None


class ResetOffsetBody(Body):
    offset_table: dict[MessageQueue, Int64] = msgspec.field(default_factory=dict)


class ResetOffsetBodyForC(Body):
    offset_table: list[MessageQueueForC] | None = None


class OffsetMovedEvent(Body):
    """The body of a message in OFFSET_MOVED_EVENT: a consumer asked for an offset outside its queue."""

    consumer_group: str = ""
    message_queue: MessageQueue | None = None
    offset_request: Int64 = 0
    offset_new: Int64 = 0


class LockBatchRequestBody(Body):
    consumer_group: str = ""
    client_id: str = ""
    only_this_broker: bool = False
    mq_set: list[MessageQueue] = field(default_factory=list)


class LockBatchResponseBody(Body):
    lock_ok_mq_set: list[MessageQueue] = field(name="lockOKMQSet", default_factory=list)


class UnlockBatchRequestBody(Body):
    consumer_group: str = ""
    client_id: str = ""
    only_this_broker: bool = False
    mq_set: list[MessageQueue] = field(default_factory=list)
