"""Requests to and from the controller, which elects masters."""

from __future__ import annotations

from skyrocket.protocol.header import Header, Int32, Int64
from skyrocket.protocol.permissions import ClusterName


class AlterSyncStateSetRequestHeader(Header, kw_only=True):
    """1001: a master reports which replicas are in sync."""

    broker_name: str | None = None
    master_broker_id: Int64 | None = None
    master_epoch: Int32 | None = None
    invoke_time: Int64 | None = None


class AlterSyncStateSetResponseHeader(Header, kw_only=True):
    """1001: the response."""

    new_sync_state_set_epoch: Int32 = 0


class ElectMasterRequestHeader(Header, kw_only=True):
    """1002: elect a master, or the given broker."""

    cluster_name: ClusterName
    broker_name: str
    broker_id: Int64
    designate_elect: bool
    invoke_time: Int64 | None = None


class ElectMasterResponseHeader(Header, kw_only=True):
    """1002: the response."""

    master_broker_id: Int64 | None = None
    master_address: str | None = None
    master_epoch: Int32 | None = None
    sync_state_set_epoch: Int32 | None = None


class RegisterBrokerToControllerRequestHeader(Header, kw_only=True):
    """1003: register a broker with its id."""

    cluster_name: ClusterName | None = None
    broker_name: str | None = None
    broker_id: Int64 | None = None
    broker_address: str | None = None
    invoke_time: Int64 | None = None


class RegisterBrokerToControllerResponseHeader(Header, kw_only=True):
    """1003: the response, with the current master."""

    cluster_name: str | None = None
    broker_name: str | None = None
    master_broker_id: Int64 | None = None
    master_address: str | None = None
    master_epoch: Int32 | None = None
    sync_state_set_epoch: Int32 | None = None


class GetReplicaInfoRequestHeader(Header, kw_only=True):
    """1004: the replicas of a broker name."""

    broker_name: str | None = None


class GetReplicaInfoResponseHeader(Header, kw_only=True):
    """1004: the response."""

    master_broker_id: Int64 | None = None
    master_address: str | None = None
    master_epoch: Int32 | None = None


class GetMetaDataResponseHeader(Header, kw_only=True):
    """1005: the controllers and their leader."""

    group: str | None = None
    controller_leader_id: str | None = None
    controller_leader_address: str | None = None
    is_leader: bool = False
    peers: str | None = None


class NotifyBrokerRoleChangedRequestHeader(Header, kw_only=True):
    """1008: the controller notifies a broker of the current master."""

    master_address: str | None = None
    master_epoch: Int32 | None = None
    sync_state_set_epoch: Int32 | None = None
    master_broker_id: Int64 | None = None


class CleanControllerBrokerDataRequestHeader(Header, kw_only=True):
    """1011: delete the data of a broker, or of some of its replicas."""

    cluster_name: ClusterName | None = None
    broker_name: str
    broker_controller_ids_to_clean: str | None = None
    is_clean_living_broker: bool = False
    invoke_time: Int64 | None = None


class GetNextBrokerIdRequestHeader(Header, kw_only=True):
    """1012: the id that a new broker may apply for."""

    cluster_name: ClusterName | None = None
    broker_name: str | None = None


class GetNextBrokerIdResponseHeader(Header, kw_only=True):
    """1012: the response."""

    cluster_name: str | None = None
    broker_name: str | None = None
    next_broker_id: Int64 | None = None


class ApplyBrokerIdRequestHeader(Header, kw_only=True):
    """1013: apply for a broker id."""

    cluster_name: ClusterName | None = None
    broker_name: str | None = None
    applied_broker_id: Int64 | None = None
    register_check_code: str | None = None


class ApplyBrokerIdResponseHeader(Header, kw_only=True):
    """1013: the response."""

    cluster_name: str | None = None
    broker_name: str | None = None
