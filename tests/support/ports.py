"""Free ports on loopback for servers that tests start."""

from __future__ import annotations

import random
import socket

_PORTS = range(10_000, 32_000)  # below the ports that the system gives to outgoing connections: none is taken by chance


def free_port(*beside: int) -> int:
    """Find a port on which nobody listens. The ports at the distances `beside` from it are free too."""
    for port in random.SystemRandom().sample(_PORTS, 200):
        try:
            for distance in (0, *beside):
                with socket.socket() as tried:
                    tried.bind(("127.0.0.1", port + distance))
        except OSError:
            continue
        return port
    raise AssertionError("there are no free ports")
