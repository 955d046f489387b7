"""Every bound and period of the client, in one place."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientLimits:
    request_ms: int = 3_000  # for any answer, where the caller does not say
    routes_ms: int = 30_000  # how often the routes of the topics in use are asked for again
    heartbeat_ms: int = 30_000
    address_server_ms: int = 120_000  # how often the address server is asked for nameservers
    reconnect_first_ms: int = 100  # after the first failure to connect; doubled with each further one
    reconnect_most_ms: int = 5_000
    topics_max: int = 10_000  # whose routes are kept; those not used for longest go first
    in_flight_max: int = 20_000  # messages of one session that wait for their acknowledgement; then senders wait
    in_flight_max_bytes: int = 32 * 1024 * 1024  # the same, their bodies together, roughly
    soon_max: int = 100_000  # messages given to one producer's send_soon and not answered yet; beyond, OverloadedError
    waiting_requests_max: int = 10_000  # requests (request–reply) of one session that wait for their reply
    checks_max: int = 1_000  # check-backs of transactions under way; beyond, brokers ask again later
