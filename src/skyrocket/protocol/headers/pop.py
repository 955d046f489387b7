"""Popping: a popped message is invisible to other consumers until it is acknowledged or its invisible time ends."""

from __future__ import annotations

from msgspec import field

from skyrocket.protocol.header import Header, Int32, Int64, TopicHeader
from skyrocket.protocol.permissions import GroupName, TopicName


class PopMessageRequestHeader(TopicHeader, kw_only=True):
    """200050: pop messages of one queue, or of any (queue -1)."""

    consumer_group: GroupName
    topic: TopicName
    queue_id: Int32
    max_msg_nums: Int32
    invisible_time: Int64
    poll_time: Int64
    born_time: Int64
    init_mode: Int32
    expression_type: str | None = field(name="expType", default=None)
    expression: str | None = field(name="exp", default=None)
    order: bool = False
    attempt_id: str | None = None


class PopMessageResponseHeader(Header, kw_only=True):
    """200050 and 200052: the three texts hold, per queue, what an acknowledgement must repeat."""

    pop_time: Int64
    invisible_time: Int64
    revive_qid: Int32
    rest_num: Int64
    start_offset_info: str | None = None
    msg_offset_info: str | None = None
    order_count_info: str | None = None


class AckMessageRequestHeader(TopicHeader, kw_only=True):
    """200051: acknowledge a popped message."""

    consumer_group: GroupName
    topic: TopicName
    queue_id: Int32
    extra_info: str
    offset: Int64
    lite_topic: str | None = None


class PeekMessageRequestHeader(TopicHeader, kw_only=True):
    """200052: read messages without popping them."""

    topic: TopicName
    queue_id: Int32
    max_msg_nums: Int32
    consumer_group: GroupName


class ChangeInvisibleTimeRequestHeader(TopicHeader, kw_only=True):
    """200053: change the invisible time of a popped message."""

    consumer_group: GroupName
    topic: TopicName
    queue_id: Int32
    extra_info: str
    offset: Int64
    invisible_time: Int64
    lite_topic: str | None = None
    suspend: bool = False


class ChangeInvisibleTimeResponseHeader(Header, kw_only=True):
    """200053: the response."""

    pop_time: Int64
    invisible_time: Int64
    revive_qid: Int32


class NotificationRequestHeader(TopicHeader, kw_only=True):
    """200054: wait until there are messages to pop."""

    consumer_group: GroupName
    topic: TopicName
    queue_id: Int32
    poll_time: Int64
    born_time: Int64
    order: bool = False
    attempt_id: str | None = None
    expression_type: str | None = field(name="expType", default=None)
    expression: str | None = field(name="exp", default=None)


class NotificationResponseHeader(Header, kw_only=True):
    """200054: the response."""

    has_msg: bool
    polling_full: bool = False


class PollingInfoRequestHeader(TopicHeader, kw_only=True):
    """200055: get the number of pops that wait at a queue."""

    consumer_group: GroupName
    topic: TopicName
    queue_id: Int32


class PollingInfoResponseHeader(Header, kw_only=True):
    """200055: the response."""

    polling_num: Int32
