"""The responses to one read event are sent with one write, or earlier if they are large."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from skyrocket.net.connection import COLLECTED_BYTES_MAX, Connection
from skyrocket.net.limits import NetLimits
from skyrocket.net.loop_turn import call_soon
from skyrocket.net.router import Router
from skyrocket.net.server import Server
from skyrocket.protocol.command import Command, encode_command
from tests.support.brokers.send_parts import KeptWrites, call_now

CODE = 4711


class CountedWrites(KeptWrites):
    """`left` of what was written is not read by the peer yet."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []
        self.left = 0

    def write(self, data: Any) -> None:
        self.sizes.append(len(data))
        super().write(data)

    def get_write_buffer_size(self) -> int:
        return self.left

    def resume_reading(self) -> None:
        pass


def answering(size: int, end_turn: Callable[[Callable[[], None]], None] = call_now) -> tuple[Connection, CountedWrites]:
    """A connection whose requests are answered with so many bytes each."""
    router = Router()
    router.add(CODE, lambda command, connection: bytes(size))
    server = Server(router, limits=NetLimits(unwritten_high_bytes=1024 * 1024), now_ms=lambda: 0, call_soon=end_turn)
    connection, transport = Connection(server), CountedWrites()
    connection.connection_made(transport)
    return connection, transport


def requests(count: int) -> bytes:
    return encode_command(Command(CODE, opaque=1)) * count


def test_small_responses_are_sent_with_one_write():
    connection, transport = answering(100)
    connection.data_received(requests(20))
    assert transport.sizes == [2_000]


def test_large_responses_are_written_before_the_read_event_ends():
    connection, transport = answering(COLLECTED_BYTES_MAX // 2)
    connection.data_received(requests(8))
    assert sum(transport.sizes) == 4 * COLLECTED_BYTES_MAX
    assert max(transport.sizes) <= 2 * COLLECTED_BYTES_MAX, "of them, never more wait than make it much"


async def test_bytes_that_the_peer_has_not_read_count_towards_the_limit():
    connection, transport = answering(100, call_soon)
    assert not connection.is_full
    transport.left = 1024 * 1024 + 1
    assert connection.is_full
    connection.data_received(requests(3))
    await asyncio.sleep(0)
    assert transport.sizes == [], "requests wait until there is room"
    transport.left = 0
    connection.resume_writing()
    assert transport.sizes == [300]
