"""Brokers at the nameserver: registration, heartbeats, broker groups, and write permission."""

from __future__ import annotations

from skyrocket.protocol.header import Header, Int32, Int64
from skyrocket.protocol.permissions import ClusterName


class RegisterBrokerRequestHeader(Header, kw_only=True):
    """103: register a broker; the body has its topics."""

    broker_name: str
    broker_addr: str
    cluster_name: ClusterName
    ha_server_addr: str
    broker_id: Int64
    heartbeat_timeout_millis: Int64 | None = None
    enable_acting_master: bool | None = None
    compressed: bool = False
    body_crc32: Int32 = 0


class RegisterBrokerResponseHeader(Header, kw_only=True):
    """103: the response, with the master that a slave follows."""

    ha_server_addr: str | None = None
    master_addr: str | None = None


class UnRegisterBrokerRequestHeader(Header, kw_only=True):
    """104: unregister a broker."""

    broker_name: str
    broker_addr: str
    cluster_name: ClusterName
    broker_id: Int64


class QueryDataVersionRequestHeader(Header, kw_only=True):
    """322: ask whether the nameserver has the broker's latest topics."""

    broker_name: str
    broker_addr: str
    cluster_name: ClusterName
    broker_id: Int64


class QueryDataVersionResponseHeader(Header, kw_only=True):
    """322: the response."""

    changed: bool


class BrokerHeartbeatRequestHeader(Header, kw_only=True):
    """904: a broker's heartbeat to the nameserver, or to the controller with the end of its log."""

    cluster_name: ClusterName
    broker_addr: str
    broker_name: str
    broker_id: Int64 | None = None
    epoch: Int32 | None = None
    max_offset: Int64 | None = None
    confirm_offset: Int64 | None = None
    heartbeat_timeout_mills: Int64 | None = None
    election_priority: Int32 | None = None


class GetBrokerMemberGroupRequestHeader(Header, kw_only=True):
    """901: get the master and slaves of a broker name."""

    cluster_name: ClusterName
    broker_name: str


class NotifyMinBrokerIdChangeRequestHeader(Header, kw_only=True):
    """905: the nameserver notifies brokers which of them acts as master."""

    min_broker_id: Int64 | None = None
    broker_name: str | None = None
    min_broker_addr: str | None = None
    offline_broker_addr: str | None = None
    ha_broker_addr: str | None = None


class WipeWritePermOfBrokerRequestHeader(Header, kw_only=True):
    """205: remove write permission from a broker."""

    broker_name: str


class WipeWritePermOfBrokerResponseHeader(Header, kw_only=True):
    """205: the response, with the number of changed topics."""

    wipe_topic_count: Int32


class AddWritePermOfBrokerRequestHeader(Header, kw_only=True):
    """327: restore write permission of a broker."""

    broker_name: str


class AddWritePermOfBrokerResponseHeader(Header, kw_only=True):
    """327: the response, with the number of changed topics."""

    add_topic_count: Int32
