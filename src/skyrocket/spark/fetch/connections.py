"""Sockets to brokers, kept by the process: workers serve many tasks, one after another, and go on with the same connections.

Blocking ones: a task waits for one broker at a time, and an event loop would cost more than the decoding.
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

IDLE_MAX: Final = 16  # connections that wait for the next task
IDLE_S_MAX: Final = 60.0  # brokers close after two minutes


class BrokerConnection:
    def __init__(self, options: ClusterOptions, address: str, timeout_ms: int) -> None:
        """OSError when it cannot be made."""
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
        """Open, and nothing has come that nobody waits for: an idle connection that is to be used again."""
        try:
            return not select.select([self._socket], [], [], 0)[0]
        except (OSError, ValueError):
            return False

    def set_timeout(self, timeout_ms: int) -> None:
        self._socket.settimeout(timeout_ms / 1000)

    def close(self) -> None:
        self._socket.close()


class Connections:
    """Idle ones. Who takes one has it alone until it is given back, or closed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[BrokerConnection] = []  # the one given back last is the last

    def take(self, options: ClusterOptions, address: str, timeout_ms: int) -> BrokerConnection:
        while (found := self._found(options, address)) is not None:
            if time.monotonic() - found.idle_since < IDLE_S_MAX and found.is_quiet:
                found.set_timeout(timeout_ms)
                return found
            found.close()
        return BrokerConnection(options, address, timeout_ms)

    def _found(self, options: ClusterOptions, address: str) -> BrokerConnection | None:
        with self._lock:
            for index in reversed(range(len(self._idle))):
                if self._idle[index].address == address and self._idle[index].options == options:
                    return self._idle.pop(index)
        return None

    def give_back(self, connection: BrokerConnection) -> None:
        """One on which nothing is under way."""
        connection.idle_since = time.monotonic()
        with self._lock:
            self._idle.append(connection)
            surplus = self._idle[:-IDLE_MAX]
            del self._idle[:-IDLE_MAX]
        for oldest in surplus:
            oldest.close()

    def forked(self) -> None:
        """In the child: the connections are the parent's. Closing them here leaves them open there."""
        self._lock = threading.Lock()
        for connection in self._idle:
            connection.close()
        self._idle.clear()


connections: Final = Connections()
os.register_at_fork(after_in_child=connections.forked)


@lru_cache(maxsize=16)
def _tls(options: ClusterOptions) -> ssl.SSLContext | None:
    return options.tls_context()
