"""Lite topics (5.5): many small topics under one parent, popped by the consumers that subscribed to them."""

from __future__ import annotations

from skyrocket.protocol.header import Header, Int32, Int64, RpcHeader
from skyrocket.protocol.permissions import GroupName, TopicName


class PopLiteMessageRequestHeader(RpcHeader, kw_only=True):
    """200070: pop messages of the lite topics that a client subscribes to."""

    client_id: str
    consumer_group: GroupName
    topic: TopicName
    max_msg_num: Int32
    invisible_time: Int64
    poll_time: Int64
    born_time: Int64
    attempt_id: str | None = None


class PopLiteMessageResponseHeader(Header, kw_only=True):
    """200070: the response."""

    pop_time: Int64
    invisible_time: Int64
    revive_qid: Int32
    start_offset_info: str | None = None
    msg_offset_info: str | None = None
    order_count_info: str | None = None


class LiteSubscriptionCtlRequestHeader(RpcHeader):
    """200071: subscribe and unsubscribe; the body has the changes."""


class NotifyUnsubscribeLiteRequestHeader(RpcHeader, kw_only=True):
    """200073: the broker notifies a client that a subscription has ended."""

    lite_topic: str
    consumer_group: GroupName
    client_id: str


class GetParentTopicInfoRequestHeader(Header, kw_only=True):
    """200075: get a parent topic, with its groups and number of lite topics."""

    topic: TopicName


class GetLiteTopicInfoRequestHeader(Header, kw_only=True):
    """200076: get a lite topic, with its subscribers and offsets."""

    parent_topic: str | None = None
    lite_topic: str | None = None


class GetLiteClientInfoRequestHeader(Header, kw_only=True):
    """200077: list the lite topics that a client subscribes to."""

    parent_topic: str | None = None
    group: str | None = None
    client_id: str | None = None
    max_count: Int32 = 1000


class GetLiteGroupInfoRequestHeader(Header, kw_only=True):
    """200078: get the lag of a group, and the lite topics with the largest lag."""

    group: GroupName
    lite_topic: str | None = None
    top_k: Int32 = 0


class TriggerLiteDispatchRequestHeader(Header, kw_only=True):
    """200079: dispatch waiting messages to a group, or to one of its clients."""

    group: GroupName
    client_id: str | None = None
