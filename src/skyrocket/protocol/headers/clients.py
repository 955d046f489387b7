"""Clients: heartbeats, members of groups, queue locks, and administration of them."""

from __future__ import annotations

from msgspec import field

from skyrocket.protocol.header import Header, RpcHeader
from skyrocket.protocol.permissions import GroupName


class HeartbeatRequestHeader(RpcHeader):
    """34: a client's heartbeat; the body has its groups and subscriptions."""


class HeartbeatResponseHeader(Header, kw_only=True):
    """34: the fields that 5.x brokers add to their response. Java has no class for it."""

    is_support_heart_beat_v2: bool | None = field(name="IS_SUPPORT_HEART_BEAT_V2", default=None)
    is_sub_change: bool | None = field(name="IS_SUB_CHANGE", default=None)


class UnregisterClientRequestHeader(RpcHeader, kw_only=True):
    """35: a client leaves a group."""

    client_id: str = field(name="clientID")
    producer_group: str | None = None
    consumer_group: GroupName | None = None


class UnregisterClientResponseHeader(Header):
    """35: an empty response."""


class GetConsumerListByGroupRequestHeader(RpcHeader, kw_only=True):
    """38: the members of a group."""

    consumer_group: GroupName


class GetConsumerListByGroupResponseHeader(Header):
    """38: an empty header; the body has the members."""


class NotifyConsumerIdsChangedRequestHeader(RpcHeader, kw_only=True):
    """40: the broker notifies a group's members that the group has changed."""

    consumer_group: GroupName


class LockBatchMqRequestHeader(RpcHeader):
    """41: lock the queues in the body for an orderly consumer."""


class UnlockBatchMqRequestHeader(RpcHeader):
    """42: unlock the queues in the body."""


class GetConsumerConnectionListRequestHeader(RpcHeader, kw_only=True):
    """203: a group's members with their addresses and subscriptions."""

    consumer_group: GroupName


class GetProducerConnectionListRequestHeader(RpcHeader, kw_only=True):
    """204: a producer group's members."""

    producer_group: str


class GetAllProducerInfoRequestHeader(Header):
    """328: all producers."""


class GetConsumerRunningInfoRequestHeader(RpcHeader, kw_only=True):
    """307: get the state of a consumer; the broker passes the request on to it."""

    consumer_group: GroupName
    client_id: str
    jstack_enable: bool = False
