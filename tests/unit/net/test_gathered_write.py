"""Pieces reach the socket as they are, also when it takes only a part of them; records go there from the log's mapping."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

from skyrocket.broker.pull.frames import HeaderTemplate, frame_runs
from skyrocket.compiled import TWINS
from skyrocket.net import gathered_write
from skyrocket.net.gathered_write import rest_of
from skyrocket.net.router import Router
from skyrocket.net.server import Server
from skyrocket.protocol.command import Command
from skyrocket.protocol.frame import FrameSplitter, join_frame
from skyrocket.store.config import StoreConfig
from skyrocket.store.message_store import MessageStore
from skyrocket.store.read.queue_run import RunQuery
from tests.support.stores.simulated_disk import SimulatedDisk
from tests.support.stores.store_messages import a_message

Write = Callable[[int, list[Any]], int]
WRITES: dict[str, Write] = {"reference": gathered_write._write_pieces}
if "queue_run.write_pieces" in TWINS:
    WRITES["compiled"] = TWINS["queue_run.write_pieces"].compiled
WORDS = HeaderTemplate(b'{"code":0,"next":', b',"opaque":', b"}")


@pytest.fixture(params=WRITES)
def write(request: pytest.FixtureRequest) -> Write:
    return WRITES[request.param]


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        for each in (ours, theirs):
            each.setblocking(False)
        yield ours, theirs


def received(theirs: socket.socket) -> bytes:
    found = bytearray()
    while True:
        try:
            found += theirs.recv(1 << 20)
        except BlockingIOError:
            return bytes(found)


def a_store(messages: int = 200) -> MessageStore:
    store, random = MessageStore("store", StoreConfig(segment_bytes=1 << 22), files=SimulatedDisk()), Random(1)
    store.open()
    for number in range(messages):
        bodies = random.randbytes(random.choice([0, 30, 900]))
        store.append([a_message("orders", random.choice([0, 1]), bodies, unique=f"U{number}")], 1_000 + number)
    return store


def frames_of(store: MessageStore, queue_id: int, pulls: list[tuple[int, int]]) -> list[Any]:
    """The frames for pulls (offset, count) of one queue, as the fast path gets them."""
    queue = store.queues.get("orders", queue_id)
    assert queue is not None
    asks = [(number, offset, count, 0) for number, (offset, count) in enumerate(pulls)]
    query = RunQuery("orders", queue_id, pulls[0][0], 1024, 1 << 20, None)
    packed = queue.read(pulls[0][0], 1024)
    pieces, answered, *_ = frame_runs(*store.reading.turn_sources(), packed, query, asks, WORDS, queue.max_offset, 1 << 20)
    assert answered == len(pulls)
    return pieces


def test_all_pieces_are_written_in_order(write: Write, pair: tuple[socket.socket, socket.socket]):
    store = a_store()
    pieces = [b"first", *frames_of(store, 0, [(0, 20), (20, 32)]), memoryview(b"second"), *frames_of(store, 1, [(3, 8)]), b""]
    ours, theirs = pair
    assert write(ours.fileno(), pieces) == sum(map(len, pieces))
    assert received(theirs) == b"".join(pieces)


def test_a_full_socket_takes_a_part_and_the_rest_follows(write: Write, pair: tuple[socket.socket, socket.socket]):
    store = a_store()
    pieces: list[Any] = [piece for _ in range(40) for piece in frames_of(store, 0, [(0, 32), (32, 32)])]
    whole = b"".join(pieces)
    pieces = [piece for _ in range(40) for piece in frames_of(store, 0, [(0, 32), (32, 32)])]
    ours, theirs = pair
    got, rest, partial = bytearray(), pieces, 0
    while rest:
        written = write(ours.fileno(), rest)
        rest = rest_of(rest, written)
        partial += bool(rest)
        got += received(theirs)
    assert bytes(got) == whole
    assert partial, "the socket took everything at once"


def test_a_closed_socket_takes_nothing(write: Write, pair: tuple[socket.socket, socket.socket]):
    ours, theirs = pair
    theirs.close()
    assert write(ours.fileno(), [b"text", *frames_of(a_store(), 0, [(0, 5)])]) == 0


def test_frames_keep_their_bytes_when_the_store_is_gone():
    store = a_store()
    pieces, same = frames_of(store, 0, [(0, 32)]), b"".join(frames_of(store, 0, [(0, 32)]))
    store.close()
    del store
    assert [len(piece) for piece in pieces] == [len(same)] or len(pieces) > 1
    assert b"".join(pieces) == same
    assert bytes(memoryview(b"".join(pieces))) == same


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_peer_that_reads_slowly_gets_every_byte_once(loop: str):
    """Large answers: the socket takes a part of them, and the transport the rest. Small answers come in between."""
    store = a_store()
    answers: list[list[Any]] = [[join_frame(0, b'{"code":0,"flag":1}', bytes([number])) * 3] for number in range(60)]
    large = b"".join(frames_of(store, 0, [(0, 60)]))

    def handle(command: Command, connection: Any) -> None:
        number = int(command.fields["number"])
        connection.send(answers[number])
        for _ in range(20):
            connection.send(frames_of(store, 0, [(0, 60)]))

    async def main() -> None:
        router = Router()
        router.add(7_777, handle)
        server = Server(router)
        port = await server.listen("127.0.0.1", 0)
        over = socket.socket()
        over.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8_192)
        over.setblocking(False)
        await asyncio.get_running_loop().sock_connect(over, ("127.0.0.1", port))
        reader, writer = await asyncio.open_connection(sock=over, limit=4_096)
        expected, got = bytearray(), bytearray()
        for number in range(6):
            header = b'{"code":7777,"extFields":{"number":"%d"},"flag":0,"opaque":1}' % number
            writer.write(join_frame(0, header, b""))
            expected += answers[number][0] + large * 20
        while len(got) < len(expected):
            got += await reader.read(1 << 16)
        assert got == expected
        assert FrameSplitter().feed(bytes(got))
        writer.close()
        await server.close()

    if loop == "uvloop":
        pytest.importorskip("uvloop").run(main())
    else:
        asyncio.run(main())
