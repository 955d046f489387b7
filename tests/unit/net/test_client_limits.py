"""What one client can take from the others: connections, requests, bytes, turns and memory. Real sockets; the time is ours."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

import pytest

from skyrocket.net.connection import Connection
from skyrocket.net.limits import NetLimits
from skyrocket.net.quota import QuotaRates
from skyrocket.net.router import Router
from skyrocket.net.server import Server
from skyrocket.protocol.command import Command, encode_command
from skyrocket.protocol.frame import Frame
from skyrocket.protocol.responses import ResponseCode
from tests.unit.net.scene import BIG, ECHO, LONG, Raw, Scene, scene

STRANGER = "127.0.0.2"


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not is_so():  # noqa: ASYNC110 — sockets tell nobody
            await asyncio.sleep(0.005)


async def ask(raw: Raw, code: int = ECHO, body: bytes = b"") -> Command:
    raw.writer.write(encode_command(Command(code, body=body)))
    (answer,) = await raw.receive(1)
    return answer


# --- connections


async def test_one_address_cannot_take_all_connections():
    async with scene(NetLimits(connections_per_address_max=3)) as played:
        for raw in [await Raw.to(played, STRANGER) for _ in range(3)]:
            assert (await ask(raw)).code == 0
        assert await (await Raw.to(played, STRANGER)).closed()
        assert (await ask(await Raw.to(played))).code == 0
        played.raws[0].writer.close()
        await until(lambda: len(played.server.connections) == 3)
        assert (await ask(await Raw.to(played, STRANGER))).code == 0


async def test_refused_connections_are_logged_once_a_minute(caplog: pytest.LogCaptureFixture):
    async with scene(NetLimits(connections_per_address_max=1)) as played:
        assert (await ask(await Raw.to(played, STRANGER))).code == 0
        for minute in range(2):
            played.clock.now = minute * 60_000
            for _ in range(5):
                assert await (await Raw.to(played, STRANGER)).closed()
    warnings = [record.getMessage() for record in caplog.records if "new connections" in record.getMessage()]
    assert [line.split(",")[0] for line in warnings] == ["Closed 1 new connections", "Closed 5 new connections"]
    assert all("127.0.0.2" in line and "1 from one address" in line for line in warnings)


# --- quotas


def paused(played: Scene, host: str) -> list[bool]:
    return [not each._transport.is_reading() for each in played.server.connections if each.peer[0] == host]


@pytest.mark.parametrize("rates", [QuotaRates(requests_per_second=10), QuotaRates(bytes_per_second=10_000)])
async def test_a_client_above_its_quota_is_not_read_until_it_has_paid(rates: QuotaRates):
    async with scene(NetLimits(quota=rates)) as played:
        played.clock.now = 100_000
        hasty, other = await Raw.to(played, STRANGER), await Raw.to(played)
        request = encode_command(Command(ECHO, body=bytes(400)))
        hasty.writer.write(request * 15)
        await hasty.receive(15)
        await until(lambda: paused(played, STRANGER) == [True])
        (debt_ms,) = [each.quota.debt_ms(100_000) for each in played.server.addresses if each.name == STRANGER]
        assert 300 <= debt_ms <= 600, "15 requests at 10 a second; 10 to 15 kB both ways at 10 kB a second"
        hasty.writer.write(request)
        assert (await ask(other)).code == 0
        assert hasty.decoder.feed(b"") == []
        played.clock.now += debt_ms
        assert (await hasty.receive(1))[0].code == 0, "it is read again after its debt, in real time too"


async def test_responses_count_against_the_byte_quota():
    async with scene(NetLimits(quota=QuotaRates(bytes_per_second=10_000))) as played:
        played.clock.now = 100_000
        reader = await Raw.to(played, STRANGER)
        for _ in range(2):
            reader.writer.write(encode_command(Command(BIG, fields={"size": "9000"})))
            assert len((await reader.receive(1))[0].body) == 9_000
        await until(lambda: paused(played, STRANGER) == [True])


async def test_a_client_far_above_its_quota_is_refused_with_busy_and_served_again_later():
    async with scene(NetLimits(quota=QuotaRates(requests_per_second=10))) as played:
        played.clock.now = 100_000
        first, second = await Raw.to(played, STRANGER), await Raw.to(played, STRANGER)
        first.writer.write(encode_command(Command(ECHO)) * 35)
        assert {answer.code for answer in await first.receive(35)} == {0}
        refused = await ask(second)
        assert refused.code == ResponseCode.SYSTEM_BUSY
        assert refused.remark == "127.0.0.2 is 2500 ms ahead of its quota. Send more slowly."
        played.clock.now += 2_500
        third = await Raw.to(played, STRANGER)
        assert (await ask(third)).code == 0


async def test_a_new_connection_does_not_cancel_a_debt():
    async with scene(NetLimits(quota=QuotaRates(requests_per_second=10), scan_ms=5)) as played:
        played.clock.now = 100_000
        first = await Raw.to(played, STRANGER)
        first.writer.write(encode_command(Command(ECHO)) * 35)
        await first.receive(35)
        first.writer.transport.abort()
        await until(lambda: not played.server.connections)
        await asyncio.sleep(0.02)  # several scans
        assert (await ask(await Raw.to(played, STRANGER))).code == ResponseCode.SYSTEM_BUSY


async def test_quotas_change_while_the_server_runs():
    async with scene() as played:
        played.clock.now = 100_000
        raw = await Raw.to(played, STRANGER)
        raw.writer.write(encode_command(Command(ECHO)) * 100)
        await raw.receive(100)
        assert paused(played, STRANGER) == [False]
        played.server.set_quota(QuotaRates(requests_per_second=1))
        raw.writer.write(encode_command(Command(ECHO)) * 3)
        await raw.receive(3)
        await until(lambda: paused(played, STRANGER) == [True])
        played.server.set_quota(QuotaRates())
        played.clock.now += 60_000
        raw.writer.write(encode_command(Command(ECHO)) * 100)
        assert {answer.code for answer in await raw.receive(100)} == {0}


# --- turns


async def test_requests_of_one_read_event_leave_turns_to_other_connections():
    """A hundred requests of two milliseconds each come at once. A single request of another client is not the last one served."""
    async with scene(NetLimits(turn_ms=5)) as played:
        crowd, single = await Raw.to(played, STRANGER), await Raw.to(played)
        await ask(crowd), await ask(single)
        crowd.writer.write(b"".join(encode_command(Command(LONG, opaque=number)) for number in range(100)))
        single.writer.write(encode_command(Command(LONG, opaque=1_000)))
        answers = await crowd.receive(100)
        await single.receive(1)
        assert [answer.opaque for answer in answers] == list(range(100)), "in their order"
        assert played.handled.index(1_000) < 10, played.handled


def test_a_connection_is_read_once_in_a_turn_of_uvloop():
    """uvloop reads a connection 32 times while it has data, 8 MB in all, before it looks at another one."""
    uvloop = pytest.importorskip("uvloop")
    order: list[str] = []

    async def main() -> None:
        router = Router()

        def record(frames: list[Frame], connection: Connection) -> int:
            order.append(connection.peer[0])
            return len(frames)

        router.add_fast_path(b'{"code":%d,' % ECHO, record, ECHO)
        server = Server(router, NetLimits())
        port = await server.listen("127.0.0.1", 0)
        peers = []
        for host in (STRANGER, "127.0.0.3"):
            peer = socket.socket()
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_000_000)
            peer.bind((host, 0))
            peer.setblocking(False)
            await asyncio.get_running_loop().sock_connect(peer, ("127.0.0.1", port))
            peers.append(peer)
        await asyncio.sleep(0.05)
        flood = encode_command(Command(ECHO, body=bytes(10_000))) * 2_000
        sent = peers[0].send(flood)  # the loop does not run meanwhile: both are readable in its next turn
        peers[1].send(encode_command(Command(ECHO)))
        assert sent > 1_000_000
        async with asyncio.timeout(60):
            while "127.0.0.3" not in order or len(order) < 4:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
        for peer in peers:
            peer.close()
        await server.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
    assert order.index("127.0.0.3") <= 1, order[:40]


# --- clients that do not read


async def stuck(played: Scene, size: int, host: str = STRANGER) -> Raw:
    raw = await Raw.to(played, host)
    raw.reader._transport.pause_reading()
    raw.writer.write(encode_command(Command(BIG, fields={"size": str(size)})))
    return raw


async def test_a_client_that_does_not_read_is_refused_and_the_others_are_served():
    async with scene(NetLimits(in_flight_max_bytes=1_000_000, scan_ms=5)) as played:
        await stuck(played, 12_000_000)
        await until(lambda: played.server._held.share_bytes is not None)
        assert (await ask(await Raw.to(played))).code == 0
        refused = await ask(await Raw.to(played, STRANGER))
        assert refused.code == ResponseCode.SYSTEM_BUSY
        assert "127.0.0.2 holds" in (refused.remark or "")
        assert "its share is 1000000" in (refused.remark or "")


async def test_a_closed_connection_whose_peer_does_not_read_ends_after_a_while():
    async with scene(NetLimits(idle_ms=100, drain_ms=1_000, scan_ms=5)) as played:
        await stuck(played, 12_000_000)
        await until(lambda: any(each.unwritten_bytes for each in played.server.connections))
        (connection,) = played.server.connections
        played.clock.now += 101
        await until(lambda: not connection.is_open)
        await asyncio.sleep(0.02)
        assert connection in played.server.connections, "what was sent before may still leave"
        played.clock.now += 1_001
        await until(lambda: not played.server.connections)


async def test_an_address_that_holds_too_much_loses_its_largest_connections_and_nobody_else_does():
    limits = NetLimits(held_per_address_max_bytes=20_000_000, unwritten_high_bytes=65_536)
    async with scene(limits) as played:
        mine = await stuck(played, 12_000_000, "127.0.0.1")
        await until(lambda: len(played.server.connections) == 1)
        for _ in range(8):
            await stuck(played, 12_000_000)
        await until(lambda: sum(len(each.connections) for each in played.server.addresses if each.name == STRANGER) <= 2)
        held = {each.name: each.count_held() for each in played.server.addresses}
        assert held[STRANGER] <= 20_000_000
        mine.reader._transport.resume_reading()
        assert len((await mine.receive(1))[0].body) == 12_000_000


async def test_above_the_bound_of_all_connections_the_greatest_holder_is_closed_not_the_one_that_is_written_to():
    limits = NetLimits(in_flight_max_bytes=20_000_000, held_max_bytes=30_000_000, unwritten_high_bytes=65_536, scan_ms=60_000)
    async with scene(limits) as played:
        modest = await stuck(played, 12_000_000, "127.0.0.1")
        await until(lambda: len(played.server.connections) == 1)
        for _ in range(3):
            await stuck(played, 12_000_000)
        await until(lambda: sum(each.held_bytes for each in played.server.connections) <= 30_000_000)
        assert [each for each in played.server.connections if each.peer[0] == "127.0.0.1"]
        modest.reader._transport.resume_reading()
        assert len((await modest.receive(1))[0].body) == 12_000_000
