"""Clusters, broker groups, and the registration of a broker. `skyrocket.protocol.broker_registration` has its packed form."""

from __future__ import annotations

from msgspec import field

from skyrocket.protocol.bodies.body import Body, Int64
from skyrocket.protocol.bodies.broker_stats import KVTable
from skyrocket.protocol.bodies.routes import BrokerData
from skyrocket.protocol.bodies.topics import TopicConfigAndMappingSerializeWrapper


class ClusterInfo(Body):
    broker_addr_table: dict[str, BrokerData] | None = None
    cluster_addr_table: dict[str, list[str]] | None = None


class BrokerMemberGroup(Body):
    cluster: str | None = None
    broker_name: str = ""
    broker_addrs: dict[Int64, str] = field(default_factory=dict)


class GetBrokerMemberGroupResponseBody(Body):
    broker_member_group: BrokerMemberGroup | None = None


class BrokerSyncInfo(Body):
    master_ha_address: str | None = None
    master_flush_offset: Int64 = 0
    master_address: str | None = None


class RegisterBrokerBody(Body):
    topic_config_serialize_wrapper: TopicConfigAndMappingSerializeWrapper = field(
        default_factory=TopicConfigAndMappingSerializeWrapper
    )
    filter_server_list: list[str] = field(default_factory=list)


class RegisterBrokerResult(Body):
    ha_server_addr: str | None = None
    master_addr: str | None = None
    kv_table: KVTable | None = None
