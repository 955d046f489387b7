"""Lite topics (5.5): many small topics under one parent, popped by the consumers that subscribed to them."""

from __future__ import annotations

from skyrocket.protocol.header import Header, Int32, Int64, RpcHeader
from skyrocket.protocol.permissions import GroupName, TopicName


class PopLiteMessageRequestHeader(RpcHeader, kw_only=True):
    """200070: messages of the lite topics that a client subscribed to."""

    client_id: str
    consumer_group: GroupName
    topic: TopicName
    max_msg_num: Int32
    invisible_time: Int64
    poll_time: Int64
    born_time: Int64
    attempt_id: str | None = None


class PopLiteMessageResponseHeader(Header, kw_only=True):
    """200070: the answer."""

    pop_time: Int64
    invisible_time: Int64
    revive_qid: Int32
    start_offset_info: str | None = None
    msg_offset_info: str | None = None
    order_count_info: str | None = None


class LiteSubscriptionCtlRequestHeader(RpcHeader):
    """200071: subscribe and unsubscribe; the changes are the body."""


class NotifyUnsubscribeLiteRequestHeader(RpcHeader, kw_only=True):
    """200073: the broker tells a client that a subscription of its has ended."""

    lite_topic: str
    consumer_group: GroupName
    client_id: str


class GetParentTopicInfoRequestHeader(Header, kw_only=True):
    """200075: a parent topic, its groups and how many lite topics it has."""

    topic: TopicName


class GetLiteTopicInfoRequestHeader(Header, kw_only=True):
    """200076: a lite topic, its subscribers and offsets."""

    parent_topic: str | None = None
    lite_topic: str | None = None


class GetLiteClientInfoRequestHeader(Header, kw_only=True):
    """200077: the lite topics that a client subscribed to."""

    parent_topic: str | None = None
    group: str | None = None
    client_id: str | None = None
    max_count: Int32 = 1000


class GetLiteGroupInfoRequestHeader(Header, kw_only=True):
    """200078: how far a group is behind, and on which lite topics most."""

    group: GroupName
    lite_topic: str | None = None
    top_k: Int32 = 0


class TriggerLiteDispatchRequestHeader(Header, kw_only=True):
    """200079: hand a group, or one of its clients, what waits for it."""

    group: GroupName
    client_id: str | None = None
