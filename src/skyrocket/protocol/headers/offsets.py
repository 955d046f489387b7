"""Offsets: of queues (first, last, by time) and of consumer groups (read, committed, reset, cloned)."""

from __future__ import annotations

from enum import StrEnum

from skyrocket.protocol.header import Header, Int32, Int64, RpcHeader, TopicHeader
from skyrocket.protocol.permissions import GroupName, GroupNames, TopicName


class QueryConsumerOffsetRequestHeader(TopicHeader, kw_only=True):
    """14: get a group's offset in a queue."""

    consumer_group: GroupName
    topic: TopicName
    queue_id: Int32
    set_zero_if_not_found: bool | None = None


class QueryConsumerOffsetResponseHeader(Header, kw_only=True):
    """14: the response."""

    offset: Int64


class UpdateConsumerOffsetRequestHeader(TopicHeader, kw_only=True):
    """15: commit a group's offset in a queue."""

    consumer_group: GroupName
    topic: TopicName
    queue_id: Int32
    commit_offset: Int64


class UpdateConsumerOffsetResponseHeader(Header):
    """15: an empty response."""


class BoundaryType(StrEnum):
    """Which of several messages with the same timestamp to choose."""

    LOWER = "LOWER"
    UPPER = "UPPER"

    @classmethod
    def _missing_(cls, value: object) -> BoundaryType:
        """Parse a value as Java does: case does not matter, and any text but UPPER is LOWER."""
        return cls.UPPER if isinstance(value, str) and value.upper() == "UPPER" else cls.LOWER


class SearchOffsetRequestHeader(TopicHeader, kw_only=True):
    """29: find the offset of the first or last message of a timestamp."""

    topic: TopicName
    lite_topic: str | None = None
    queue_id: Int32
    timestamp: Int64
    boundary_type: BoundaryType | None = None


class SearchOffsetResponseHeader(Header, kw_only=True):
    """29: the response."""

    offset: Int64


class GetMaxOffsetRequestHeader(TopicHeader, kw_only=True):
    """30: get the offset after the last message of a queue."""

    topic: TopicName
    queue_id: Int32
    committed: bool = True


class GetMaxOffsetResponseHeader(Header, kw_only=True):
    """30: the response."""

    offset: Int64


class GetMinOffsetRequestHeader(TopicHeader, kw_only=True):
    """31: get the offset of the first message of a queue."""

    topic: TopicName
    queue_id: Int32


class GetMinOffsetResponseHeader(Header, kw_only=True):
    """31: the response."""

    offset: Int64


class GetEarliestMsgStoretimeRequestHeader(TopicHeader, kw_only=True):
    """32: get the store time of the first message of a queue."""

    topic: TopicName
    queue_id: Int32


class GetEarliestMsgStoretimeResponseHeader(Header, kw_only=True):
    """32: the response."""

    timestamp: Int64


class ResetOffsetRequestHeader(TopicHeader, kw_only=True):
    """222, and 220 from the broker to each consumer: reset offsets to a timestamp or an offset."""

    group: GroupName
    topic: TopicName
    queue_id: Int32 = -1
    offset: Int64 | None = None
    timestamp: Int64
    is_force: bool


class GetConsumerStatusRequestHeader(TopicHeader, kw_only=True):
    """223, and 221 from the broker to each consumer: get the offsets in the memory of the consumers."""

    topic: TopicName
    group: GroupName
    client_addr: str | None = None


class CloneGroupOffsetRequestHeader(RpcHeader, kw_only=True):
    """314: copy the offsets of a group to another."""

    src_group: str
    dest_group: GroupName
    topic: TopicName | None = None
    offline: bool = False


class QueryCorrectionOffsetHeader(TopicHeader, kw_only=True):
    """308: get the lowest offsets among groups, to which a consumer has to reset."""

    filter_groups: GroupNames | None = None
    compare_group: GroupName
    topic: TopicName


class QueryConsumeTimeSpanRequestHeader(TopicHeader, kw_only=True):
    """303: get the first and last store time of each queue, and that of the group's last message."""

    topic: TopicName
    group: GroupName
