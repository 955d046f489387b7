"""Work at intervals: each step has its own, and a failing step does not stop the others."""

from __future__ import annotations

import asyncio

import pytest

from skyrocket.broker.housekeeping import LOG_MS, Housekeeping


class Clock:
    now_ms = 1_000

    def __call__(self) -> int:
        return self.now_ms


def test_each_step_has_its_own_interval():
    clock = Clock()
    housekeeping = Housekeeping(clock)
    often: list[int] = []
    seldom: list[int] = []
    housekeeping.add("often", 100, often.append)
    housekeeping.add("seldom", 1_000, seldom.append)
    for now_ms in range(1_000, 3_001, 50):
        housekeeping.turn(now_ms)
    assert often == list(range(1_100, 3_001, 100))
    assert seldom == [2_000, 3_000]


def test_a_step_that_fails_is_logged_once_a_minute_and_stops_no_other(caplog: pytest.LogCaptureFixture):
    housekeeping, healthy = Housekeeping(Clock()), []

    def fails(_: int) -> None:
        raise OSError(5, "Input/output error")

    housekeeping.add("the failing one", 100, fails)
    housekeeping.add("the healthy one", 100, healthy.append)
    for now_ms in range(1_100, 1_100 + LOG_MS + 1, 100):
        housekeeping.turn(now_ms)
    assert len(healthy) == LOG_MS // 100 + 1
    assert caplog.text.count("Housekeeping, 'the failing one': failed") == 2
    assert f"failed {LOG_MS // 100} times" in caplog.text
    assert "Input/output error" in caplog.text


async def test_it_works_in_the_event_loop_until_it_is_closed():
    called = asyncio.Event()
    clock = Clock()
    housekeeping = Housekeeping(clock)
    housekeeping.add("the step", 100, lambda _: called.set())
    housekeeping.start()
    clock.now_ms += 100
    async with asyncio.timeout(60):
        await called.wait()
    await housekeeping.close()
