"""Hosts as records carry them: a packed address and a port.

     0            4 or 16        +4
     +------------+---------------+
     | address    | port          |
     +------------+---------------+
      IPv4 or v6   int32

They stay packed inside a record: a broker copies the same few hosts into every message, and readers seldom look.
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
    """`address` is an IP address in text, not a name: a record outlives what a name resolves to.

    An IPv4 address in IPv6's clothes (::ffff:127.0.0.1, as a dual-stack socket reports its peers) is packed as the IPv4 address
    that it is: Java reads it as one whatever its length, and would then make a wrong message id of it.
    """
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError as error:
        raise RecordError(f"'{address}' is not an IP address, which is all that a record can carry.") from error
    mapped = parsed.ipv4_mapped if isinstance(parsed, ipaddress.IPv6Address) else None
    return (mapped or parsed).packed + _PORT.pack(_checked(port))


@lru_cache(maxsize=4096)
def unpack_host(host: bytes) -> tuple[str, int]:
    if len(host) not in (V4_BYTES, V6_BYTES):
        raise RecordError(f"A host has {len(host)} bytes; it is {V4_BYTES} (IPv4) or {V6_BYTES} (IPv6).")
    (port,) = _PORT.unpack_from(host, len(host) - _PORT.size)
    return str(ipaddress.ip_address(host[: -_PORT.size])), _checked(port)


def _checked(port: int) -> int:
    if not 0 <= port <= PORT_MAX:
        raise RecordError(f"A host's port is {port}; it is 0 to {PORT_MAX}.")
    return port


def host_text(host: bytes) -> str:
    """127.0.0.1:10911 or [::1]:10911."""
    address, port = unpack_host(host)
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def is_v6(host: bytes) -> bool:
    return len(host) == V6_BYTES
