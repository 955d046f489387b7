"""A server and its connections, over real sockets on loopback; the time is ours."""

from __future__ import annotations

import asyncio
import struct
from pathlib import Path

import pytest

from skyrocket.net.dialer import Dialer
from skyrocket.net.errors import ConnectError, ConnectionLostError, NetError, RequestTimeoutError, TooManyRequestsError
from skyrocket.net.limits import NetLimits
from skyrocket.net.router import Router
from skyrocket.net.server import Server
from skyrocket.net.tls import server_context
from skyrocket.protocol.command import Command, encode_command
from skyrocket.protocol.frame import Serialization
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from tests.support.processes.certificates import Certificate
from tests.unit.net.scene import ASK_BACK, BIG, ECHO, GROUP, REFUSE, SILENT, SLOW, WRONG_HEADER, Raw, scene


@pytest.mark.parametrize("serialization", list(Serialization))
async def test_a_request_is_answered_in_its_own_serialization(serialization: Serialization):
    async with scene() as played:
        response = await played.ask(ECHO, body=b"hello", serialization=serialization)
        assert (response.code, response.body, response.serialization) == (0, b"hello", serialization)


async def test_an_unknown_code_answers_3():
    async with scene() as played:
        response = await played.ask(31_000)
        assert response.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        assert "31000" in (response.remark or "")


async def test_a_refusal_and_a_wrong_header_become_responses():
    async with scene() as played:
        refused = await played.ask(REFUSE)
        assert (refused.code, refused.remark) == (ResponseCode.NO_PERMISSION, "Not you.")
        wrong = await played.ask(WRONG_HEADER)
        assert wrong.code == ResponseCode.SYSTEM_ERROR
        assert wrong.remark == "Named: field 'name' is required, and missing."


async def test_oneway_requests_are_handled_and_not_answered():
    async with scene() as played:
        connection = await played.dialer.connection(played.address)
        connection.oneway(Command(REFUSE))
        connection.oneway(Command(31_000))
        connection.oneway(Command(ECHO))
        assert (await played.ask(ECHO, body=b"x")).body == b"x"
        assert connection._pending.pop(1) is None


async def test_requests_read_together_reach_a_group_handler_together_and_are_answered_with_one_write():
    async with scene() as played:
        raw = await Raw.to(played)
        raw.writer.write(b"".join(encode_command(Command(GROUP, opaque=number)) for number in range(20)))
        responses = await raw.receive(20)
        assert [response.opaque for response in responses] == list(range(20))
        assert played.groups == [list(range(20))]
        raw.writer.close()


async def test_requests_of_other_codes_in_between_keep_their_order():
    async with scene() as played:
        raw = await Raw.to(played)
        codes = [GROUP, GROUP, ECHO, GROUP]
        raw.writer.write(b"".join(encode_command(Command(code, opaque=number)) for number, code in enumerate(codes)))
        assert [response.opaque for response in await raw.receive(4)] == [0, 1, 2, 3]
        assert played.groups == [[0, 1], [3]]
        raw.writer.close()


async def test_the_server_sends_requests_to_its_client_over_the_same_connection():
    async with scene() as played:
        played.dialer.router.add(99, lambda command, _: command.response(0, body=b"a client"))
        assert (await played.ask(ASK_BACK)).body == b"a client"


async def test_a_request_without_an_answer_times_out():
    async with scene() as played:
        with pytest.raises(RequestTimeoutError, match="did not answer in time"):
            await played.dialer.request(played.address, Command(SILENT), 30)


async def test_a_request_fails_when_the_connection_ends():
    async with scene() as played:
        waiting = asyncio.ensure_future(played.ask(SILENT))
        await asyncio.sleep(0.05)
        played.connections[0].abort("test")
        with pytest.raises(ConnectionLostError):
            await waiting
        assert (await played.ask(ECHO, body=b"again")).body == b"again"


async def test_pending_requests_are_bounded():
    async with scene() as played:
        played.dialer.limits = NetLimits(pending_requests_max=2)
        connection = await played.dialer.connection(played.address)
        held = [connection.request(Command(SILENT), 100) for _ in range(2)]
        with pytest.raises(TooManyRequestsError, match="2 requests"):
            await connection.request(Command(ECHO))
        await asyncio.gather(*held, return_exceptions=True)


