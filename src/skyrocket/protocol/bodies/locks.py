"""Queue locks of orderly consumers."""

from __future__ import annotations

from msgspec import field

from skyrocket.protocol.bodies.body import Body
from skyrocket.protocol.bodies.message_queues import MessageQueue


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
