"""Replica sets, exchanged between brokers and the controller."""

from __future__ import annotations

from msgspec import field

from skyrocket.protocol.bodies.body import Body, Int32, Int64
from skyrocket.protocol.bodies.cluster import BrokerMemberGroup


class SyncStateSet(Body):
    """Java cannot decode this body without the set."""

    sync_state_set: list[Int64] = field(default_factory=list)
    sync_state_set_epoch: Int32 = 0


class ElectMasterResponseBody(Body):
    broker_member_group: BrokerMemberGroup | None = None
    sync_state_set: list[Int64] = field(default_factory=list)


class RoleChangeNotifyEntry(Body):
    broker_member_group: BrokerMemberGroup | None = None
    master_address: str | None = None
    master_broker_id: Int64 | None = None
    master_epoch: Int32 = 0
    sync_state_set_epoch: Int32 = 0
    sync_state_set: list[Int64] | None = None


class EpochEntry(Body):
    epoch: Int32 = 0
    start_offset: Int64 = 0
    end_offset: Int64 = 2**63 - 1


class EpochEntryCache(Body):
    cluster_name: str | None = None
    broker_name: str = ""
    broker_id: Int64 = 0
    epoch_list: list[EpochEntry] | None = None
    max_offset: Int64 = 0


class ReplicaIdentity(Body):
    broker_name: str = ""
    broker_id: Int64 | None = None
    broker_address: str | None = None
    alive: bool = False


class ReplicasInfo(Body):
    master_broker_id: Int64 | None = None
    master_address: str | None = None
    master_epoch: Int32 = 0
    sync_state_set_epoch: Int32 = 0
    in_sync_replicas: list[ReplicaIdentity] | None = None
    not_in_sync_replicas: list[ReplicaIdentity] | None = None


class BrokerReplicasInfo(Body):
    replicas_info_table: dict[str, ReplicasInfo] = field(default_factory=dict)
