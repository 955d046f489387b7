"""Routes: the brokers of a topic, and its queues on each."""

from __future__ import annotations

from msgspec import field

from skyrocket.protocol.bodies.body import Body, Int32, Int64
from skyrocket.protocol.bodies.static_topics import TopicQueueMappingInfo


class QueueData(Body):
    broker_name: str = ""
    read_queue_nums: Int32 = 0
    write_queue_nums: Int32 = 0
    perm: Int32 = 0
    topic_sys_flag: Int32 = 0


class BrokerData(Body):
    cluster: str | None = None
    broker_name: str = ""
    broker_addrs: dict[Int64, str] | None = None
    """Broker id -> address; the master is 0."""
    zone_name: str | None = None
    enable_acting_master: bool = False


class TopicRouteData(Body):
    order_topic_conf: str | None = None
    queue_datas: list[QueueData] = field(default_factory=list)
    broker_datas: list[BrokerData] = field(default_factory=list)
    filter_server_table: dict[str, list[str]] = field(default_factory=dict)
    topic_queue_mapping_by_broker: dict[str, TopicQueueMappingInfo] | None = None
