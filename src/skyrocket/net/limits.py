"""Every bound and time-out of connections."""

from __future__ import annotations

from dataclasses import dataclass

from skyrocket.net.quota import UNLIMITED, QuotaRates
from skyrocket.protocol.limits import FRAME_BYTES_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class NetLimits:
    connections_max: int = 10_000  # the server closes any further connection at once
    connections_per_address_max: int = 5_000  # likewise: one address cannot take all connections
    frame_bytes_max: int = FRAME_BYTES_MAX
    unwritten_high_bytes: int = 1024 * 1024  # in one connection; above it, we stop reading from that connection
    unwritten_max_bytes: int = 64 * 1024 * 1024  # in one connection; above it, we close the connection: the peer does not read
    held_per_address_max_bytes: int = 256 * 1024 * 1024  # unwritten responses and unfinished frames; see `held_bytes`
    in_flight_max_bytes: int = 1024 * 1024 * 1024  # the same, of all connections; above it, each address has an equal share
    held_max_bytes: int = 2 * 1024 * 1024 * 1024  # the same; above it, we close the connections that hold the most
    pending_requests_max: int = 65_536  # requests of ours to one peer that wait for a response
    first_frame_ms: int = 10_000  # from connecting to the first whole frame
    frame_ms: int = 60_000  # from a frame's first byte to its last
    idle_ms: int = 120_000  # without a byte in either direction; Apache's serverChannelMaxIdleTimeSeconds
    request_ms: int = 3_000  # for a response, unless the caller names a time-out
    connect_ms: int = 3_000
    drain_ms: int = 5_000  # at shutdown, for responses that are still being written
    turn_ms: int = 5  # that the requests of one connection may take before other connections have their turn
    quota: QuotaRates = UNLIMITED  # of one address, at the start; `Server.set_quota` changes it
    scan_ms: int = 1_000  # how often time-outs are checked
