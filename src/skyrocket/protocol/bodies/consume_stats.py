"""Progress and lag of consumer groups."""

from __future__ import annotations

from msgspec import field

from skyrocket.protocol.bodies.body import Body, DataVersion, Int32, Int64
from skyrocket.protocol.bodies.heartbeat import SubscriptionData
from skyrocket.protocol.bodies.message_queues import MessageQueue


class OffsetWrapper(Body):
    broker_offset: Int64 = 0
    consumer_offset: Int64 = 0
    pull_offset: Int64 = 0
    last_timestamp: Int64 = 0


class ConsumeStats(Body):
    offset_table: dict[MessageQueue, OffsetWrapper] = field(default_factory=dict)
    consume_tps: float = 0.0


class ConsumeStatsList(Body):
    consume_stats_list: list[dict[str, list[ConsumeStats]]] = field(default_factory=list)
    broker_addr: str | None = None
    total_diff: Int64 = 0
    total_inflight_diff: Int64 = 0


class RollbackStats(Body):
    broker_name: str = ""
    queue_id: Int64 = 0
    broker_offset: Int64 = 0
    consumer_offset: Int64 = 0
    timestamp_offset: Int64 = 0
    rollback_offset: Int64 = 0


class TopicOffset(Body):
    min_offset: Int64 = 0
    max_offset: Int64 = 0
    last_update_timestamp: Int64 = 0


class TopicStatsTable(Body):
    topic_put_tps: float = 0.0
    offset_table: dict[MessageQueue, TopicOffset] = field(default_factory=dict)


class ConsumeByWho(Body):
    consumed_group: list[str] = field(default_factory=list)
    not_consumed_group: list[str] = field(default_factory=list)
    topic: str | None = None
    queue_id: Int32 = 0
    offset: Int64 = 0


class QueueTimeSpan(Body):
    """The three texts repeat the three times in the broker's time zone: `1970-01-01#00:00:00:002`."""

    message_queue: MessageQueue | None = None
    min_time_stamp: Int64 = 0
    min_time_stamp_str: str | None = None
    max_time_stamp: Int64 = 0
    max_time_stamp_str: str | None = None
    consume_time_stamp: Int64 = 0
    consume_time_stamp_str: str | None = None
    delay_time: Int64 = 0


class QueryConsumeTimeSpanBody(Body):
    consume_time_span_set: list[QueueTimeSpan] = field(default_factory=list)


class QueryCorrectionOffsetBody(Body):
    correction_offsets: dict[Int32, Int64] = field(default_factory=dict)


class GetConsumerStatusBody(Body):
    message_queue_table: dict[MessageQueue, Int64] = field(default_factory=dict)
    consumer_table: dict[str, dict[MessageQueue, Int64]] = field(default_factory=dict)


class ConsumerOffsetSerializeWrapper(Body):
    """The offsets that a master sends to its slaves: `topic@group` -> queue -> offset."""

    offset_table: dict[str, dict[Int32, Int64]] = field(default_factory=dict)
    data_version: DataVersion | None = None


class ConsumerOffsetManager(ConsumerOffsetSerializeWrapper):
    """Consumer offsets with every field of the file `consumerOffset.json`.

    Apache's master also sends this to its slaves. An Apache slave then fails to read it as soon as `pullOffsetTable` has an
    entry, because fastjson cannot skip a field that it does not know if there are integer keys inside. So send
    `ConsumerOffsetSerializeWrapper`.
    """

    group_topic_map: dict[str, list[str]] | None = None
    pull_offset_table: dict[str, dict[Int32, Int64]] | None = None


class OffsetSerializeWrapper(Body):
    """The file in which a broadcasting consumer stores its offsets."""

    offset_table: dict[MessageQueue, Int64] = field(default_factory=dict)


class ConsumeQueueData(Body):
    physic_offset: Int64 = 0
    physic_size: Int32 = 0
    tags_code: Int64 = 0
    extend_data_json: str | None = None
    bit_map: str | None = None
    eval: bool = False
    msg: str | None = None


class QueryConsumeQueueResponseBody(Body):
    subscription_data: SubscriptionData | None = None
    filter_data: str | None = None
    queue_data: list[ConsumeQueueData] | None = None
    max_queue_index: Int64 = 0
    min_queue_index: Int64 = 0
