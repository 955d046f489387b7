"""A node of a DLedger group whose log is in memory: the real state machine behind real sockets, for tests with Apache's nodes."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from contextlib import suppress
from typing import Any

from skyrocket.protocol.bodies.dledger import DLedgerEntry, LedgerMessage, PushEntryRequest
from skyrocket.protocol.command import Command, CommandDecoder, encode_command
from skyrocket.protocol.fastjson.codec import decode, encode
from skyrocket.protocol.ledger_push import decode_push, decode_push_response, encode_push, encode_push_response, is_binary
from skyrocket.protocol.requests import REQUESTS, RequestCode
from skyrocket.raft.config import GroupConfig
from skyrocket.raft.ledger import LedgerBounds, landing_position
from skyrocket.raft.node import RaftNode
from skyrocket.raft.ports import (
    Append,
    Committed,
    CompareStored,
    Effect,
    EntriesCompared,
    Event,
    HardState,
    LogDurable,
    LogPoint,
    Persist,
    Proposed,
    ProposeMarker,
    Pushed,
    Refused,
    Reply,
    Request,
    ResetLog,
    Response,
    Send,
    SendEntries,
    StateDurable,
    Tick,
    Truncate,
    Unreachable,
)

CODES = {
    "VoteRequest": RequestCode.DLEDGER_VOTE,
    "HeartBeatRequest": RequestCode.DLEDGER_HEART_BEAT,
    "PushEntryRequest": RequestCode.DLEDGER_PUSH,
    "LeadershipTransferRequest": RequestCode.DLEDGER_LEADERSHIP_TRANSFER,
}
OK = 200


class MemoryNode:
    """One node on loopback. Memory is durable at once, so nothing is held back."""

    def __init__(self, config: GroupConfig, ports: dict[str, int]) -> None:
        self._config = config
        self._ports = ports
        self.entries: list[DLedgerEntry] = []
        self.committed = -1
        self.refusals: list[str] = []
        self.binary_pushes = 0
        loop = asyncio.get_running_loop()
        self._now = lambda: loop.time() * 1_000
        self.raft = RaftNode(config, HardState(0, None), LedgerBounds(), random.Random(config.self_id).randrange, self._now())
        self._writers: dict[str, asyncio.StreamWriter] = {}
        self._dialling: set[str] = set()
        self._open: set[asyncio.StreamWriter] = set()
        self._handles: dict[int, tuple[asyncio.StreamWriter, Command, bool]] = {}
        self._handle = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._ports[self._config.self_id])
        self._spawn(self._tick())

    async def stop(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        if self._server is not None:
            self._server.close()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for writer in self._open:
            writer.close()
        for writer in self._open:
            with suppress(OSError):
                await writer.wait_closed()

    def _spawn(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(0.01)
            self.feed(Tick())

    def feed(self, event: Event) -> None:
        queue: deque[Event] = deque([event])
        while queue:
            for effect in self.raft.step(queue.popleft(), self._now()):
                answer = self._execute(effect)
                if answer is not None:
                    queue.append(answer)

    def _execute(self, effect: Effect) -> Event | None:
        match effect:
            case Persist(_, token):
                return StateDurable(token)
            case Append(entries):
                self.entries += entries
                return LogDurable(LogPoint(self.raft.epoch, len(self.entries) - 1))
            case Truncate(keep_index):
                del self.entries[keep_index + 1 :]
                return LogDurable(LogPoint(self.raft.epoch, len(self.entries) - 1))
            case ResetLog(index):
                assert index == 0
                self.entries.clear()
            case CompareStored(compare_id, entries):
                stored = self.entries
                return EntriesCompared(compare_id, all(e.index < len(stored) and stored[e.index] == e for e in entries))
            case Committed(index):
                self.committed = index
            case ProposeMarker(term):
                return self._append([b"marker-%d" % term])
            case Send(to, request_id, message):
                self._send(to, request_id, message, binary=False)
            case SendEntries():
                entries = self.entries[effect.first_index : effect.first_index + effect.entries_max]
                effect.push.carry(entries, batch=len(entries) > 1)
                self._send(effect.to, effect.request_id, effect.push, binary=effect.binary)
                return Pushed(effect.request_id, len(entries))
            case Reply(handle, message):
                writer, command, binary = self._handles.pop(handle)
                if isinstance(decode_of(command), PushEntryRequest):
                    body = encode_push_response(message, binary=binary)  # type: ignore[arg-type]
                else:
                    body = encode(message)
                writer.write(encode_command(command.response(OK, body=body)))
            case Refused(_, _, sentence):
                self.refusals.append(sentence)
        return None

    # Messages of clients ----------------------------------------------------------------------------------------------

    def propose(self, bodies: list[bytes]) -> None:
        event = self._append(bodies)
        self.feed(event)
        self.feed(LogDurable(LogPoint(self.raft.epoch, len(self.entries) - 1)))

    def _append(self, bodies: list[bytes]) -> Event:
        for body in bodies:
            last = self.entries[-1] if self.entries else None
            size = 48 + len(body)
            pos = landing_position(last.pos + last.size if last else 0, size, self._config.segment_bytes)
            self.entries.append(DLedgerEntry(size=size, index=len(self.entries), term=self.raft.term, pos=pos, body=body))
        last = self.entries[-1]
        return Proposed(last.index, last.pos + last.size)

    # Sockets ----------------------------------------------------------------------------------------------------------

    def _send(self, to: str, request_id: int, message: LedgerMessage, *, binary: bool) -> None:
        writer = self._writers.get(to)
        if writer is None:
            if to not in self._dialling:
                self._dialling.add(to)
                self._spawn(self._dial(to))
            return
        self.binary_pushes += binary
        body = encode_push(message) if binary and isinstance(message, PushEntryRequest) else encode(message)
        writer.write(encode_command(Command(CODES[type(message).__name__], opaque=request_id, body=body)))

    async def _dial(self, to: str) -> None:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self._ports[to])
        except OSError:
            await asyncio.sleep(0.05)
            self._dialling.discard(to)
            return
        self._writers[to] = writer
        self._open.add(writer)
        self._dialling.discard(to)
        decoder = CommandDecoder()
        with suppress(OSError):
            while data := await reader.read(1 << 16):
                for command in decoder.feed(data):
                    self._take_response(to, command)
        del self._writers[to]
        writer.close()
        self.feed(Unreachable(to))

    def _take_response(self, peer: str, command: Command) -> None:
        request = self.raft._core.pending.get(command.opaque)
        if request is None:
            return
        if request.kind in ("APPEND", "COMMIT", "COMPARE", "TRUNCATE"):
            message: Any = decode_push_response(command.body)
        else:
            code = {"VOTE": 51001, "HEART_BEAT": 51002, "LEADERSHIP_TRANSFER": 51005}[request.kind]
            message = decode(command.body, REQUESTS[code].response_body)  # type: ignore[arg-type]
        self.feed(Response(peer, command.opaque, message))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._spawn(self._read_requests(reader, writer))

    async def _read_requests(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        decoder = CommandDecoder()
        with suppress(OSError):
            while data := await reader.read(1 << 16):
                for command in decoder.feed(data):
                    self._handle += 1
                    self._handles[self._handle] = (writer, command, is_binary(command.body))
                    self.feed(Request(self._handle, decode_of(command)))
        writer.close()


def decode_of(command: Command) -> Any:
    kind = REQUESTS[command.code].body
    return decode_push(command.body) if kind is PushEntryRequest else decode(command.body, kind)  # type: ignore[arg-type]