async def test_an_unreachable_peer_is_a_connect_error():
    async with scene() as played:
        await played.server.close()
        with pytest.raises(ConnectError, match="cannot be reached"):
            await played.ask(ECHO)
        with pytest.raises(ConnectError, match="not an address"):
            await played.dialer.request("nowhere", Command(ECHO))


async def test_concurrent_connects_share_a_connection():
    async with scene() as played:
        await asyncio.gather(*(played.ask(ECHO, body=b"x") for _ in range(50)))
        assert len(played.server.connections) == 1


MALFORMED = {
    "negative length": struct.pack(">iI", -1, 0),
    "too large": struct.pack(">iI", 2**31 - 1, 0),
    "header longer than frame": struct.pack(">iI", 10, 100),
    "not JSON": struct.pack(">iI", 7, 3) + b"{x}",
    "deep": struct.pack(">iI", 100_004, 100_000) + b"[" * 100_000,
    "HTTP": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
}


@pytest.mark.parametrize("data", MALFORMED.values(), ids=MALFORMED.keys())
async def test_a_malformed_stream_is_closed_after_what_came_before_it_was_answered(data: bytes):
    async with scene() as played:
        raw = await Raw.to(played)
        raw.writer.write(encode_command(Command(ECHO, body=b"before")) + data)
        (response,) = await raw.receive(1)
        assert response.body == b"before"
        assert await raw.closed()
        assert (await played.ask(ECHO, body=b"others")).body == b"others"


@pytest.mark.parametrize(
    ("sent", "limit", "reason"),
    [
        (b"", {"first_frame_ms": 100}, "no whole frame"),
        (encode_command(Command(ECHO))[:-3], {"first_frame_ms": 100}, "no whole frame"),
        (encode_command(Command(ECHO)) + b"\0", {"frame_ms": 100}, "did not finish"),
        (encode_command(Command(ECHO)), {"idle_ms": 100}, "idle"),
    ],
)
async def test_a_slow_connection_is_closed(sent: bytes, limit: dict[str, int], reason: str):
    async with scene(NetLimits(scan_ms=5, **limit)) as played:
        raw = await Raw.to(played)
        raw.writer.write(sent)
        await asyncio.sleep(0.02)
        (connection,) = played.server.connections
        played.clock.now = 100
        await asyncio.sleep(0.02)
        assert connection.is_open
        played.clock.now = 101
        await asyncio.sleep(0.03)
        assert not connection.is_open
        assert reason in (connection._closing or "")
        raw.writer.close()


async def test_one_connection_too_many_is_closed_and_the_others_are_served():
    async with scene(NetLimits(connections_max=2)) as played:
        first, second = await Raw.to(played), await Raw.to(played)
        for raw in (first, second):
            raw.writer.write(encode_command(Command(ECHO)))
            await raw.receive(1)
        third = await Raw.to(played)
        assert await third.closed()
        first.writer.write(encode_command(Command(ECHO)))
        await first.receive(1)
        first.writer.close()
        await asyncio.sleep(0.02)
        fourth = await Raw.to(played)
        fourth.writer.write(encode_command(Command(ECHO)))
        await fourth.receive(1)
        for raw in (second, fourth):
            raw.writer.close()


async def test_a_peer_that_does_not_read_responses_is_paused_and_then_closed():
    async with scene(NetLimits(unwritten_high_bytes=65536, scan_ms=5)) as played:
        raw = await Raw.to(played)
        raw.reader._transport.pause_reading()  # a peer that only talks
        request = encode_command(Command(BIG, fields={"size": "1000000"}))
        raw.writer.write(request * 5)
        await asyncio.sleep(0.05)
        (connection,) = played.server.connections
        assert connection.unwritten_bytes > 0
        assert not connection._transport.is_reading()
        raw.writer.write(request * 100)
        await asyncio.sleep(0.05)
        assert connection.unwritten_bytes < 8_000_000, "requests must not be read while answers pile up"
        raw.writer.transport.abort()


