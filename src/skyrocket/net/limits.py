"""Every bound and time-out of the network, in one place."""

from __future__ import annotations

from dataclasses import dataclass

from skyrocket.protocol.limits import FRAME_BYTES_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class NetLimits:
    connections_max: int = 10_000  # a further one is closed at once
    frame_bytes_max: int = FRAME_BYTES_MAX
    unwritten_high_bytes: int = 1024 * 1024  # of one connection: above it, we stop reading from it
    unwritten_max_bytes: int = 64 * 1024 * 1024  # of one connection: above it, it is closed; it does not read its answers
    in_flight_max_bytes: int = 1024 * 1024 * 1024  # of all connections, unread answers and unfinished frames: then SYSTEM_BUSY
    held_max_bytes: int = 2 * 1024 * 1024 * 1024  # the same: above it, those that hold the most are closed
    pending_requests_max: int = 65_536  # of one connection: our requests that wait for its response
    first_frame_ms: int = 10_000  # from connecting to the first whole frame
    frame_ms: int = 60_000  # from a frame's first byte to its last
    idle_ms: int = 120_000  # without a byte in either direction; Apache's serverChannelMaxIdleTimeSeconds
    request_ms: int = 3_000  # for a response, where the caller does not say
    connect_ms: int = 3_000
    drain_ms: int = 5_000  # at shutdown, for answers under way
    scan_ms: int = 1_000  # how often time-outs are looked for
