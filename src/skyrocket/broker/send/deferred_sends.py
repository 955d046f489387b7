"""Sends whose topic is being created. They are handled, in their order, when the topic is on disk."""

from __future__ import annotations

from collections.abc import Callable

from skyrocket.broker.errors import TableError
from skyrocket.broker.limits import DEFERRED_SENDS_BYTES_MAX, DEFERRED_SENDS_MAX
from skyrocket.broker.table_saver import TableSaver
from skyrocket.net.connection import Connection
from skyrocket.net.router import RefusedError, Router
from skyrocket.protocol.command import Command
from skyrocket.protocol.responses import ResponseCode
from skyrocket.store.errors import StoreError

GroupHandler = Callable[[list[Command], Connection], None]


class DeferredSends:
    def __init__(self, saver: TableSaver, router: Router) -> None:
        self._saver = saver
        self._router = router
        self._count = 0
        self._size_bytes = 0

    def defer(self, commands: list[Command], connection: Connection, handle: GroupHandler) -> None:
        """Call `handle` with these requests after the next save, or refuse them when it fails or too many wait already."""
        size_bytes = sum(len(command.body) for command in commands)
        if self._count + len(commands) > DEFERRED_SENDS_MAX or self._size_bytes + size_bytes > DEFERRED_SENDS_BYTES_MAX:
            remark = f"{self._count} sends already wait for topics that are being created. Send again."
            self._refuse(commands, connection, RefusedError(ResponseCode.SYSTEM_BUSY, remark))
            return
        self._count += len(commands)
        self._size_bytes += size_bytes

        def resume(error: StoreError | None) -> None:
            self._count -= len(commands)
            self._size_bytes -= size_bytes
            if error is None:
                handle(commands, connection)
            else:
                self._refuse(commands, connection, error)

        try:
            self._saver.when_saved(resume)
        except TableError as error:
            self._count -= len(commands)
            self._size_bytes -= size_bytes
            self._refuse(commands, connection, error)

    def _refuse(self, commands: list[Command], connection: Connection, error: Exception) -> None:
        for command in commands:
            self._router.refuse(connection, command, error)
