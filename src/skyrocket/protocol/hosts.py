"""Hosts in a record: a packed address and a port.

     0            4 or 16        +4
     +------------+---------------+
     | address    | port          |
     +------------+---------------+
      IPv4 or v6   int32

A decoded record keeps them packed: a broker copies the same few hosts into every message, and few readers need them as text.
"""

from __future__ import annotations

import ipaddress
import struct
from functools import lru_cache
from typing import Final

from skyrocket.protocol.errors import RecordError

_PORT = struct.Struct(">i")
V4_BYTES: Final = 8
V6_BYTES: Final = 20
PORT_MAX: Final = 65_535


@lru_cache(maxsize=4096)
def pack_host(address: str, port: int) -> bytes:
    """Pack an IP address and a port. A host name is not allowed, because its address may change during a record's life.

    An IPv4-mapped IPv6 address (::ffff:127.0.0.1, as a dual-stack socket reports its peers) is packed as an IPv4 address. Java
    reads it as IPv4 even with 16 bytes, and would derive a wrong message id from it.
    """
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError as error:
        raise RecordError(f"'{address}' is not an IP address. A record cannot store a host name.") from error
    mapped = parsed.ipv4_mapped if isinstance(parsed, ipaddress.IPv6Address) else None
    return (mapped or parsed).packed + _PORT.pack(_check_port(port))


@lru_cache(maxsize=4096)
def unpack_host(host: bytes) -> tuple[str, int]:
    """Return the address as text, and the port."""
    if len(host) not in (V4_BYTES, V6_BYTES):
        raise RecordError(f"A host has {len(host)} bytes; it is {V4_BYTES} (IPv4) or {V6_BYTES} (IPv6).")
    (port,) = _PORT.unpack_from(host, len(host) - _PORT.size)
    return str(ipaddress.ip_address(host[: -_PORT.size])), _check_port(port)


def _check_port(port: int) -> int:
    if not 0 <= port <= PORT_MAX:
        raise RecordError(f"A host's port is {port}. It must be 0 to {PORT_MAX}.")
    return port


def host_text(host: bytes) -> str:
    """Format a host as 127.0.0.1:10911 or [::1]:10911."""
    address, port = unpack_host(host)
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