async def test_a_connection_with_too_many_unread_responses_is_closed():
    async with scene(NetLimits(unwritten_max_bytes=1_000_000)) as played:
        raw = await Raw.to(played)
        raw.reader._transport.pause_reading()
        raw.writer.write(encode_command(Command(BIG, fields={"size": "15000000"})))
        await asyncio.sleep(0.1)
        assert not played.server.connections
        raw.writer.transport.abort()


async def test_overload_answers_busy_with_a_reason():
    async with scene(NetLimits(in_flight_max_bytes=1_000_000, scan_ms=5)) as played:
        stuck = await Raw.to(played)
        stuck.reader._transport.pause_reading()
        stuck.writer.write(encode_command(Command(BIG, fields={"size": "12000000"})))
        await asyncio.sleep(0.1)
        response = await played.ask(ECHO)
        assert response.code == ResponseCode.SYSTEM_BUSY
        assert "of unread responses" in (response.remark or "")
        stuck.writer.transport.abort()
        await asyncio.sleep(0.05)
        assert (await played.ask(ECHO)).code == 0


async def test_many_large_answers_to_one_read_event_wait_for_the_peer_to_read():
    """Requests come by the hundred in one event; what is answered to them is never much more than the bound."""
    async with scene(NetLimits(unwritten_high_bytes=65536, unwritten_max_bytes=32_000_000)) as played:
        raw = await Raw.to(played)
        raw.reader._transport.pause_reading()
        raw.writer.write(encode_command(Command(BIG, fields={"size": "1000000"})) * 300)
        await asyncio.sleep(0.1)
        (connection,) = played.server.connections
        assert connection.unwritten_bytes < 8_000_000
        raw.reader._transport.resume_reading()
        assert [len(answer.body) for answer in await raw.receive(300)] == [1_000_000] * 300


async def test_unrequested_sends_to_a_peer_that_does_not_read_are_bounded():
    async with scene(NetLimits(unwritten_max_bytes=10_000_000)) as played:
        raw = await Raw.to(played)
        raw.writer.write(encode_command(Command(ECHO)))
        await raw.receive(1)
        (connection,) = played.server.connections
        for _ in range(100):
            connection.send(bytes(1_000_000))
        await asyncio.sleep(0.05)
        assert not played.server.connections


async def test_the_connections_that_hold_most_bytes_are_closed_above_the_limit():
    async with scene(NetLimits(in_flight_max_bytes=1_000_000, held_max_bytes=2_000_000, scan_ms=5)) as played:
        small, large = await Raw.to(played), await Raw.to(played)
        unfinished = encode_command(Command(ECHO, body=bytes(5_000_000)))
        small.writer.write(unfinished[:100_000])
        large.writer.write(unfinished[:4_000_000])
        async with asyncio.timeout(30):
            while [connection.held_bytes for connection in played.server.connections] != [100_000]:  # noqa: ASYNC110 — a busy machine reads slowly
                await asyncio.sleep(0.01)
        assert [connection.held_bytes for connection in played.server.connections] == [100_000]
        large.writer.transport.abort()
        small.writer.transport.abort()


async def test_closing_sends_pending_responses_and_accepts_no_more_requests():
    async with scene() as played:
        slow = asyncio.ensure_future(played.ask(SLOW))
        await asyncio.sleep(0.02)
        closing = asyncio.ensure_future(played.server.close())
        await asyncio.sleep(0.02)
        busy = await played.ask(ECHO)
        assert (busy.code, busy.remark) == (ResponseCode.SYSTEM_BUSY, "The server is closing.")
        played.release.set()
        assert (await slow).body == b"at last"
        await closing


async def test_a_port_in_use_is_a_clear_error():
    async with scene() as played:
        other = Server(Router())
        with pytest.raises(NetError, match=f"Cannot listen on 127.0.0.1:{played.port}"):
            await other.listen("127.0.0.1", played.port)
        await other.close()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory) -> Certificate:
    return Certificate.make(tmp_path_factory.mktemp("tls"))


async def test_where_tls_is_required_plain_connections_are_closed(certificate: Certificate):
    async with scene(tls=server_context(certificate.path, certificate.key)) as played:
        played.server.tls_only = True
        secure = Dialer(tls=certificate.trusted())
        assert (await secure.request(played.address, Command(ECHO))).code == 0
        with pytest.raises(ConnectionLostError):
            await played.ask(ECHO)
        await secure.close()


