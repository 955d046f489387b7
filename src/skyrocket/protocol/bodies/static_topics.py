"""Static topics: logical queues that map to queues of several brokers."""

from __future__ import annotations

from msgspec import field

from skyrocket.protocol.bodies.body import Body, DataVersion, Int32, Int64


class LogicQueueMappingItem(Body):
    gen: Int32 = 0
    queue_id: Int32 = 0
    bname: str | None = None
    logic_offset: Int64 = 0
    start_offset: Int64 = 0
    end_offset: Int64 = -1
    time_of_start: Int64 = -1
    time_of_end: Int64 = -1


class TopicQueueMappingInfo(Body):
    topic: str | None = None
    scope: str = "__global__"
    total_queues: Int32 = 0
    bname: str | None = None
    epoch: Int64 = 0
    dirty: bool = False
    curr_id_map: dict[Int32, Int32] = field(default_factory=dict)
    """Logical queue -> queue of the broker."""


class TopicQueueMappingDetail(TopicQueueMappingInfo):
    hosted_queues: dict[Int32, list[LogicQueueMappingItem]] = field(default_factory=dict)


class TopicQueueMappingOne(Body):
    topic: str | None = None
    bname: str | None = None
    global_id: Int32 | None = None
    items: list[LogicQueueMappingItem] | None = None
    mapping_detail: TopicQueueMappingDetail | None = None


class TopicQueueMappingSerializeWrapper(Body):
    topic_queue_mapping_info_map: dict[str, TopicQueueMappingDetail] | None = None
    data_version: DataVersion = field(default_factory=DataVersion)
