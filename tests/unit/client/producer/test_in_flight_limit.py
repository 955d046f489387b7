from __future__ import annotations

import asyncio

import pytest

from skyrocket.client.errors import ClientClosedError
from skyrocket.client.producer.in_flight_limit import Gate


async def test_senders_wait_when_too_much_is_under_way_and_go_on_in_order():
    gate, entered = Gate(2, 100), []

    async def enter(name: str, size: int) -> None:
        await gate.enter(size)
        entered.append(name)

    tasks = [asyncio.create_task(enter(name, size)) for name, size in [("a", 60), ("b", 60), ("c", 10)]]
    await asyncio.sleep(0)
    assert entered == ["a"]  # b has no room, and c does not pass it
    gate.leave(60)
    await asyncio.sleep(0)
    assert entered == ["a", "b", "c"]
    await asyncio.gather(*tasks)


def test_a_message_larger_than_the_gate_passes_when_it_is_empty():
    gate = Gate(10, 100)
    assert gate.try_enter(1_000)
    assert not gate.try_enter(1)


async def test_one_who_gives_up_leaves_no_trace():
    gate = Gate(1, 100)
    assert gate.try_enter(1)
    waiting = asyncio.create_task(gate.enter(1))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    gate.leave(1)
    assert gate.try_enter(1)


async def test_one_who_is_cancelled_at_the_moment_he_is_let_in_leaves_again():
    gate = Gate(1, 100)
    assert gate.try_enter(1)
    waiting = asyncio.create_task(gate.enter(1))
    await asyncio.sleep(0)
    gate.leave(1)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert gate.try_enter(1)


async def test_whoever_waits_when_it_closes_is_told():
    gate = Gate(1, 100)
    assert gate.try_enter(1)
    waiting = asyncio.create_task(gate.enter(1))
    await asyncio.sleep(0)
    gate.close()
    with pytest.raises(ClientClosedError):
        await waiting


def test_several_leave_together():
    gate = Gate(count_max=3, bytes_max=1_000)
    for _ in range(3):
        assert gate.try_enter(100)
    assert not gate.try_enter(1)
    gate.leave(200, 2)
    assert [gate.try_enter(900) for _ in range(2)] == [True, False]