def test_an_unusable_certificate_is_reported(tmp_path: Path):
    assert server_context("", "") is None
    with pytest.raises(NetError, match="cannot be used"):
        server_context(tmp_path / "none.pem", tmp_path / "none.pem")


async def test_tls_and_plain_share_a_port(certificate: Certificate):
    async with scene(tls=server_context(certificate.path, certificate.key)) as played:
        secure = Dialer(tls=certificate.trusted())
        for size in (0, 10, 100_000, 3_000_000):
            body = bytes(range(256)) * (size // 256)
            assert (await secure.request(played.address, Command(ECHO, body=body))).body == body
            assert (await played.ask(ECHO, body=body)).body == body
        raw = await Raw.to(played)
        raw.writer.write(b"\x16\x03\x01\x00\x05hello, this is no handshake")
        await asyncio.wait_for(raw.reader.read(), 60)
        assert (await played.ask(ECHO)).code == 0
        await secure.close()


async def test_an_outgoing_request_times_out_at_its_deadline_not_at_the_next_scan():
    async with scene() as played:
        played.dialer = dialer = Dialer(limits=NetLimits(scan_ms=600_000))
        patient = played.dialer.request(played.address, Command(SILENT), 60_000)
        waiting = asyncio.ensure_future(patient)
        await asyncio.sleep(0.01)
        loop = asyncio.get_running_loop()
        started = loop.time()
        with pytest.raises(RequestTimeoutError):
            await dialer.request(played.address, Command(SILENT), 60)
        assert 0.055 < loop.time() - started < 1.0
        waiting.cancel()


async def test_a_client_reads_while_its_write_buffer_is_full():
    """Both sides writing more than the other reads would otherwise wait for each other for ever."""
    async with scene(NetLimits(unwritten_high_bytes=1_000, scan_ms=5)) as played:
        played.dialer = Dialer(limits=NetLimits(unwritten_high_bytes=1_000))
        body = bytes(300_000)
        answers = await asyncio.gather(
            *(played.dialer.request(played.address, Command(ECHO, body=body), 20_000) for _ in range(60))
        )
        assert all(answer.body == body for answer in answers)


async def test_connection_listeners_are_called_before_the_connection_is_used():
    async with scene() as played:
        told: list[str] = []
        played.dialer.on_opened.append(lambda address, connection: told.append(address))
        await played.ask(ECHO)
        await played.ask(ECHO)
        assert told == [played.address]
        assert played.dialer.open_connection(played.address) is not None
        assert played.dialer.open_connection("127.0.0.1:1") is None


async def test_slow_requests_are_logged(caplog: pytest.LogCaptureFixture):
    async with scene() as played:

        def dawdle(command: Command, _connection: object) -> Command:
            played.clock.now += 700
            return command.response(0)

        played.router.add(RequestCode.GET_BROKER_CONFIG, dawdle)
        await played.ask(RequestCode.GET_BROKER_CONFIG)
        assert not caplog.records, "nothing is slow unless somebody says so"
        played.server.log_slower_than(701)
        await played.ask(RequestCode.GET_BROKER_CONFIG)
        assert not caplog.records
        played.server.log_slower_than(700)
        await played.ask(RequestCode.GET_BROKER_CONFIG)
        assert [record.getMessage() for record in caplog.records] == [
            "Requests of one read took 700 ms. The first one is GET_BROKER_CONFIG."
        ]


async def test_a_handler_that_waits_for_long_is_logged(caplog: pytest.LogCaptureFixture):
    async with scene() as played:

        async def wait(command: Command, _connection: object) -> Command:
            await asyncio.sleep(0)
            played.clock.now += 700
            return command.response(0)

        played.router.add(RequestCode.QUERY_MESSAGE, wait)
        for slow_ms, lines in ((0, 0), (701, 0), (700, 1)):
            played.server.log_slower_than(slow_ms)
            await played.ask(RequestCode.QUERY_MESSAGE)
            assert len(caplog.records) == lines, slow_ms
        assert caplog.records[0].getMessage() == "Request QUERY_MESSAGE was answered after 700 ms."
