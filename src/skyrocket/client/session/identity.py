"""The client's identity: its address, its client id, and the factory of message ids."""

from __future__ import annotations

import ipaddress
import itertools
import os
import secrets
import socket
import time

from skyrocket.protocol.message.message_id import UniqueIdFactory

_PROBE = ("10.255.255.255", 9)  # nothing is sent: connecting a datagram socket only selects the local address
_numbers = itertools.count(time.monotonic_ns())


def local_address() -> str:
    """Return the address that this machine uses toward the network; 127.0.0.1 when it has no network."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(_PROBE)
            address: str = probe.getsockname()[0]
        except OSError:
            address = "127.0.0.1"
    return address


def new_client_id(address: str, instance: str = "") -> str:
    """Return a client id in the form of Apache's clients, address@process#number. To a broker, connections with equal ids are one
    client."""
    return f"{address}@{instance or f'{os.getpid()}#{next(_numbers)}'}"


def new_id_factory(address: str) -> UniqueIdFactory:
    """Return a factory of unique message ids. Each has its own salt, so two factories never produce equal ids, in one process or
    after a fork."""
    offset_ms = time.localtime().tm_gmtoff * 1000
    return UniqueIdFactory(ipaddress.ip_address(address).packed, os.getpid(), secrets.randbits(32), utc_offset_ms=offset_ms)
