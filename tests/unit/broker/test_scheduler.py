"""Parts are asked when their time comes, by the clock that they are given."""

from __future__ import annotations

import asyncio

from skyrocket.broker.scheduler import AFTER_FAILURE_MS, SLEEP_MS_MAX, Scheduler
from skyrocket.store.errors import StoreError


class Clock:
    now_ms = 1_000

    def __call__(self) -> int:
        return self.now_ms


class Part:
    def __init__(self, *answers: int | None) -> None:
        self.asked: list[int] = []
        self._answers = list(answers)

    def check(self, now_ms: int) -> int | None:
        self.asked.append(now_ms)
        return self._answers.pop(0) if self._answers else None


def test_a_part_is_asked_at_once_and_then_when_it_said() -> None:
    clock, part = Clock(), Part(1_300, 5_000)
    scheduler = Scheduler(clock)
    scheduler.add(part.check)
    assert scheduler.turn() == 300
    clock.now_ms = 1_299
    assert scheduler.turn() == 1
    clock.now_ms = 1_300
    assert scheduler.turn() == SLEEP_MS_MAX
    assert part.asked == [1_000, 1_300]


def test_a_part_with_nothing_to_do_is_not_asked_until_it_is_woken() -> None:
    clock, part = Clock(), Part(None, None)
    scheduler = Scheduler(clock)
    scheduler.add(part.check)
    scheduler.turn()
    clock.now_ms = 10**9
    scheduler.turn()
    scheduler.wake(part.check)
    scheduler.turn()
    assert part.asked == [1_000, 10**9]


def test_a_part_that_wakes_itself_while_it_is_asked_is_asked_again() -> None:
    clock, asked = Clock(), []
    scheduler = Scheduler(clock)

    def check(now_ms: int) -> int | None:
        asked.append(now_ms)
        if len(asked) == 1:
            scheduler.wake(check)
        return None

    scheduler.add(check)
    assert scheduler.turn() == 1
    scheduler.turn()
    assert len(asked) == 2


def test_a_part_that_fails_is_asked_again_a_second_later_and_stops_no_other() -> None:
    clock, healthy, failures = Clock(), Part(None), []

    def fails(now_ms: int) -> int | None:
        failures.append(now_ms)
        raise StoreError("the disk is full")

    scheduler = Scheduler(clock)
    scheduler.add(fails)
    scheduler.add(healthy.check)
    scheduler.turn()
    assert healthy.asked == [1_000]
    clock.now_ms += AFTER_FAILURE_MS
    scheduler.turn()
    assert failures == [1_000, 1_000 + AFTER_FAILURE_MS]


async def test_an_error_that_nobody_thought_of_is_told_and_time_goes_on(caplog) -> None:
    clock, healthy = Clock(), Part(1_000, 1_000, None)
    scheduler = Scheduler(clock)

    def fails(_: int) -> int | None:
        raise ValueError("a bug")

    scheduler.add(fails)
    scheduler.add(healthy.check)
    scheduler.start()
    async with asyncio.timeout(60):
        while len(healthy.asked) < 2:  # noqa: ASYNC110 — the part is no coroutine
            await asyncio.sleep(0.001)
    await scheduler.close()
    assert "a bug" in caplog.text


def test_a_clock_that_is_set_back_has_everyone_asked() -> None:
    clock, part = Clock(), Part(9_000_000, 5_000)
    scheduler = Scheduler(clock)
    scheduler.add(part.check)
    clock.now_ms = 8_000_000
    scheduler.turn()
    clock.now_ms = 4_000
    scheduler.turn()
    assert part.asked == [8_000_000, 4_000]


async def test_a_wake_at_the_last_moment_does_not_keep_it_from_closing() -> None:
    for turns in range(5):
        clock, part = Clock(), Part(None, None, None)
        scheduler = Scheduler(clock)
        scheduler.add(part.check)
        scheduler.start()
        await asyncio.sleep(0.001)
        scheduler.wake(part.check)
        for _ in range(turns):
            await asyncio.sleep(0)
        async with asyncio.timeout(60) as limit:
            await scheduler.close()
        assert not limit.expired(), f"it does not close {turns} turns after a wake"
