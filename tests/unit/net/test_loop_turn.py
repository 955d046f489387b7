"""What all connections of a server brought in one turn of the event loop is handled together at its end."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from skyrocket.net.connection import Connection
from skyrocket.net.loop_turn import TURN_BYTES_MAX, TURNS_PER_LOOK
from skyrocket.net.router import Arrival, Router
from skyrocket.net.server import Server
from skyrocket.protocol.command import Command, encode_command
from skyrocket.protocol.frame import FrameSplitter
from tests.support.brokers.send_parts import KeptWrites, connected
from tests.support.waiting import WAIT_S_MAX

FAST, SLOW, BROKEN = 4711, 4712, 4713


def a_frame(code: int, opaque: int = 1, body: bytes = b"") -> bytes:
    return encode_command(Command(code, opaque=opaque, body=body))


class Scene:
    """A server with a fast path for FAST and a handler for SLOW. Its turns end when the test says so."""

    def __init__(self) -> None:
        self.turns: list[list[int]] = []  # for each call of the fast path, how many frames each connection brought
        self.handled: list[int] = []  # opaques of SLOW requests
        self.ends: list[Callable[[], None]] = []
        router = Router()
        router.add_turn_path(b'{"code":4711,', self.take, FAST)
        router.add(FAST, lambda command, _: command.response(0))
        router.add(SLOW, self.handle)
        router.add(BROKEN, self.fail)
        self.server = Server(router, now_ms=lambda: 1_000, call_soon=self.ends.append)  # no time passes, however slow the machine
        self.fails = False

    def take(self, arrivals: Sequence[Arrival], handled: list[int]) -> None:
        if self.fails:
            raise RuntimeError("a bug")
        self.turns.append([len(frames) for frames, _ in arrivals])
        for frames, connection in arrivals:
            count = next((at for at, frame in enumerate(frames) if b":4711" not in frame.header), len(frames))
            connection.send(b"answer " * count)
            handled.append(count)

    def handle(self, command: Command, connection: Connection) -> Command:
        self.handled.append(command.opaque)
        return command.response(0)

    def fail(self, command: Command, connection: Connection) -> Command:
        raise RuntimeError("a bug")

    def connect(self) -> tuple[Connection, KeptWrites]:
        return connected(self.server)

    def end_turn(self) -> None:
        ends, self.ends = self.ends, []
        assert len(ends) == 1, "a turn ends once"
        ends[0]()


def test_frames_of_all_connections_reach_the_fast_path_together():
    scene = Scene()
    (one, to_one), (two, to_two) = scene.connect(), scene.connect()
    one.data_received(a_frame(FAST) * 3)
    two.data_received(a_frame(FAST))
    assert scene.turns == []
    scene.end_turn()
    assert scene.turns == [[3, 1]]
    assert (to_one.written, to_two.written) == (b"answer " * 3, b"answer ")


def test_two_read_events_of_a_connection_keep_their_order():
    scene = Scene()
    connection, _ = scene.connect()
    connection.data_received(a_frame(SLOW, 1) + a_frame(SLOW, 2))
    connection.data_received(a_frame(SLOW, 3))
    scene.end_turn()
    assert scene.handled == [1, 2, 3]


def test_frames_behind_those_of_the_fast_path_take_the_general_path():
    scene = Scene()
    (one, to_one), (two, _) = scene.connect(), scene.connect()
    one.data_received(a_frame(FAST) + a_frame(SLOW, 7) + a_frame(FAST, 8))
    two.data_received(a_frame(FAST))
    scene.end_turn()
    assert scene.turns == [[3, 1]]
    assert scene.handled == [7]
    answers = FrameSplitter().feed(to_one.written.removeprefix(b"answer "))
    assert [frame.header.count(b'"opaque":8') for frame in answers] == [0, 1]


def test_a_turn_that_brought_many_bytes_ends_at_once():
    scene = Scene()
    frame = a_frame(FAST, body=bytes(TURN_BYTES_MAX // 8))
    for number in range(8):
        assert scene.turns == [], f"{number} connections have brought {number * len(frame)} bytes"
        scene.connect()[0].data_received(frame)
    assert scene.turns == [[1] * 8]
    scene.end_turn()
    assert scene.turns == [[1] * 8], "nothing is left for the end that was scheduled"


@pytest.mark.parametrize("end", [Connection.eof_received, lambda connection: connection.connection_lost(None)])
def test_what_a_peer_sent_before_it_closed_is_handled(end: Callable[[Connection], object]):
    scene = Scene()
    (one, _), (two, _) = scene.connect(), scene.connect()
    one.data_received(a_frame(SLOW, 1))
    two.data_received(a_frame(SLOW, 2))
    end(one)
    assert scene.handled == [1, 2]


def test_frames_before_a_malformed_one_are_handled_and_then_the_connection_is_closed():
    scene = Scene()
    connection, written = scene.connect()
    connection.data_received(a_frame(SLOW, 1) + b"\xff" * 8)
    assert not written.closed
    scene.end_turn()
    assert scene.handled == [1]
    assert written.closed
    assert written.written, "the answer leaves before the connection closes"


def test_a_request_that_fails_unexpectedly_closes_its_connection_only(caplog: pytest.LogCaptureFixture):
    scene = Scene()
    (one, to_one), (two, to_two), (three, _) = scene.connect(), scene.connect(), scene.connect()
    one.data_received(a_frame(BROKEN))
    two.data_received(a_frame(SLOW, 2))
    three.data_received(a_frame(FAST))
    scene.end_turn()
    assert (to_one.closed, to_two.closed) == (True, False)
    assert scene.handled == [2]
    assert scene.turns == [[1]]
    assert "failed unexpectedly" in caplog.text


def test_a_fast_path_that_fails_unexpectedly_closes_the_connections_that_it_had(caplog: pytest.LogCaptureFixture):
    scene = Scene()
    (one, to_one), (two, to_two) = scene.connect(), scene.connect()
    scene.fails = True
    one.data_received(a_frame(FAST))
    two.data_received(a_frame(SLOW, 2))
    scene.end_turn()
    assert (to_one.closed, to_two.closed) == (True, False)
    assert scene.handled == [2]
    assert "failed unexpectedly" in caplog.text


def test_what_is_sent_outside_of_requests_leaves_at_the_end_of_the_turn_with_one_write():
    scene = Scene()
    (one, to_one), (two, to_two) = scene.connect(), scene.connect()
    one.send(b"a")
    two.send(b"b")
    one.send(b"c")
    assert to_one.written == b""
    scene.end_turn()
    assert (to_one.written, to_two.written) == (b"ac", b"b")


class Observer:
    def __init__(self) -> None:
        self.turns: list[tuple[float, float]] = []
        self.rounds: list[int] = []

    def record_turn(self, waited_s: float, written_s: float) -> None:
        self.turns.append((waited_s, written_s))

    def record_round(self, late_ms: int) -> None:
        self.rounds.append(late_ms)


def test_an_observer_is_told_of_the_first_turn_and_of_one_in_eight():
    scene, observer = Scene(), Observer()
    (first, _), (second, _) = scene.connect(), scene.connect()
    first.data_received(a_frame(FAST))
    scene.end_turn()
    scene.server.observe_turns(observer)
    told = []
    for _ in range(2 * TURNS_PER_LOOK + 1):
        first.data_received(a_frame(FAST))
        second.data_received(a_frame(FAST) + a_frame(SLOW))
        scene.server.end_turn(first)
        told.append(len(observer.turns))
    assert told == [1] * TURNS_PER_LOOK + [2] * TURNS_PER_LOOK + [3], "not of each connection"
    assert all(0 <= waited_s < WAIT_S_MAX and 0 <= written_s < WAIT_S_MAX for waited_s, written_s in observer.turns)
