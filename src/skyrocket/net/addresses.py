"""What each remote address has: its connections, the bytes that are held for it, and its quota.

    open(connection)     count a new connection; None when its address has too many
    forget_quiet(now)    forget the addresses without connections that have nothing to pay any more

An address stands for a client. All addresses of an IPv6 network of 64 bits count as one: whoever has one of them has them all.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv6Address
from typing import TYPE_CHECKING

from skyrocket.net.quota import Quota

if TYPE_CHECKING:
    from skyrocket.net.connection import Connection

_RECOUNT_SHARE = 64  # recount the held bytes after a 64th of the bound was added: a count goes over all connections


class ClientAddress:
    """One remote address."""

    __slots__ = ("_added_bytes", "connections", "held_bytes", "name", "quota")

    def __init__(self, name: str) -> None:
        self.name = name
        self.connections: set[Connection] = set()
        self.quota = Quota()
        self.held_bytes = 0  # an upper bound: grows with each unwritten response until it is counted again
        self._added_bytes = 0  # since the last count

    def add_held(self, size_bytes: int, bound_bytes: int) -> bool:
        """Add unwritten bytes. Return whether the address then really holds more than its bound."""
        self.held_bytes += size_bytes
        self._added_bytes += size_bytes
        if self.held_bytes <= bound_bytes or self._added_bytes < bound_bytes // _RECOUNT_SHARE:
            return False
        return self.count_held() > bound_bytes

    def count_held(self) -> int:
        self._added_bytes = 0
        self.held_bytes = sum(connection.held_bytes for connection in self.connections)
        return self.held_bytes


class AddressTable:
    def __init__(self, connections_max: int) -> None:
        """`connections_max` is the bound for one address."""
        self._connections_max = connections_max
        self._addresses: dict[str, ClientAddress] = {}

    def __len__(self) -> int:
        return len(self._addresses)

    def __iter__(self) -> Iterator[ClientAddress]:
        return iter(self._addresses.values())

    def open(self, connection: Connection) -> ClientAddress | None:
        """Count a new connection. Return its address, or None when the address has too many connections."""
        name = client_of(connection.peer[0])
        found = self._addresses.get(name)
        if found is None:
            found = self._addresses[name] = ClientAddress(name)
        if len(found.connections) >= self._connections_max:
            return None
        found.connections.add(connection)
        return found

    def forget_quiet(self, now_ms: int) -> None:
        """Forget addresses without connections, once their debt is paid: a new connection does not cancel a debt."""
        quiet = [name for name, each in self._addresses.items() if not each.connections and not each.quota.debt_ms(now_ms)]
        for name in quiet:
            del self._addresses[name]


def client_of(host: str) -> str:
    """Return the name under which an address is counted: itself, or its network of 64 bits for IPv6."""
    if ":" not in host:
        return host
    network = int(IPv6Address(host.partition("%")[0])) >> 64 << 64
    return f"{IPv6Address(network)}/64"


def socket_address(name: object) -> tuple[str, int]:
    """Return the host and port of a socket name, or ("", 0)."""
    if isinstance(name, tuple) and len(name) >= 2:
        host: str = name[0]
        return host.removeprefix("::ffff:"), name[1]
    return "", 0
