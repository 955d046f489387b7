"""The addresses that a rule applies to: single addresses and networks such as 192.168.0.0/16."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Final

CACHED_MAX: Final = 4096  # of both caches below

Network = IPv4Network | IPv6Network


@lru_cache(maxsize=CACHED_MAX)
def parse_network(text: str) -> Network | None:
    """Return the network that a text names; an address is a network of one. None when it is neither."""
    try:
        return ip_network(text, strict=False)
    except ValueError:
        return None


@lru_cache(maxsize=CACHED_MAX)
def _is_in(address: str, network: str) -> bool:
    found = parse_network(network)
    try:
        known = ip_address(address)
    except ValueError:
        return False
    if found is None:
        return False
    if found.version != known.version:
        return found.version == 6 and found.prefixlen == 0
    return known in found


def is_from(address: str, networks: Iterable[str]) -> bool:
    """Whether an address is in one of the networks."""
    return any(_is_in(address, network) for network in networks)
