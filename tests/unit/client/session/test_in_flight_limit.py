from __future__ import annotations

import asyncio

import pytest

from skyrocket.client.errors import ClientClosedError
from skyrocket.client.session.in_flight_limit import InFlightLimit


async def test_senders_wait_at_the_limit_and_proceed_in_order():
    limit, acquired = InFlightLimit(2, 100), []

    async def acquire(name: str, size: int) -> None:
        await limit.acquire(size)
        acquired.append(name)

    tasks = [asyncio.create_task(acquire(name, size)) for name, size in [("a", 60), ("b", 60), ("c", 10)]]
    await asyncio.sleep(0)
    assert acquired == ["a"]  # there is no room for b, and c does not overtake it
    limit.release(60)
    await asyncio.sleep(0)
    assert acquired == ["a", "b", "c"]
    await asyncio.gather(*tasks)


def test_message_larger_than_the_limit_passes_when_nothing_is_in_flight():
    limit = InFlightLimit(10, 100)
    assert limit.try_acquire(1_000)
    assert not limit.try_acquire(1)


async def test_cancelled_waiter_takes_no_room():
    limit = InFlightLimit(1, 100)
    assert limit.try_acquire(1)
    waiting = asyncio.create_task(limit.acquire(1))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    limit.release(1)
    assert limit.try_acquire(1)


async def test_waiter_cancelled_when_room_was_granted_gives_it_back():
    limit = InFlightLimit(1, 100)
    assert limit.try_acquire(1)
    waiting = asyncio.create_task(limit.acquire(1))
    await asyncio.sleep(0)
    limit.release(1)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert limit.try_acquire(1)


async def test_close_fails_waiting_senders():
    limit = InFlightLimit(1, 100)
    assert limit.try_acquire(1)
    waiting = asyncio.create_task(limit.acquire(1))
    await asyncio.sleep(0)
    limit.close()
    with pytest.raises(ClientClosedError):
        await waiting


def test_release_of_several_messages_at_once():
    limit = InFlightLimit(count_max=3, bytes_max=1_000)
    for _ in range(3):
        assert limit.try_acquire(100)
    assert not limit.try_acquire(1)
    limit.release(200, 2)
    assert [limit.try_acquire(900) for _ in range(2)] == [True, False]
