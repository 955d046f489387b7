"""Who we are to brokers: an address, a client id, and the maker of message ids."""

from __future__ import annotations

import ipaddress
import itertools
import os
import secrets
import socket
import time

from skyrocket.protocol.message.message_id import UniqueIdFactory

_SOMEWHERE = ("10.255.255.255", 9)  # nothing is sent there: a datagram socket only asks the system which way it would go
_numbers = itertools.count(time.monotonic_ns())


def local_address() -> str:
    """This machine's address as others see it, as far as the system can tell."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(_SOMEWHERE)
            address: str = probe.getsockname()[0]
        except OSError:
            address = "127.0.0.1"
    return address


def new_client_id(address: str, instance: str = "") -> str:
    """As Apache's clients write it: address@process#number. A broker takes two connections with one id for one client."""
    return f"{address}@{instance or f'{os.getpid()}#{next(_numbers)}'}"


def new_id_factory(address: str) -> UniqueIdFactory:
    """Each has a salt of its own: ids of two never meet, in one process or after a fork."""
    offset_ms = time.localtime().tm_gmtoff * 1000
    return UniqueIdFactory(ipaddress.ip_address(address).packed, os.getpid(), secrets.randbits(32), utc_offset_ms=offset_ms)
