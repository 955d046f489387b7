"""Pulling messages, with long polling."""

from __future__ import annotations

from msgspec import field

from skyrocket.protocol.header import Header, Int32, Int64, TopicHeader
from skyrocket.protocol.permissions import GroupName, TopicName


class PullMessageRequestHeader(TopicHeader, kw_only=True):
    """11 and 361: pull messages of one queue from an offset on. Bits of the sys flag tell which other fields apply."""

    consumer_group: GroupName
    topic: TopicName
    lite_topic: str | None = None
    queue_id: Int32
    queue_offset: Int64
    max_msg_nums: Int32
    sys_flag: Int32
    commit_offset: Int64
    suspend_timeout_millis: Int64
    subscription: str | None = None
    sub_version: Int64
    expression_type: str | None = None
    max_msg_bytes: Int32 | None = None
    request_source: Int32 | None = None
    proxy_forward_client_id: str | None = field(name="proxyFrowardClientId", default=None)
    response_bytes_max: Int32 | None = None  # not Apache's: the client can take a response of this size; docs/protocol.md


class PullMessageResponseHeader(Header, kw_only=True):
    """11 and 361: the response, with the next offset even if no message was found."""

    suggest_which_broker_id: Int64
    next_begin_offset: Int64
    min_offset: Int64
    max_offset: Int64
    offset_delta: Int64 | None = None
    topic_sys_flag: Int32 | None = None
    group_sys_flag: Int32 | None = None
    forbidden_type: Int32 | None = None
