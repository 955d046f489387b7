"""Routes: the question that every client begins with.

Topics: made, listed, described and deleted, at brokers and at the name server.
"""

from __future__ import annotations

from skyrocket.protocol.header import Header, Int32, RpcHeader, TopicHeader
from skyrocket.protocol.permissions import ClusterName, TopicName


class GetRouteInfoRequestHeader(TopicHeader, kw_only=True):
    """105: which brokers have a topic."""

    topic: TopicName
    accept_standard_json_only: bool | None = None


class CreateTopicRequestHeader(TopicHeader, kw_only=True):
    """17, and 513 for a static topic: make a topic, or change it."""

    topic: TopicName
    default_topic: str
    read_queue_nums: Int32
    write_queue_nums: Int32
    perm: Int32
    topic_filter_type: str
    topic_sys_flag: Int32 | None = None
    order: bool
    attributes: str | None = None
    force: bool = False


class CreateTopicListRequestHeader(RpcHeader):
    """18: several at once; they are in the body."""


class DeleteTopicRequestHeader(TopicHeader, kw_only=True):
    """215: delete a topic at a broker."""

    topic: TopicName


class DeleteTopicFromNamesrvRequestHeader(TopicHeader, kw_only=True):
    """216: forget a topic's route at the name server, in one cluster or in all."""

    topic: str
    cluster_name: ClusterName | None = None


class RegisterTopicRequestHeader(TopicHeader, kw_only=True):
    """217: a topic's route given to the name server outside of a broker's registration."""

    topic: str


class GetAllTopicConfigRequestHeader(Header, kw_only=True):
    """21: a page of a broker's topics. Older versions send no header, and get all on one page."""

    topic_seq: Int32 | None = None
    data_version: str | None = None
    max_topic_num: Int32 | None = None


class GetAllTopicConfigResponseHeader(Header, kw_only=True):
    """21: how many topics there are on all pages. Older versions do not say."""

    total_topic_num: Int32 | None = None


class GetTopicConfigRequestHeader(TopicHeader, kw_only=True):
    """351: one topic's configuration."""

    topic: TopicName


class GetTopicStatsInfoRequestHeader(TopicHeader, kw_only=True):
    """202: first and last offsets of each queue."""

    topic: TopicName


class GetTopicsByClusterRequestHeader(Header, kw_only=True):
    """224: the topics of a cluster."""

    cluster: str


class QueryTopicConsumeByWhoRequestHeader(TopicHeader, kw_only=True):
    """300: the groups that consume a topic."""

    topic: TopicName
