"""Rebalancing by the broker: the queues of a consumer, and whether it pulls or pops them."""

from __future__ import annotations

from msgspec import field

from skyrocket.protocol.bodies.body import Body, Int32
from skyrocket.protocol.bodies.heartbeat import MessageModel
from skyrocket.protocol.bodies.message_queues import MessageQueueAssignment, MessageRequestMode


class QueryAssignmentRequestBody(Body):
    topic: str = ""
    consumer_group: str = ""
    client_id: str = ""
    strategy_name: str | None = None
    message_model: MessageModel | None = None


class QueryAssignmentResponseBody(Body):
    message_queue_assignments: list[MessageQueueAssignment] | None = None


class SetMessageRequestModeRequestBody(Body):
    topic: str = ""
    consumer_group: str = ""
    mode: MessageRequestMode = MessageRequestMode.PULL
    pop_share_queue_num: Int32 = 0


class MessageRequestModeSerializeWrapper(Body):
    """Topic -> group -> mode."""

    message_request_mode_map: dict[str, dict[str, SetMessageRequestModeRequestBody]] = field(default_factory=dict)
