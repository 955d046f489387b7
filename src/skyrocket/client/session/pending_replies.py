"""Requests (request–reply) that wait for their reply. A broker pushes a reply to the client that asked, with code 326."""

from __future__ import annotations

import asyncio
import logging
import time

from skyrocket.client.errors import ClientClosedError, OverloadedError
from skyrocket.client.received import Received
from skyrocket.net.connection import Connection
from skyrocket.net.router import Answer, Router
from skyrocket.protocol.command import Command
from skyrocket.protocol.headers import ReplyMessageRequestHeader
from skyrocket.protocol.hosts import pack_host
from skyrocket.protocol.message.properties import CORRELATION_ID, decode_properties
from skyrocket.protocol.message.record import Record
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode

log = logging.getLogger(__name__)


class Replies:
    def __init__(self, router: Router, most: int) -> None:
        self._most = most
        self._waiting: dict[str, asyncio.Future[Received]] = {}
        router.add(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, self._pushed)

    def expect(self, correlation_id: str) -> asyncio.Future[Received]:
        """The reply to come. The caller must `forget` it, whatever happens."""
        if len(self._waiting) >= self._most:
            raise OverloadedError(f"{self._most} requests wait for their reply; this one was not sent.")
        future: asyncio.Future[Received] = asyncio.get_running_loop().create_future()
        self._waiting[correlation_id] = future
        return future

    def forget(self, correlation_id: str) -> None:
        self._waiting.pop(correlation_id, None)

    def close(self) -> None:
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(ClientClosedError("The client is closed."))
        self._waiting.clear()

    def _pushed(self, command: Command, connection: Connection) -> Answer:
        received = reply_from(command)
        waiter = self._waiting.get(received.properties.get(CORRELATION_ID, ""))
        if waiter is None or waiter.done():
            log.info("A reply came over %s to a request that nobody waits for any more.", connection.peer_text)
        else:
            waiter.set_result(received)
        return command.response(ResponseCode.SUCCESS)


def reply_from(command: Command) -> Received:
    """A reply is pushed as a header and a body, not as a record: it may be stored nowhere."""
    header = command.header(ReplyMessageRequestHeader)
    properties = header.properties or ""
    record = Record(
        topic=header.topic,
        body=command.body,
        properties=properties.encode(errors="replace"),
        queue_id=header.queue_id,
        flag=header.flag,
        sys_flag=header.sys_flag,
        born_timestamp=header.born_timestamp,
        born_host=_host(header.born_host),
        store_timestamp=header.store_timestamp,
        store_host=_host(header.store_host),
        reconsume_times=header.reconsume_times or 0,
    )
    return Received(record, arrived_ms=int(time.time() * 1000), properties=decode_properties(properties))


def _host(text: str) -> bytes:
    address, _, port = text.rpartition(":")
    return pack_host(address.strip("[]").removeprefix("/"), int(port))
