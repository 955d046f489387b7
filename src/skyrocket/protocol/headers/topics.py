"""Topics: get their routes; create, list, get and delete them at brokers and at the nameserver."""

from __future__ import annotations

from skyrocket.protocol.header import Header, Int32, RpcHeader, TopicHeader
from skyrocket.protocol.permissions import ClusterName, TopicName


class GetRouteInfoRequestHeader(TopicHeader, kw_only=True):
    """105: get a topic's route."""

    topic: TopicName
    accept_standard_json_only: bool | None = None


class CreateTopicRequestHeader(TopicHeader, kw_only=True):
    """17, and 513 for a static topic: create or change a topic."""

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
    """18: create or change the topics in the body."""


class DeleteTopicRequestHeader(TopicHeader, kw_only=True):
    """215: delete a topic at a broker."""

    topic: TopicName


class DeleteTopicFromNamesrvRequestHeader(TopicHeader, kw_only=True):
    """216: delete a topic's route at the nameserver, in one cluster or in all."""

    topic: str
    cluster_name: ClusterName | None = None


class RegisterTopicRequestHeader(TopicHeader, kw_only=True):
    """217: register a topic's route at the nameserver outside of a broker's registration."""

    topic: str


class GetAllTopicConfigRequestHeader(Header, kw_only=True):
    """21: list a page of a broker's topics. Older versions send no header, and get all topics on one page."""

    topic_seq: Int32 | None = None
    data_version: str | None = None
    max_topic_num: Int32 | None = None


class GetAllTopicConfigResponseHeader(Header, kw_only=True):
    """21: the response, with the number of topics on all pages. Older versions omit it."""

    total_topic_num: Int32 | None = None


class GetTopicConfigRequestHeader(TopicHeader, kw_only=True):
    """351: get a topic's configuration."""

    topic: TopicName


class GetTopicStatsInfoRequestHeader(TopicHeader, kw_only=True):
    """202: get the first and last offsets of each queue."""

    topic: TopicName


class GetTopicsByClusterRequestHeader(Header, kw_only=True):
    """224: list the topics of a cluster."""

    cluster: str


class QueryTopicConsumeByWhoRequestHeader(TopicHeader, kw_only=True):
    """300: list the groups that consume a topic."""

    topic: TopicName
