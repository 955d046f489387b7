"""The bytes that a server holds for clients that do not read: bounded for one address and for all together.

Held are responses that a client has not read, and a frame that it has not finished. Whoever holds too much pays for it:

- an address above its own bound loses the connections that hold the most, until it holds half of the bound
- above `in_flight_max_bytes` in all, requests of an address that holds more than an equal share are refused with SYSTEM_BUSY
- above `held_max_bytes` in all, the addresses that hold the most lose the connections that hold the most
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from skyrocket.net.addresses import AddressTable
from skyrocket.net.connection import Connection
from skyrocket.net.limits import NetLimits

log = logging.getLogger(__name__)

_RECOUNT_SHARE = 64  # recount after a 64th of the bound was added: a count goes over all connections


class HeldBytes:
    def __init__(self, limits: NetLimits, addresses: AddressTable) -> None:
        self._limits = limits
        self._addresses = addresses
        self._total_bytes = 0  # an upper bound: grows with each unwritten response until it is counted again
        self._added_bytes = 0  # since the last count
        self.share_bytes: int | None = None  # of one address, while too much is held; None: there is room for everyone

    def add(self, connection: Connection, size_bytes: int) -> None:
        """Add bytes that wait until a client reads them. This may close the connection or others."""
        address, bound_bytes = connection.address, self._limits.held_per_address_max_bytes
        if address is not None and address.add_held(size_bytes, bound_bytes):
            log.warning("%s does not read: %d bytes of responses wait for it.", address.name, address.held_bytes)
            _close_largest(address.connections, address.held_bytes - bound_bytes // 2)
            address.count_held()
        self._total_bytes += size_bytes
        self._added_bytes += size_bytes
        bound_bytes = self._limits.held_max_bytes
        if self._total_bytes > bound_bytes and self._added_bytes >= bound_bytes // _RECOUNT_SHARE:
            self.check()

    def check(self) -> None:
        """Count again, and act on what is held. The server calls this at each scan."""
        held = {address: address.count_held() for address in self._addresses if address.connections}
        total = sum(held.values())
        if total > self._limits.held_max_bytes:
            for address in sorted(held, key=held.__getitem__, reverse=True):
                total -= _close_largest(address.connections, total - self._limits.in_flight_max_bytes)
                if total <= self._limits.in_flight_max_bytes:
                    break
        self._total_bytes, self._added_bytes = total, 0
        holders = sum(1 for size_bytes in held.values() if size_bytes)
        self.share_bytes = self._limits.in_flight_max_bytes // holders if total > self._limits.in_flight_max_bytes else None

    def refusal(self, connection: Connection) -> str | None:
        """Say why the requests of a connection are refused; None when they may be served."""
        address, share_bytes = connection.address, self.share_bytes
        if address is None or share_bytes is None or address.held_bytes <= share_bytes:
            return None
        return f"{address.name} holds {address.held_bytes} bytes of unread responses; its share is {share_bytes}."


def _close_largest(connections: Iterable[Connection], excess_bytes: int) -> int:
    """Close the connections that hold the most, until they held as much as the excess. Return what the closed ones held."""
    closed_bytes = 0
    for connection in sorted(connections, key=lambda each: each.held_bytes, reverse=True):
        if closed_bytes >= excess_bytes:
            break
        closed_bytes += connection.held_bytes
        connection.abort("it holds too many bytes")
    return closed_bytes
