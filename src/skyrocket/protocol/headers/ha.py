"""Masters and slaves among themselves."""

from __future__ import annotations

from skyrocket.protocol.header import Header, Int64


class ExchangeHAInfoRequestHeader(Header, kw_only=True):
    """906: brokers among themselves. With addresses it tells where replication is, without it asks the master."""

    master_ha_address: str | None = None
    master_flush_offset: Int64 | None = None
    master_address: str | None = None


class ExchangeHAInfoResponseHeader(Header, kw_only=True):
    """906: the answer."""

    master_ha_address: str | None = None
    master_flush_offset: Int64 | None = None
    master_address: str | None = None


class ResetMasterFlushOffsetHeader(Header, kw_only=True):
    """908: how far the master's log counts as flushed."""

    master_flush_offset: Int64
