"""The harness that measures pauses of the event loop finds a blocking callback, and where it blocks."""

from __future__ import annotations

import asyncio
import time

import pytest

from tests.support.processes.loop_pauses import measured_pauses


def block(seconds: float) -> None:
    time.sleep(seconds)


async def test_a_blocking_callback_is_reported_with_its_stack():
    async with measured_pauses() as pauses:
        block(0.08)
    assert pauses.longest_ms >= 60  # of 80: where other processes are at work, some of it may be theirs
    assert "in block" in pauses.pauses[0].where
    with pytest.raises(AssertionError, match="stood still for more than 50 ms"):
        pauses.check()


async def test_a_blocking_callback_of_another_task_is_reported():
    async def other() -> None:
        block(0.06)

    async with measured_pauses() as pauses:
        await asyncio.create_task(other(), name="the other one")
    assert "the other one" in pauses.pauses[0].callback
    assert pauses.longest_ms >= 45


async def test_computing_counts_as_a_pause():
    async with measured_pauses() as pauses:
        until_s = time.thread_time() + 0.06
        while time.thread_time() < until_s:
            pass
    assert pauses.longest_ms >= 55


async def test_waiting_in_the_loop_or_in_a_thread_is_no_pause():
    async with measured_pauses() as pauses:
        await asyncio.gather(asyncio.sleep(0.2), asyncio.to_thread(block, 0.2))
    pauses.check()
    assert pauses.callbacks > 2
