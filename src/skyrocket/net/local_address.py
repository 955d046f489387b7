"""This machine's own addresses: whether a server listens on all of them, and which one other machines can connect to."""

from __future__ import annotations

import fcntl
import ipaddress
import socket
import struct
from collections.abc import Iterable
from typing import Final

# Nothing is sent to these: connecting a datagram socket only selects the local address.
_PROBE_V4: Final = "10.255.255.255"
_PROBE_V6: Final = "2001:db8::1"
_PROBE_PORT: Final = 9
_SIOCGIFADDR: Final = 0x8915  # Linux: the IPv4 address of an interface
_INTERFACE_REQUEST: Final = struct.Struct("16s24x")  # struct ifreq: a name, then a sockaddr_in with the address at 20


def is_wildcard(host: str) -> bool:
    """Whether a server that binds to `host` listens on all addresses: 0.0.0.0, ::, and other ways to write them."""
    try:
        found = socket.getaddrinfo(host, None, flags=socket.AI_NUMERICHOST)
    except (OSError, UnicodeError):
        return False
    return any(_parse(str(sockaddr[0])).is_unspecified for *_, sockaddr in found)


def is_loopback(host: str) -> bool:
    """Whether only programs on this machine can connect to a server that binds to `host`."""
    try:
        found = socket.getaddrinfo(host, None)
    except (OSError, UnicodeError):
        return False
    return all(_parse(str(sockaddr[0])).is_loopback for *_, sockaddr in found)


def reachable_address(toward: Iterable[str] = (), *, v6: bool = False) -> str | None:
    """Return an address of this machine that other machines can connect to. None when it has only loopback.

    The first choice is the address that this machine uses toward one of the hosts `toward`, then the one that it uses toward the
    rest of the network, then that of any interface.
    """
    family = socket.AF_INET6 if v6 else socket.AF_INET
    for host in (*toward, _PROBE_V6 if v6 else _PROBE_V4):
        address = _address_toward(host, family)
        if address is not None:
            return address
    return None if v6 else _interface_address()


def _address_toward(host: str, family: socket.AddressFamily) -> str | None:
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((host, _PROBE_PORT))
        except (OSError, UnicodeError):
            return None
        return _if_reachable(str(probe.getsockname()[0]))


def _interface_address() -> str | None:
    """Return the first IPv4 address of an interface other than loopback: a network without a default route has one, too."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        for _, name in socket.if_nameindex():
            try:
                answer = fcntl.ioctl(asking, _SIOCGIFADDR, _INTERFACE_REQUEST.pack(name.encode()[:15]))
            except OSError:
                continue  # an interface without an IPv4 address
            address = _if_reachable(socket.inet_ntoa(answer[20:24]))
            if address is not None:
                return address
    return None


def _if_reachable(address: str) -> str | None:
    parsed = _parse(address)
    return None if parsed.is_loopback or parsed.is_unspecified or parsed.is_link_local else address


def _parse(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    return ipaddress.ip_address(address.partition("%")[0])
