"""Requests between masters and slaves."""

from __future__ import annotations

from skyrocket.protocol.header import Header, Int64


class ExchangeHAInfoRequestHeader(Header, kw_only=True):
    """906: exchange replication addresses. With addresses, it sets them; without, it gets those of the master."""

    master_ha_address: str | None = None
    master_flush_offset: Int64 | None = None
    master_address: str | None = None


class ExchangeHAInfoResponseHeader(Header, kw_only=True):
    """906: the response."""

    master_ha_address: str | None = None
    master_flush_offset: Int64 | None = None
    master_address: str | None = None


class ResetMasterFlushOffsetHeader(Header, kw_only=True):
    """908: set the offset up to which the master's log counts as flushed."""

    master_flush_offset: Int64
