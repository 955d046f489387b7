"""Lite topics (5.5): many small topics under one parent."""

from __future__ import annotations

from enum import StrEnum

from skyrocket.protocol.bodies.body import Body, Int32, Int64
from skyrocket.protocol.bodies.consume_stats import OffsetWrapper, TopicOffset


class LiteSubscriptionAction(StrEnum):
    PARTIAL_ADD = "PARTIAL_ADD"
    PARTIAL_REMOVE = "PARTIAL_REMOVE"
    COMPLETE_ADD = "COMPLETE_ADD"
    COMPLETE_REMOVE = "COMPLETE_REMOVE"


class OffsetOptionType(StrEnum):
    POLICY = "POLICY"
    OFFSET = "OFFSET"
    TAIL_N = "TAIL_N"
    TIMESTAMP = "TIMESTAMP"


class OffsetOption(Body):
    type: OffsetOptionType | None = None
    value: Int64 = 0


class LiteSubscriptionDTO(Body):
    action: LiteSubscriptionAction | None = None
    client_id: str = ""
    group: str = ""
    topic: str = ""
    lite_topic_set: list[str] | None = None
    offset_option: OffsetOption | None = None
    version: Int64 = 0


class LiteSubscriptionCtlRequestBody(Body):
    subscription_set: list[LiteSubscriptionDTO] | None = None


class LiteLagInfo(Body):
    lite_topic: str = ""
    lag_count: Int64 = 0
    earliest_unconsumed_timestamp: Int64 = -1


class ClientGroup(Body):
    client_id: str = ""
    group: str = ""


class GetBrokerLiteInfoResponseBody(Body):
    store_type: str | None = None
    max_lmq_num: Int32 = 0
    current_lmq_num: Int32 = 0
    lite_subscription_count: Int32 = 0
    order_info_count: Int32 = 0
    cq_table_size: Int32 = 0
    offset_table_size: Int32 = 0
    event_map_size: Int32 = 0
    topic_meta: dict[str, Int32] | None = None
    group_meta: dict[str, list[str]] | None = None


class GetLiteClientInfoResponseBody(Body):
    parent_topic: str | None = None
    group: str | None = None
    client_id: str | None = None
    last_access_time: Int64 = 0
    last_consume_time: Int64 = 0
    lite_topic_count: Int32 = 0
    lite_topic_set: list[str] | None = None


class GetLiteGroupInfoResponseBody(Body):
    group: str | None = None
    parent_topic: str | None = None
    lite_topic: str | None = None
    earliest_unconsumed_timestamp: Int64 = -1
    total_lag_count: Int64 = 0
    lite_topic_offset_wrapper: OffsetWrapper | None = None
    lag_count_top_k: list[LiteLagInfo] | None = None
    lag_timestamp_top_k: list[LiteLagInfo] | None = None


class GetLiteTopicInfoResponseBody(Body):
    parent_topic: str | None = None
    lite_topic: str | None = None
    subscriber: list[ClientGroup] | None = None
    topic_offset: TopicOffset | None = None
    sharding_to_broker: bool = False


class GetParentTopicInfoResponseBody(Body):
    topic: str | None = None
    ttl: Int32 = 0
    groups: list[str] | None = None
    lmq_num: Int32 = 0
    lite_topic_count: Int32 = 0
