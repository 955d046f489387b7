"""Brokers at the name server: registered, alive, grouped, and closed for writing."""

from __future__ import annotations

from skyrocket.protocol.header import Header, Int32, Int64
from skyrocket.protocol.permissions import ClusterName


class RegisterBrokerRequestHeader(Header, kw_only=True):
    """103: a broker and its topics; the topics are the body."""

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
    """103: the master, for a slave to follow."""

    ha_server_addr: str | None = None
    master_addr: str | None = None


class UnRegisterBrokerRequestHeader(Header, kw_only=True):
    """104: a broker leaves."""

    broker_name: str
    broker_addr: str
    cluster_name: ClusterName
    broker_id: Int64


class QueryDataVersionRequestHeader(Header, kw_only=True):
    """322: does the name server have the broker's latest topics?"""

    broker_name: str
    broker_addr: str
    cluster_name: ClusterName
    broker_id: Int64


class QueryDataVersionResponseHeader(Header, kw_only=True):
    """322: the answer."""

    changed: bool


class BrokerHeartbeatRequestHeader(Header, kw_only=True):
    """904: a broker is alive, told to the name server, or to the controller with how far its log has come."""

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
    """901: the master and slaves of one broker name."""

    cluster_name: ClusterName
    broker_name: str


class NotifyMinBrokerIdChangeRequestHeader(Header, kw_only=True):
    """905: the name server tells brokers which of them acts as master now."""

    min_broker_id: Int64 | None = None
    broker_name: str | None = None
    min_broker_addr: str | None = None
    offline_broker_addr: str | None = None
    ha_broker_addr: str | None = None


class WipeWritePermOfBrokerRequestHeader(Header, kw_only=True):
    """205: no more writes to a broker."""

    broker_name: str


class WipeWritePermOfBrokerResponseHeader(Header, kw_only=True):
    """205: how many topics that changed."""

    wipe_topic_count: Int32


class AddWritePermOfBrokerRequestHeader(Header, kw_only=True):
    """327: writes to a broker again."""

    broker_name: str


class AddWritePermOfBrokerResponseHeader(Header, kw_only=True):
    """327: how many topics that changed."""

    add_topic_count: Int32
