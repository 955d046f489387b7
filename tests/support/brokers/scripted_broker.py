"""A broker for one queue that a test scripts: it can lie, be late, answer out of order, or hang up in the middle of an answer."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Sequence
from typing import NamedTuple, Self

from skyrocket.protocol.command import RESPONSE_FLAG, Command, CommandDecoder, encode_command
from skyrocket.protocol.message.record import Record, encode_record
from skyrocket.protocol.responses import ResponseCode

TOPIC = "orders"


class Pull(NamedTuple):
    number: int  # of all pulls that this broker got, from 0
    offset: int
    messages: int
    opaque: int


class Reply(NamedTuple):
    code: int = ResponseCode.SUCCESS
    next_offset: int = 0
    body: bytes = b""
    suggested: int = 0
    remark: str = ""
    cut: int | None = None  # so many bytes of the answer, and then the connection ends


Script = Callable[[Pull], Reply | None]
"""None: no answer at all."""


def record(offset: int, **given: object) -> bytes:
    fields: dict[str, object] = {
        "topic": TOPIC,
        "body": b"%d" % offset,
        "queue_offset": offset,
        "physical_offset": offset * 1_000,
    }
    return encode_record(Record(**{**fields, **given}))  # type: ignore[arg-type]


def records(start: int, stop: int) -> Reply:
    return Reply(next_offset=stop, body=b"".join(record(offset) for offset in range(start, stop)))


def ordinary(pull: Pull, most: int = 32) -> Reply:
    """What a broker with more messages than anyone asks for answers."""
    return records(pull.offset, pull.offset + min(pull.messages, most))


class ScriptedBroker:
    def __init__(self, script: Script, *, reorder: Callable[[Sequence[bytes]], Sequence[bytes]] = list) -> None:
        """`reorder` is given the answers to all pulls that came together."""
        self.pulls: list[Pull] = []
        self.connections = 0
        self._script = script
        self._reorder = reorder
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._server.getsockname()[1]}"
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.close()
        for connection in self._open:
            connection.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            self.connections += 1
            self._open.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:  # which may have come after all others were closed
            try:
                self._converse(connection)
            except OSError:
                return  # the test is over, or has hung up

    def _converse(self, connection: socket.socket) -> None:
        decoder = CommandDecoder()
        while data := connection.recv(1 << 20):
            answers: list[bytes] = []
            for command in decoder.feed(data):
                reply = self._answer(command)
                if reply is not None and reply.cut is not None:
                    connection.sendall(b"".join(answers) + self._frame(command, reply)[: reply.cut])
                    return
                if reply is not None:
                    answers.append(self._frame(command, reply))
            connection.sendall(b"".join(self._reorder(answers)))

    def _answer(self, command: Command) -> Reply | None:
        fields = command.fields
        pull = Pull(len(self.pulls), int(fields["queueOffset"]), int(fields["maxMsgNums"]), command.opaque)
        self.pulls.append(pull)
        return self._script(pull)

    @staticmethod
    def _frame(command: Command, reply: Reply) -> bytes:
        fields = {"nextBeginOffset": str(reply.next_offset), "suggestWhichBrokerId": str(reply.suggested), "minOffset": "0"}
        return encode_command(
            Command(
                reply.code, opaque=command.opaque, flag=RESPONSE_FLAG, fields=fields, body=reply.body, remark=reply.remark or None
            )
        )
