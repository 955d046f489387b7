"""Subscription groups: list, get, delete, and forbid a topic."""

from __future__ import annotations

from skyrocket.protocol.header import Header, Int32, RpcHeader, TopicHeader
from skyrocket.protocol.permissions import GroupName, TopicName


class GetAllSubscriptionGroupRequestHeader(Header, kw_only=True):
    """201: list a page of a broker's groups. Older versions send no header, and get all groups on one page."""

    group_seq: Int32 | None = None
    data_version: str | None = None
    max_group_num: Int32 | None = None


class GetAllSubscriptionGroupResponseHeader(Header, kw_only=True):
    """201: the response, with the number of groups on all pages. Older versions omit it."""

    total_group_num: Int32 | None = None


class GetSubscriptionGroupConfigRequestHeader(RpcHeader, kw_only=True):
    """352: get a group's configuration."""

    group: GroupName


class DeleteSubscriptionGroupRequestHeader(RpcHeader, kw_only=True):
    """207: delete a group, and its offsets if requested."""

    group_name: GroupName
    clean_offset: bool = False


class UpdateGroupForbiddenRequestHeader(TopicHeader, kw_only=True):
    """353: forbid a group to read a topic, or allow it again."""

    group: GroupName
    topic: TopicName
    readable: bool | None = None


class QueryTopicsByConsumerRequestHeader(RpcHeader, kw_only=True):
    """343: list the topics that a group consumes."""

    group: GroupName


class QuerySubscriptionByConsumerRequestHeader(TopicHeader, kw_only=True):
    """345: get the subscriptions of a group."""

    group: GroupName
    topic: TopicName | None = None
