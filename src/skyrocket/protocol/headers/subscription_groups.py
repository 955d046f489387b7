"""Subscription groups: listed, described, deleted, forbidden a topic."""

from __future__ import annotations

from skyrocket.protocol.header import Header, Int32, RpcHeader, TopicHeader
from skyrocket.protocol.permissions import GroupName, TopicName


class GetAllSubscriptionGroupRequestHeader(Header, kw_only=True):
    """201: a page of a broker's groups. Older versions send no header, and get all on one page."""

    group_seq: Int32 | None = None
    data_version: str | None = None
    max_group_num: Int32 | None = None


class GetAllSubscriptionGroupResponseHeader(Header, kw_only=True):
    """201: how many groups there are on all pages. Older versions do not say."""

    total_group_num: Int32 | None = None


class GetSubscriptionGroupConfigRequestHeader(RpcHeader, kw_only=True):
    """352: one group's configuration."""

    group: GroupName


class DeleteSubscriptionGroupRequestHeader(RpcHeader, kw_only=True):
    """207: delete a group, with its offsets if told so."""

    group_name: GroupName
    clean_offset: bool = False


class UpdateGroupForbiddenRequestHeader(TopicHeader, kw_only=True):
    """353: forbid a group to read a topic, or allow it again."""

    group: GroupName
    topic: TopicName
    readable: bool | None = None


class QueryTopicsByConsumerRequestHeader(RpcHeader, kw_only=True):
    """343: the topics that a group consumes."""

    group: GroupName


class QuerySubscriptionByConsumerRequestHeader(TopicHeader, kw_only=True):
    """345: what a group has subscribed to."""

    group: GroupName
    topic: TopicName | None = None
