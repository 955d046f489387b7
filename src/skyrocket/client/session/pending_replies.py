"""Requests (request–reply) that wait for their reply. The broker pushes a reply to the requesting client with code 326."""

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


class PendingReplies:
    """The futures of replies, by correlation id."""

    def __init__(self, router: Router, requests_max: int) -> None:
        self._requests_max = requests_max
        self._waiting: dict[str, asyncio.Future[Received]] = {}
        router.add(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, self._on_reply)

    def expect(self, correlation_id: str) -> asyncio.Future[Received]:
        """Return the future of a reply. The caller must call `forget` in the end."""
        if len(self._waiting) >= self._requests_max:
            raise OverloadedError(
                f"{self._requests_max} requests wait for their reply; this one was not sent. "
                "Send fewer at a time, or raise ClientLimits.waiting_requests_max."
            )
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

    def _on_reply(self, command: Command, connection: Connection) -> Answer:
        received = reply_from(command)
        waiter = self._waiting.get(received.properties.get(CORRELATION_ID, ""))
        if waiter is None or waiter.done():
            log.info("A reply arrived over %s for a request that has timed out or was cancelled.", connection.peer_text)
        else:
            waiter.set_result(received)
        return command.response(ResponseCode.SUCCESS)


def reply_from(command: Command) -> Received:
    """Build the received message from a pushed reply, which is a header and a body. It is not a record: a broker need not store
    it."""
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
