"""Connections to the VIP port: their requests are served before a backlog of others.

One thread serves all connections in rounds. The kernel says which sockets are readable, and the loop reads them one after
another. With many busy producers a round takes long, and whatever arrives meanwhile waits for the next one. So every CHECK_MS of
a round the server looks for requests on the VIP port (heartbeats, offsets, administration), and serves them in between:

    a round begins                                                                              the next one
    ├── A's sends ──┬── B's sends ──┬── CHECK_MS: VIP requests ──┬── C's sends ──┬── … ──┤

The check costs one comparison for each read event, and a system call every CHECK_MS while there are VIP connections. VIP requests
get about half of the time at most.
"""

from __future__ import annotations

import os
import select
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from skyrocket.net.connection import Connection

CHECK_MS: Final = 5
READ_BYTES: Final = 262_144
NEVER_MS: Final = 2**63 - 1


class VipConnections:
    def __init__(self) -> None:
        self._poll = select.poll()
        self._connections: dict[int, Connection] = {}  # by descriptor

    def __bool__(self) -> bool:
        return bool(self._connections)

    def add(self, connection: Connection) -> None:
        descriptor = connection.descriptor
        if descriptor is not None:
            self._connections[descriptor] = connection
            self._poll.register(descriptor, select.POLLIN)

    def remove(self, connection: Connection) -> None:
        """Forget a connection before its descriptor is closed: another file could get the same number."""
        for descriptor in [number for number, known in self._connections.items() if known is connection]:
            del self._connections[descriptor]
            self._poll.unregister(descriptor)

    def serve(self) -> None:
        """Read every connection that has data, and handle its requests."""
        for descriptor, _ in self._poll.poll(0):
            connection = self._connections.get(descriptor)
            if connection is not None and connection.is_read:
                try:
                    data = os.read(descriptor, READ_BYTES)
                except OSError:
                    continue  # the loop meets the same error, and closes the connection
                if data:  # otherwise the peer has closed it, which the loop sees too
                    connection.data_received(data)
