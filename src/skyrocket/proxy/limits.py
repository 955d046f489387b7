"""Every bound and period of the proxy, beside those of its connections (`net/limits.py`)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyLimits:
    unanswered_max: int = 65_536  # requests of one client to one server
    unanswered_max_bytes: int = 1024 * 1024 * 1024  # requests of all clients; above it, further ones are refused
    request_overhead_bytes: int = 2_048  # what a request takes beside its own bytes while it waits
    unread_max_bytes: int = 16 * 1024 * 1024  # that one server has not read of one client; above it, further requests are refused
    unread_all_max_bytes: int = 512 * 1024 * 1024  # the same, of all; above it, only servers that have read everything get more
    client_unread_bytes: int = 1024 * 1024  # that one client has not read; above it, the proxy reads nothing for it from servers
    client_look_s: float = 0.002  # until the first look whether such a client has read; doubled with each look
    client_look_s_max: float = 0.5
    links_max: int = 1_024  # servers to which one client has a connection
    answers_max: int = 1_024  # requests of servers that one client has not answered, and heartbeats under way
    heartbeat_bytes_max: int = 1024 * 1024  # a larger heartbeat is passed on, and not kept
    heartbeats_all_max_bytes: int = 128 * 1024 * 1024  # kept heartbeats of all clients, and their answers; above it, none is kept
    heartbeat_overhead_bytes: int = 2_048  # what a kept heartbeat takes beside its own bytes
    every_broker_ms: int = 2_000  # that a client waits for the answers of several brokers; Java's client waits 3 s
    client_answer_ms: int = 30_000  # that a request of a server waits for the client
    same_heartbeat_ms: int = 1_000  # a client sends its heartbeat once for each broker that it sees at the proxy
    silent_ms: int = 60_000  # a broker that sends nothing for so long while requests wait has gone; a long poll takes 30 s
    nameserver_silent_ms: int = 5_000  # the same of a nameserver: nothing waits there, and another one can answer
    unanswered_ms: int = 300_000  # a response that comes later finds nobody
    scan_s: float = 5.0  # between two looks for such servers and requests
    refresh_s: float = 10.0  # between two looks at the brokers of the cluster
    doubt_ms: int = 500  # that a route waits for such a look, because it contradicts what the proxy knows
    look_again_ms: int = 1_000  # between two such looks because a broker is unknown
