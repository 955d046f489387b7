"""The link of one client to one server, with a connection that keeps what is sent."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from skyrocket.net.errors import ConnectError, TooManyRequestsError
from skyrocket.protocol.command import Command, CommandDecoder, encode_command
from skyrocket.protocol.frame import Frame, FrameSplitter
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import CONNECTION_LOST, NOT_SENT
from skyrocket.proxy.limits import ProxyLimits
from skyrocket.proxy.server_link import InFlight, OpenConnection, ServerLink

SMALL = ProxyLimits(
    unanswered_max=3,
    unanswered_max_bytes=10_000,
    request_overhead_bytes=100,
    unread_max_bytes=1000,
    silent_ms=100,
    unanswered_ms=1000,
)


class KeptConnection:
    def __init__(self) -> None:
        self.sent = CommandDecoder()
        self.commands: list[Command] = []
        self.is_open = True
        self.unwritten_bytes = 0
        self.last_read_ms = 0
        self.aborted = ""

    def send(self, pieces: list[bytes]) -> None:
        assert self.is_open
        self.commands += self.sent.feed(b"".join(pieces))

    def abort(self, reason: str) -> None:
        self.is_open, self.aborted = False, reason


class Session:
    """The owner of a link, which opens when the test says so."""

    def __init__(self, limits: ProxyLimits = SMALL) -> None:
        self.limits = limits
        self.in_flight = InFlight()
        self.now = 0
        self.opened: list[ServerLink] = []
        self.failed_links: list[ServerLink] = []
        self.failed: list[tuple[int, str]] = []
        self.attempts: list[asyncio.Future[OpenConnection]] = []
        self.link = ServerLink(self, "broker-a", self._connect)  # type: ignore[arg-type]

    def now_ms(self) -> int:
        return self.now

    def on_link_open(self, link: ServerLink, connection: Any) -> None:
        assert connection.commands == [], "nothing was sent yet"
        self.opened.append(link)

    def on_link_failed(self, link: ServerLink) -> None:
        self.failed_links.append(link)

    def fail(self, request: Command, sentence: str, failure: str) -> None:
        assert sentence
        self.failed.append((request.opaque, failure))

    async def _connect(self) -> OpenConnection:
        self.attempts.append(asyncio.get_running_loop().create_future())
        return await self.attempts[-1]

    async def open(self) -> KeptConnection:
        await asyncio.sleep(0)
        connection = KeptConnection()
        self.attempts[-1].set_result(OpenConnection("h:1", connection))  # type: ignore[arg-type]
        await self.settle()
        return connection

    async def settle(self) -> None:
        for _ in range(5):
            await asyncio.sleep(0)

    def pass_on(self, opaque: int, body: bytes = b"", **given: Any) -> None:
        self.link.forward(*request(opaque, body), **given)


def request(opaque: int, body: bytes = b"", code: int = RequestCode.SEND_MESSAGE_V2, flag: int = 0) -> tuple[Frame, Command]:
    command = Command(code, opaque=opaque, body=body, flag=flag)
    (frame,) = FrameSplitter().feed(encode_command(command))
    return frame, command


def response(opaque: int) -> tuple[Command, Frame]:
    frame, command = request(opaque, flag=1)
    return command, frame


async def test_requests_queue_up_while_the_connection_opens_and_leave_in_their_order():
    session = Session()
    for opaque in (3, 1, 2):
        session.pass_on(opaque, b"body %d" % opaque)
    connection = await session.open()
    assert len(session.attempts) == 1
    assert [(each.opaque, each.body) for each in connection.commands] == [(3, b"body 3"), (1, b"body 1"), (2, b"body 2")]
    waiting = session.link.answer(*response(1))
    assert waiting is not None
    assert (waiting.request.opaque, waiting.request.body) == (1, b""), "the body is not kept"
    assert session.link.answer(*response(1)) is None
    assert session.link.unanswered == 2


async def test_a_server_that_cannot_be_reached_did_not_get_the_requests():
    session = Session()
    session.pass_on(1)
    await asyncio.sleep(0)
    session.attempts[0].set_exception(ConnectError("It cannot be reached."))
    await session.settle()
    assert session.failed == [(1, NOT_SENT)]
    assert session.failed_links == [session.link]
    session.pass_on(2)
    await session.open()
    assert session.failed == [(1, NOT_SENT)], "the next request opens the next connection"


@pytest.mark.parametrize("error", [ValueError("a bad host name"), OverflowError("port must be 0-65535")])
async def test_a_connection_that_fails_in_an_unexpected_way_leaves_no_request_waiting(
    error: Exception, caplog: pytest.LogCaptureFixture
):
    session = Session()
    session.pass_on(1)
    await asyncio.sleep(0)
    session.attempts[0].set_exception(error)
    await session.settle()
    assert session.failed == [(1, NOT_SENT)]
    assert "could not be opened" in caplog.text


async def test_a_connection_that_ends_before_it_is_used_fails_the_requests():
    session = Session()
    session.pass_on(1)
    await asyncio.sleep(0)
    connection = KeptConnection()
    connection.is_open = False
    session.attempts[0].set_result(OpenConnection("h:1", connection))  # type: ignore[arg-type]
    await session.settle()
    assert session.failed == [(1, NOT_SENT)]


async def test_a_lost_connection_leaves_the_outcome_of_what_was_sent_unknown():
    session = Session()
    session.pass_on(1)
    await session.open()
    session.link.lose("the peer closed it")
    assert session.failed == [(1, CONNECTION_LOST)]
    assert session.in_flight.size_bytes == 0


async def test_a_request_after_the_end_of_a_connection_that_nobody_has_told_yet_gets_another_connection():
    session = Session()
    session.pass_on(1)
    connection = await session.open()
    connection.is_open = False
    session.pass_on(2)
    assert session.failed == [(1, CONNECTION_LOST)]
    other = await session.open()
    assert [each.opaque for each in other.commands] == [2]
    assert session.failed == [(1, CONNECTION_LOST)]


async def test_a_number_that_the_client_uses_again_stands_for_the_later_request():
    session = Session()
    answered = asyncio.get_running_loop().create_future()
    session.pass_on(1, answered=answered)
    session.pass_on(1)
    connection = await session.open()
    assert len(connection.commands) == 2
    assert answered.result() is None
    assert session.link.answer(*response(1)) is not None
    assert session.link.answer(*response(1)) is None
    assert session.in_flight.size_bytes == 0


async def test_requests_are_bounded_in_number_and_in_bytes():
    session = Session()
    session.in_flight.size_bytes = 9_990
    with pytest.raises(TooManyRequestsError, match="fill the proxy's memory"):
        session.pass_on(0)
    session.in_flight.size_bytes = 0
    for opaque in range(3):
        session.pass_on(opaque)
    with pytest.raises(TooManyRequestsError, match="3 requests of this client wait"):
        session.pass_on(3)
    connection = await session.open()
    assert len(connection.commands) == 3


async def test_what_a_server_has_not_read_is_bounded():
    session = Session()
    session.pass_on(5, b"x" * 1100)
    with pytest.raises(TooManyRequestsError, match="has not read"):
        session.pass_on(6)
    connection = await session.open()
    connection.unwritten_bytes = 1001
    with pytest.raises(TooManyRequestsError, match="has not read 1001 bytes"):
        session.pass_on(7)


async def test_oneway_requests_wait_for_nothing_and_are_bounded_while_the_connection_opens():
    session = Session()
    for opaque in range(3):
        session.link.forward(*request(opaque, flag=2))
    with pytest.raises(TooManyRequestsError):
        session.link.forward(*request(3, flag=2))
    connection = await session.open()
    assert len(connection.commands) == 3
    assert session.link.unanswered == session.in_flight.size_bytes == 0


async def test_a_server_that_is_silent_while_requests_wait_is_given_up():
    """The machine of a broker that lost its power says nothing at all, and the connection never ends by itself."""
    session = Session()
    session.pass_on(1)
    connection = await session.open()
    session.now, connection.last_read_ms = 150, 60
    session.link.check_time(session.now)
    assert session.failed == []
    session.now = 161
    session.link.check_time(session.now)
    assert session.failed == [(1, CONNECTION_LOST)]
    assert connection.aborted
    session.link.check_time(session.now)


async def test_a_request_that_is_never_answered_is_given_up_while_others_are_answered():
    session = Session()
    session.pass_on(1)
    connection = await session.open()
    session.now = 500
    session.pass_on(2)
    session.now = connection.last_read_ms = 1001
    session.link.check_time(session.now)
    assert session.failed == [(1, CONNECTION_LOST)]
    assert (session.link.unanswered, connection.is_open) == (1, True)


async def test_what_waits_for_messages_keeps_no_proxy_from_closing():
    session = Session()
    session.link.forward(*request(1, code=RequestCode.PULL_MESSAGE))
    assert not session.link.is_answering
    session.pass_on(2)
    assert session.link.is_answering
    await session.open()


async def test_what_a_client_has_sent_before_it_left_still_goes_to_the_server():
    session = Session()
    session.link.forward(*request(1, flag=2))
    closing = asyncio.ensure_future(session.link.close())
    connection = await session.open()
    await closing
    assert [each.opaque for each in connection.commands] == [1]


async def test_what_servers_have_not_read_of_all_clients_is_bounded_and_a_server_that_reads_still_gets_requests():
    """One-way requests wait for no response: without this bound, a broker that stands still would fill the proxy's memory."""
    session = Session(replace(SMALL, unread_all_max_bytes=500))
    session.link.forward(*request(1, flag=2))
    connection = await session.open()
    connection.unwritten_bytes = 100
    session.in_flight.unread_bytes += 450  # of another client
    with pytest.raises(TooManyRequestsError, match="bytes of all clients"):
        session.link.forward(*request(2, flag=2))
    connection.unwritten_bytes = 0
    session.link.forward(*request(3, flag=2))
    session.link.check_time(0)
    assert session.in_flight.unread_bytes == 450
    connection.unwritten_bytes = 70
    session.link.check_time(0)
    assert session.in_flight.unread_bytes == 520
    session.link.lose("the test says so")
    assert session.in_flight.unread_bytes == 450


async def test_what_waits_for_a_connection_counts_as_unread_until_it_is_closed():
    session = Session()
    session.link.forward(*request(1, b"x" * 100))
    assert session.in_flight.unread_bytes > 100
    await asyncio.sleep(0)
    session.attempts[0].set_exception(ConnectError("It cannot be reached."))
    await session.settle()
    assert session.in_flight.unread_bytes == 0
    session.pass_on(2)
    await session.open()
    await session.link.close()
    assert session.in_flight.unread_bytes == session.in_flight.size_bytes == 0


async def test_a_silent_nameserver_is_given_up_sooner_than_a_broker():
    session = Session(replace(SMALL, nameserver_silent_ms=10))
    session.link.name = ""
    session.pass_on(1)
    await session.open()
    session.now = 11
    session.link.check_time(session.now)
    assert session.failed == [(1, CONNECTION_LOST)]
