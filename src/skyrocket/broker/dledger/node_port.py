"""The node's own port: requests of the other nodes and of tools.

Frames are those of all of RocketMQ, bodies are DLedger's JSON, or the binary form of PUSH. The header of every response has code
200; the result is in its body. The state machine answers when it can, so a request waits under a number until then.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import Final, NamedTuple, cast

from skyrocket.net.connection import Connection
from skyrocket.net.router import Router
from skyrocket.net.server import Server
from skyrocket.protocol.bodies.dledger import (
    GetEntriesRequest,
    GetEntriesResponse,
    HeartBeatRequest,
    LeadershipTransferRequest,
    LedgerCode,
    LedgerMessage,
    MetadataRequest,
    MetadataResponse,
    PushEntryResponse,
    VoteRequest,
)
from skyrocket.protocol.command import Command
from skyrocket.protocol.fastjson.codec import decode, encode
from skyrocket.protocol.ledger_push import decode_push, encode_push_response, is_binary
from skyrocket.protocol.requests import RequestCode
from skyrocket.raft.ports import PeerRequest

UNANSWERED_MAX: Final = 20_000  # requests; the oldest is forgotten when another comes, and gets no answer
_BODIES: Final[dict[int, type[LedgerMessage]]] = {
    RequestCode.DLEDGER_METADATA: MetadataRequest,
    RequestCode.DLEDGER_VOTE: VoteRequest,
    RequestCode.DLEDGER_HEART_BEAT: HeartBeatRequest,
    RequestCode.DLEDGER_LEADERSHIP_TRANSFER: LeadershipTransferRequest,
}


class UnansweredRequest(NamedTuple):
    command: Command
    connection: Connection
    binary: bool


class NodePort:
    def __init__(
        self,
        addresses: dict[str, str],
        on_request: Callable[[int, PeerRequest], None],
        get_entries: Callable[[GetEntriesRequest, Callable[[GetEntriesResponse], None]], None],
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """`on_request` is called with a request's number, for `reply`. `get_entries` answers a tool that reads the ledger."""
        self._addresses = addresses
        self._on_request = on_request
        self._get_entries = get_entries
        self._unanswered: dict[int, UnansweredRequest] = {}
        self._number = 0
        router = Router()
        for code in _BODIES:
            router.add(code, self._handle)
        router.add(RequestCode.DLEDGER_PUSH, self._handle_push)
        router.add(RequestCode.DLEDGER_GET, self._handle_get)
        self.server = Server(router, tls=tls, tls_only=tls is not None)

    async def listen(self, host: str, port: int) -> int:
        return await self.server.listen(host, port)

    async def close(self) -> None:
        await self.server.close()

    def _handle(self, command: Command, connection: Connection) -> None:
        self._take(command, connection, cast("PeerRequest", decode(command.body, _BODIES[command.code])), binary=False)

    def _handle_push(self, command: Command, connection: Connection) -> None:
        self._take(command, connection, decode_push(command.body), binary=is_binary(command.body))

    def _handle_get(self, command: Command, connection: Connection) -> None:
        def answer(response: GetEntriesResponse) -> None:
            connection.send_command(command.response(LedgerCode.SUCCESS, body=encode(response)))

        self._get_entries(decode(command.body, GetEntriesRequest), answer)

    def _take(self, command: Command, connection: Connection, message: PeerRequest, *, binary: bool) -> None:
        self._number += 1
        command.body = b""  # not held while the request waits
        self._unanswered[self._number] = UnansweredRequest(command, connection, binary)
        if len(self._unanswered) > UNANSWERED_MAX:
            del self._unanswered[next(iter(self._unanswered))]
        self._on_request(self._number, message)

    def reply(self, number: int, message: LedgerMessage) -> None:
        request = self._unanswered.pop(number, None)
        if request is None:
            return
        if isinstance(message, MetadataResponse):
            message.peers = self._addresses
        body = _encode(message, binary=request.binary)
        request.connection.send_command(request.command.response(LedgerCode.SUCCESS, body=body))


def _encode(message: LedgerMessage, *, binary: bool) -> bytes:
    if isinstance(message, PushEntryResponse):
        return encode_push_response(message, binary=binary)
    return encode(message)
