"""A pool of sockets to brokers. A worker process serves many tasks in turn, and they reuse its connections.

The sockets block: a task waits for one broker at a time, and an event loop would cost more than decoding the messages.
"""

from __future__ import annotations

import os
import select
import socket
import ssl
import threading
import time
from functools import lru_cache
from typing import Final

from skyrocket.spark.options.cluster_options import ClusterOptions

IDLE_MAX: Final = 16  # connections kept for the next task
IDLE_S_MAX: Final = 60.0  # brokers close an idle connection after two minutes


class BrokerConnection:
    def __init__(self, options: ClusterOptions, address: str, timeout_ms: int) -> None:
        """Connect. Raise OSError on failure."""
        self.options = options
        self.address = address
        self.idle_since = 0.0
        host, _, port = address.rpartition(":")
        plain = socket.create_connection((host.strip("[]"), int(port)), timeout=options.request_ms / 1000)
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            context = _tls(options)
            self._socket = plain if context is None else context.wrap_socket(plain, server_hostname=host.strip("[]"))
            self._socket.settimeout(timeout_ms / 1000)
        except BaseException:
            plain.close()
            raise
        self.send = self._socket.sendall
        self.receive_into = self._socket.recv_into

    @property
    def is_quiet(self) -> bool:
        """Return whether an idle connection can be used again: it is open, and no unexpected bytes have arrived."""
        try:
            return not select.select([self._socket], [], [], 0)[0]
        except (OSError, ValueError):
            return False

    def set_timeout(self, timeout_ms: int) -> None:
        self._socket.settimeout(timeout_ms / 1000)

    def close(self) -> None:
        self._socket.close()


class ConnectionPool:
    """Idle connections. A taken connection belongs to its taker until it is given back or closed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[BrokerConnection] = []  # the most recently used is last

    def take(self, options: ClusterOptions, address: str, timeout_ms: int) -> BrokerConnection:
        """Return an idle connection to this address, or a new one."""
        while (found := self._pop_idle(options, address)) is not None:
            if time.monotonic() - found.idle_since < IDLE_S_MAX and found.is_quiet:
                found.set_timeout(timeout_ms)
                return found
            found.close()
        return BrokerConnection(options, address, timeout_ms)

    def _pop_idle(self, options: ClusterOptions, address: str) -> BrokerConnection | None:
        with self._lock:
            for index in reversed(range(len(self._idle))):
                if self._idle[index].address == address and self._idle[index].options == options:
                    return self._idle.pop(index)
        return None

    def give_back(self, connection: BrokerConnection) -> None:
        """Return a connection without a request in flight to the pool."""
        connection.idle_since = time.monotonic()
        with self._lock:
            self._idle.append(connection)
            surplus = self._idle[:-IDLE_MAX]
            del self._idle[:-IDLE_MAX]
        for oldest in surplus:
            oldest.close()

    def clear_after_fork(self) -> None:
        """Close the parent's connections in a child process. They stay open in the parent."""
        self._lock = threading.Lock()
        for connection in self._idle:
            connection.close()
        self._idle.clear()


connections: Final = ConnectionPool()
os.register_at_fork(after_in_child=connections.clear_after_fork)


@lru_cache(maxsize=16)
def _tls(options: ClusterOptions) -> ssl.SSLContext | None:
    return options.tls_context()
