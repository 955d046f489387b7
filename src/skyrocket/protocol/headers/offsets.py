"""Offsets: of queues (first, last, by time) and of consumer groups (read, committed, reset, cloned)."""

from __future__ import annotations

from enum import StrEnum

from skyrocket.protocol.header import Header, Int32, Int64, RpcHeader, TopicHeader
from skyrocket.protocol.permissions import GroupName, GroupNames, TopicName


class QueryConsumerOffsetRequestHeader(TopicHeader, kw_only=True):
    """14: how far a group has consumed a queue."""

    consumer_group: GroupName
    topic: TopicName
    queue_id: Int32
    set_zero_if_not_found: bool | None = None


class QueryConsumerOffsetResponseHeader(Header, kw_only=True):
    """14: the answer."""

    offset: Int64


class UpdateConsumerOffsetRequestHeader(TopicHeader, kw_only=True):
    """15: a group has consumed a queue up to here."""

    consumer_group: GroupName
    topic: TopicName
    queue_id: Int32
    commit_offset: Int64


class UpdateConsumerOffsetResponseHeader(Header):
    """15: nothing."""


class BoundaryType(StrEnum):
    """Which of several messages of the same moment."""

    LOWER = "LOWER"
    UPPER = "UPPER"

    @classmethod
    def _missing_(cls, value: object) -> BoundaryType:
        """As Java reads it: letters may be small, and whatever is not UPPER is LOWER."""
        return cls.UPPER if isinstance(value, str) and value.upper() == "UPPER" else cls.LOWER


class SearchOffsetRequestHeader(TopicHeader, kw_only=True):
    """29: the offset of the first or last message of a moment."""

    topic: TopicName
    lite_topic: str | None = None
    queue_id: Int32
    timestamp: Int64
    boundary_type: BoundaryType | None = None


class SearchOffsetResponseHeader(Header, kw_only=True):
    """29: the answer."""

    offset: Int64


class GetMaxOffsetRequestHeader(TopicHeader, kw_only=True):
    """30: one past the last message of a queue."""

    topic: TopicName
    queue_id: Int32
    committed: bool = True


class GetMaxOffsetResponseHeader(Header, kw_only=True):
    """30: the answer."""

    offset: Int64


class GetMinOffsetRequestHeader(TopicHeader, kw_only=True):
    """31: the first message of a queue that is still there."""

    topic: TopicName
    queue_id: Int32


class GetMinOffsetResponseHeader(Header, kw_only=True):
    """31: the answer."""

    offset: Int64


class GetEarliestMsgStoretimeRequestHeader(TopicHeader, kw_only=True):
    """32: when the first message of a queue was stored."""

    topic: TopicName
    queue_id: Int32


class GetEarliestMsgStoretimeResponseHeader(Header, kw_only=True):
    """32: the answer."""

    timestamp: Int64


class ResetOffsetRequestHeader(TopicHeader, kw_only=True):
    """222, and 220 from the broker to each consumer: go back, or ahead, to a moment or an offset."""

    group: GroupName
    topic: TopicName
    queue_id: Int32 = -1
    offset: Int64 | None = None
    timestamp: Int64
    is_force: bool


class GetConsumerStatusRequestHeader(TopicHeader, kw_only=True):
    """223, and 221 from the broker to each consumer: offsets as the consumers themselves see them."""

    topic: TopicName
    group: GroupName
    client_addr: str | None = None


class CloneGroupOffsetRequestHeader(RpcHeader, kw_only=True):
    """314: give a group the offsets of another."""

    src_group: str
    dest_group: GroupName
    topic: TopicName | None = None
    offline: bool = False


class QueryCorrectionOffsetHeader(TopicHeader, kw_only=True):
    """308: the lowest offsets among groups, where a consumer would have to go back to."""

    filter_groups: GroupNames | None = None
    compare_group: GroupName
    topic: TopicName


class QueryConsumeTimeSpanRequestHeader(TopicHeader, kw_only=True):
    """303: from when to when a queue's messages are, and when the group's last one was stored."""

    topic: TopicName
    group: GroupName
