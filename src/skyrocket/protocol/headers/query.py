"""Queries of messages by key, id or offset, and direct consumption of one message."""

from __future__ import annotations

from msgspec import field

from skyrocket.protocol.header import Header, Int32, Int64, TopicHeader
from skyrocket.protocol.permissions import GroupName, TopicName


class QueryMessageRequestHeader(TopicHeader, kw_only=True):
    """12: query messages by key within a time range."""

    topic: TopicName
    key: str
    max_num: Int32
    begin_timestamp: Int64
    end_timestamp: Int64
    index_type: str | None = None
    last_key: str | None = None
    unique_key_query: bool | None = field(name="_UNIQUE_KEY_QUERY", default=None)  # added beside Java's header class


class QueryMessageResponseHeader(Header, kw_only=True):
    """12: the response, with the progress of the key index."""

    index_last_update_timestamp: Int64
    index_last_update_phyoffset: Int64


class ViewMessageRequestHeader(Header, kw_only=True):
    """33: get the message at an offset of the commit log."""

    topic: TopicName | None = None
    offset: Int64


class ViewMessageResponseHeader(Header):
    """33: an empty header; the body has the message."""


class QueryConsumeQueueRequestHeader(TopicHeader, kw_only=True):
    """321: get entries of a consume queue as stored on disk."""

    topic: TopicName | None = None
    queue_id: Int32 = 0
    index: Int64 = 0
    count: Int32 = 0
    consumer_group: GroupName | None = None


class ConsumeMessageDirectlyResultRequestHeader(TopicHeader, kw_only=True):
    """309: make a consumer handle one message now, and return the result."""

    consumer_group: GroupName
    client_id: str | None = None
    msg_id: str | None = None
    broker_name: str | None = None
    topic: TopicName | None = None
    topic_sys_flag: Int32 | None = None
    group_sys_flag: Int32 | None = None
