"""The client's identity: its address, its client id, and the factory of message ids."""

from __future__ import annotations

import ipaddress
import itertools
import os
import secrets
import time

from skyrocket.net.local_address import reachable_address
from skyrocket.protocol.message.message_id import UniqueIdFactory

_numbers = itertools.count(time.monotonic_ns())


def local_address() -> str:
    """Return the address that this machine uses toward the network; 127.0.0.1 when it has no network."""
    return reachable_address() or "127.0.0.1"


def new_client_id(address: str, instance: str = "") -> str:
    """Return a client id in the form of Apache's clients, address@process#number. To a broker, connections with equal ids are one
    client."""
    return f"{address}@{instance or f'{os.getpid()}#{next(_numbers)}'}"


def new_id_factory(address: str) -> UniqueIdFactory:
    """Return a factory of unique message ids. Each has its own salt, so two factories never produce equal ids, in one process or
    after a fork."""
    offset_ms = time.localtime().tm_gmtoff * 1000
    return UniqueIdFactory(ipaddress.ip_address(address).packed, os.getpid(), secrets.randbits(32), utc_offset_ms=offset_ms)
