"""Which Host and Origin headers a request may have. Pure.

A page of another site can let its own name point to 127.0.0.1 (DNS rebinding) and would then be, for the browser, the same site
as the console. The Host header still has the other site's name, so the console refuses names that are not its own.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from urllib.parse import urlsplit

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})


def is_loopback(host: str) -> bool:
    """Whether a host can be reached from this machine alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class AllowedHosts:
    """The names under which the console may be asked: loopback's, the address that it listens on, and those that were given."""

    def __init__(self, listening: str, names: Iterable[str] = ()) -> None:
        self._is_address_allowed = not is_loopback(listening)
        self._names = {*LOOPBACK_NAMES, listening.lower(), *(name.lower() for name in names)}

    def allows(self, header: str) -> bool:
        """Whether a Host header is one of ours. Beyond loopback, an address in numbers is: no foreign name can hide behind it."""
        name = host_name(header)
        return name in self._names or (self._is_address_allowed and _is_address(name))


def host_name(header: str) -> str:
    """Return the name in a Host header, without its port and without the brackets of IPv6."""
    if header.startswith("["):
        return header[1:].partition("]")[0].lower()
    return header.rpartition(":")[0].lower() if header.count(":") == 1 else header.lower()


def is_same_origin(origin: str, host: str) -> bool:
    """Whether a change that a page of `origin` asks for comes from our own pages. Old browsers send no origin."""
    return not origin or urlsplit(origin).netloc.lower() == host.lower()


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
