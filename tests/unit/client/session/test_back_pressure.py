"""The windows of busy brokers: they shrink with refusals, grow with successes, and requests take turns."""

from __future__ import annotations

import asyncio

import pytest

from skyrocket.client.session.back_pressure import FIRST_WINDOW, FORGET_MS, QUIET_MS, BackPressure, Turn

A, B = "10.0.0.1:10911", "10.0.0.2:10911"
FAR_MS = 10_000_000


class Clock:
    def __init__(self) -> None:
        self.now_ms = 1_000_000

    def __call__(self) -> int:
        return self.now_ms


def make(draw: float = 0.5) -> tuple[BackPressure, Clock]:
    clock = Clock()
    return BackPressure(clock, lambda: draw), clock


async def take_all(pressure: BackPressure, address: str = A, most: int = 1_000) -> list[Turn]:
    """Take turns until none is left."""
    taken: list[Turn] = []
    while len(taken) < most:
        try:
            turn = await pressure.take_turn(address, 0)  # a deadline that has passed: do not wait
        except TimeoutError:
            break
        assert turn is not None
        taken.append(turn)
    return taken


async def test_broker_that_never_refused_has_no_window():
    pressure, _ = make()
    assert not pressure.is_active
    assert await pressure.take_turn(A, FAR_MS) is None
    pressure.refuse(A, None)
    assert pressure.is_active
    assert await pressure.take_turn(B, FAR_MS) is None


async def test_each_round_of_refusals_halves_the_window_once():
    pressure, clock = make()
    pressure.refuse(A, None)
    for _ in range(50):
        pressure.refuse(A, None)  # of requests that left before the window was there
    sizes = []
    for _ in range(6):
        clock.now_ms += 1_000
        turns = await take_all(pressure)
        sizes.append(len(turns))
        for turn in turns:
            pressure.refuse(A, turn)
            turn.end(clock.now_ms, is_success=False)
    assert sizes == [FIRST_WINDOW, 8, 4, 4, 4, 4]


async def test_no_request_leaves_during_the_pause_which_doubles_until_a_success():
    pressure, clock = make()
    pressure.refuse(A, None)
    pauses = []
    for _ in range(7):
        began_ms = clock.now_ms
        while not (turns := await take_all(pressure, most=1)):
            clock.now_ms += 1
        pauses.append(clock.now_ms - began_ms)
        pressure.refuse(A, turns[0])
        turns[0].end(clock.now_ms, is_success=False)
    assert pauses == [20, 40, 80, 160, 160, 160, 160]
    clock.now_ms += 160
    (turn,) = await take_all(pressure, most=1)
    turn.end(clock.now_ms, is_success=True)
    (turn,) = await take_all(pressure, most=1)
    pressure.refuse(A, turn)
    turn.end(clock.now_ms, is_success=False)
    clock.now_ms += 20
    assert await take_all(pressure, most=1)


async def test_successes_widen_the_window_and_time_removes_it():
    pressure, clock = make()
    pressure.refuse(A, None)
    clock.now_ms += 100
    for turn in await take_all(pressure):
        turn.end(clock.now_ms, is_success=True)
    turns = await take_all(pressure)
    assert len(turns) == FIRST_WINDOW  # the sixteenth success has just not made it a whole one more
    clock.now_ms += QUIET_MS
    for turn in turns:
        turn.end(clock.now_ms, is_success=True)
    turns = await take_all(pressure)
    assert len(turns) == FIRST_WINDOW * 5 // 4
    clock.now_ms += FORGET_MS
    assert await pressure.take_turn(A, FAR_MS) is None
    assert not pressure.is_active
    for turn in turns:
        turn.end(clock.now_ms, is_success=True)  # a window that was removed does no harm


async def test_waiting_requests_take_turns_by_deadline():
    pressure, clock = make()
    pressure.refuse(A, None)
    clock.now_ms += 1_000
    turns = await take_all(pressure)
    order: list[int] = []

    async def wait(deadline_ms: int) -> None:
        turn = await pressure.take_turn(A, deadline_ms)
        assert turn is not None
        order.append(deadline_ms)
        turn.end(clock.now_ms, is_success=True)

    deadlines = [clock.now_ms + n * 100_000 for n in (3, 1, 2)]
    waiting = [asyncio.create_task(wait(deadline_ms)) for deadline_ms in deadlines]
    await asyncio.sleep(0)
    assert order == []
    turns[0].end(clock.now_ms, is_success=False)
    await asyncio.gather(*waiting)
    assert order == sorted(deadlines)


async def test_request_that_gives_up_leaves_its_place():
    pressure, clock = make()
    pressure.refuse(A, None)
    clock.now_ms += 1_000
    turns = await take_all(pressure)
    given_up = asyncio.create_task(pressure.take_turn(A, clock.now_ms + 100_000))
    await asyncio.sleep(0)
    given_up.cancel()
    with pytest.raises(asyncio.CancelledError):
        await given_up
    for turn in turns:
        turn.end(clock.now_ms, is_success=False)
        turn.end(clock.now_ms, is_success=False)  # a second call does nothing
    assert len(await take_all(pressure)) == FIRST_WINDOW


async def test_closing_lets_every_waiting_request_go():
    pressure, clock = make()
    pressure.refuse(A, None)
    waiting = [asyncio.create_task(pressure.take_turn(A, clock.now_ms + 100_000)) for _ in range(100)]
    await asyncio.sleep(0)
    pressure.close()
    await asyncio.gather(*waiting)
    assert not pressure.is_active


async def test_pauses_of_different_clients_differ():
    ends = set()
    for draw in (0.0, 0.25, 0.5, 0.75, 0.99):
        pressure, clock = make(draw)
        began_ms = clock.now_ms
        pressure.refuse(A, None)
        while not await take_all(pressure, most=1):
            clock.now_ms += 1
        ends.add(clock.now_ms - began_ms)
    assert len(ends) == 5
