"""Clusters and broker groups: who belongs together."""

from __future__ import annotations

from msgspec import field

from skyrocket.protocol.bodies.body import Body, Int64
from skyrocket.protocol.bodies.routes import BrokerData


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
