"""The heartbeat of a client: its groups and subscriptions."""

from __future__ import annotations

from enum import StrEnum

from msgspec import field

from skyrocket.protocol.bodies.body import Body, Int32, Int64


class ConsumeType(StrEnum):
    CONSUME_ACTIVELY = "CONSUME_ACTIVELY"
    CONSUME_PASSIVELY = "CONSUME_PASSIVELY"
    CONSUME_POP = "CONSUME_POP"


class MessageModel(StrEnum):
    BROADCASTING = "BROADCASTING"
    CLUSTERING = "CLUSTERING"
    LITE_SELECTIVE = "LITE_SELECTIVE"


class ConsumeFromWhere(StrEnum):
    """Members are in Java's order, because a peer may send the number. The second to fourth are deprecated since 3.x."""

    CONSUME_FROM_LAST_OFFSET = "CONSUME_FROM_LAST_OFFSET"
    CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST = "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST"
    CONSUME_FROM_MIN_OFFSET = "CONSUME_FROM_MIN_OFFSET"
    CONSUME_FROM_MAX_OFFSET = "CONSUME_FROM_MAX_OFFSET"
    CONSUME_FROM_FIRST_OFFSET = "CONSUME_FROM_FIRST_OFFSET"
    CONSUME_FROM_TIMESTAMP = "CONSUME_FROM_TIMESTAMP"


class SubscriptionData(Body):
    class_filter_mode: bool = False
    topic: str = ""
    sub_string: str | None = None
    tags_set: list[str] = field(default_factory=list)
    code_set: list[Int32] = field(default_factory=list)
    """Java's hash of each tag."""
    sub_version: Int64 = 0
    expression_type: str = "TAG"


class ProducerData(Body):
    group_name: str = ""


class ConsumerData(Body):
    group_name: str = ""
    consume_type: ConsumeType | None = None
    message_model: MessageModel | None = None
    consume_from_where: ConsumeFromWhere | None = None
    subscription_data_set: list[SubscriptionData] = field(default_factory=list)
    unit_mode: bool = False


class HeartbeatData(Body):
    client_id: str = field(name="clientID", default="")
    producer_data_set: list[ProducerData] = field(default_factory=list)
    consumer_data_set: list[ConsumerData] = field(default_factory=list)
    heartbeat_fingerprint: Int32 = 0
    without_sub: bool = False
    """The JSON key differs from Java's field, `isWithoutSub`."""


class CheckClientRequestBody(Body):
    client_id: str = ""
    group: str = ""
    subscription_data: SubscriptionData | None = None
    namespace: str | None = None
