"""Topics and their settings, one or many."""

from __future__ import annotations

from enum import StrEnum

from msgspec import field

from skyrocket.protocol.bodies.body import Body, DataVersion, Int32, Int64
from skyrocket.protocol.bodies.static_topics import TopicQueueMappingDetail, TopicQueueMappingInfo


class TopicFilterType(StrEnum):
    SINGLE_TAG = "SINGLE_TAG"
    MULTI_TAG = "MULTI_TAG"


class TopicConfig(Body):
    topic_name: str = ""
    read_queue_nums: Int32 = 16
    write_queue_nums: Int32 = 16
    perm: Int32 = 6
    """Read 4, write 2, inherit 1."""
    topic_filter_type: TopicFilterType = TopicFilterType.SINGLE_TAG
    topic_sys_flag: Int32 = 0
    order: bool = False
    attributes: dict[str, str] = field(default_factory=dict)


class TopicConfigAndQueueMapping(TopicConfig):
    mapping_detail: TopicQueueMappingDetail | None = None


class CreateTopicListRequestBody(Body):
    topic_config_list: list[TopicConfig] | None = None


class TopicList(Body):
    topic_list: list[str] = field(default_factory=list)
    broker_addr: str | None = None


class TopicConfigSerializeWrapper(Body):
    topic_config_table: dict[str, TopicConfig] = field(default_factory=dict)
    data_version: DataVersion = field(default_factory=DataVersion)


class TopicConfigAndMappingSerializeWrapper(TopicConfigSerializeWrapper):
    topic_queue_mapping_info_map: dict[str, TopicQueueMappingInfo] = field(default_factory=dict)
    topic_queue_mapping_detail_map: dict[str, TopicQueueMappingDetail] = field(default_factory=dict)
    mapping_data_version: DataVersion = field(default_factory=DataVersion)


class TopicRemappingDetailWrapper(Body):
    topic: str = ""
    type: str | None = None
    epoch: Int64 = 0
    broker_config_map: dict[str, TopicConfigAndQueueMapping] = field(default_factory=dict)
    broker_to_map_in: list[str] = field(default_factory=list)
    broker_to_map_out: list[str] = field(default_factory=list)
