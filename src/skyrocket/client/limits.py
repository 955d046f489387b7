"""Every bound and period of the client, in one place."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientLimits:
    """The bounds and periods of one session, which its producers, consumers and `Admin` share."""

    request_ms: int = 3_000  # timeout of a request without one of its own
    routes_ms: int = 30_000  # period at which the routes of the topics in use are fetched again
    heartbeat_ms: int = 30_000  # period of the heartbeats to brokers
    address_server_ms: int = 120_000  # period at which the address server is asked for nameservers
    reconnect_first_ms: int = 100  # pause after the first failed connection; doubled with each further one; half of it is random
    reconnect_most_ms: int = 5_000  # the longest pause
    topics_max: int = 10_000  # whose routes are kept; the least recently used are dropped first
    in_flight_max: int = 20_000  # unacknowledged messages of a session; beyond, senders wait
    in_flight_max_bytes: int = 32 * 1024 * 1024  # bytes of their bodies, roughly; beyond, senders wait
    soon_max: int = 100_000  # unacknowledged messages of a producer's send_soon; beyond, OverloadedError
    waiting_requests_max: int = 10_000  # requests (request–reply) of a session that wait for a reply; beyond, OverloadedError
    checks_max: int = 1_000  # transaction check-backs at a time; beyond, they are dropped and brokers repeat them
