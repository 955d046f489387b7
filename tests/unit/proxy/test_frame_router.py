from __future__ import annotations

import asyncio
from typing import cast

import pytest

from skyrocket.net.connection import Connection
from skyrocket.protocol.command import Command
from skyrocket.protocol.frame import Frame
from skyrocket.protocol.responses import ResponseCode
from skyrocket.proxy.frame_router import FrameRouter
from tests.support.brokers.access_control import KeptAnswers


class AbortedConnection(KeptAnswers):
    aborted = ""

    def abort(self, reason: str) -> None:
        self.aborted = reason


def test_a_frame_that_fails_ends_its_own_connection_and_no_other(caplog: pytest.LogCaptureFixture):
    good, bad, later = (AbortedConnection() for _ in range(3))
    seen: list[object] = []

    def handle(frames: list[Frame], connection: Connection) -> None:
        seen.append(connection)
        assert connection is not bad, "a bug"

    frames = [Frame(0, b"{}", b"")] * 2
    handled: list[int] = []
    path = FrameRouter(handle).fast_path(frames[0])
    path.handler([(frames, cast("Connection", each)) for each in (good, bad, later)], handled)
    assert (seen, handled) == ([good, bad, later], [2, 2, 2])
    assert [bool(each.aborted) for each in (good, bad, later)] == [False, True, False]
    assert "failed unexpectedly" in caplog.text


def test_a_request_that_is_kept_from_the_fast_path_is_told_to_come_again():
    """The server keeps requests of a client back that holds too much. It must not hear that its request does not exist."""
    connection = KeptAnswers()
    router = FrameRouter(lambda _, __: None)
    assert router.handle(cast("Connection", connection), [Command(310, opaque=1), Command(310, opaque=2, flag=2)]) == []
    assert [(each.opaque, each.code) for each in connection.answers] == [(1, ResponseCode.SYSTEM_BUSY)]


async def test_a_drain_waits_for_responses_that_are_due():
    busy = [True, True, False]
    await FrameRouter(lambda _, __: None, lambda: busy.pop(0)).drain()
    assert busy == []
    async with asyncio.timeout(1):
        await FrameRouter(lambda _, __: None).drain()
