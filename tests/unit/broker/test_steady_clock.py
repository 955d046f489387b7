"""The broker's clocks: they never go back, and never run away."""

from __future__ import annotations

from random import Random

import pytest

from skyrocket.broker.steady_clock import BrokerClocks, RetentionClock, SteadyClock
from tests.support.brokers.jumping_clock import BEGIN_MS, DAY_MS, HOUR_MS, JUMPS, SECOND_MS, JumpingClock


def test_without_jumps_it_is_the_machines_clock():
    clock = JumpingClock()
    steady = SteadyClock(clock.machine, clock.monotonic)
    for span_ms in (0, 1, 7, 1_000, HOUR_MS):
        clock.pass_ms(span_ms)
        assert steady() == clock.machine()


def test_a_clock_that_is_set_back_goes_on_a_tenth_slower_until_the_machine_has_caught_up():
    clock = JumpingClock()
    steady = SteadyClock(clock.machine, clock.monotonic)
    clock.jump(-HOUR_MS)
    assert steady() == BEGIN_MS
    clock.pass_ms(10 * SECOND_MS)
    assert steady() == BEGIN_MS + 9 * SECOND_MS
    clock.pass_ms(9 * HOUR_MS)
    assert steady() > clock.machine()
    clock.pass_ms(HOUR_MS)
    assert steady() == clock.machine()


def test_many_short_calls_do_not_make_it_stand_still():
    clock = JumpingClock()
    steady = SteadyClock(clock.machine, clock.monotonic)
    clock.jump(-HOUR_MS)
    for _ in range(10_000):
        clock.pass_ms(1)
        steady()
    assert steady() == BEGIN_MS + 9 * SECOND_MS


def test_it_follows_a_clock_that_is_set_forward():
    clock = JumpingClock()
    steady = SteadyClock(clock.machine, clock.monotonic)
    clock.jump(DAY_MS)
    assert steady() == BEGIN_MS + DAY_MS


def test_it_goes_on_from_the_last_stamp_in_the_store():
    clock = JumpingClock()
    steady = SteadyClock(clock.machine, clock.monotonic)
    steady.advance_to(BEGIN_MS - 1)
    assert steady() == BEGIN_MS
    steady.advance_to(BEGIN_MS + HOUR_MS)
    clock.pass_ms(10)
    assert steady() == BEGIN_MS + HOUR_MS + 9


@pytest.mark.parametrize("seed", range(20))
def test_it_never_goes_back_and_advances_with_time_whatever_happens(seed: int):
    rng, clock = Random(seed), JumpingClock()
    steady = SteadyClock(clock.machine, clock.monotonic)
    last_ms = steady()
    for _ in range(500):
        span_ms = rng.randrange(0, 5_000)
        clock.pass_ms(span_ms)
        if rng.random() < 0.1:
            clock.jump(rng.choice((1, -1)) * rng.choice((SECOND_MS, HOUR_MS, DAY_MS)))
        now_ms = steady()
        assert now_ms >= last_ms + span_ms * 9 // 10
        assert now_ms >= clock.machine()
        last_ms = now_ms


@pytest.mark.parametrize("jumps", JUMPS.values(), ids=JUMPS)
def test_files_expire_at_most_as_much_too_early_as_the_clock_was_wrong_for(jumps: tuple[int, ...]):
    clock = JumpingClock()
    clocks = BrokerClocks.of(clock.machine, clock.monotonic)
    elapsed = clock.elapsed()
    last_ms = clocks.retention_ms()
    for jump_ms in (*jumps, 0):
        clock.jump(jump_ms)
        for _ in range(60):
            clock.pass_ms(10 * SECOND_MS)
            now_ms = clocks.retention_ms()
            assert now_ms >= last_ms
            assert BEGIN_MS + elapsed() * 9 // 10 <= now_ms <= BEGIN_MS + 2 * elapsed()
            last_ms = now_ms


def test_the_retention_clock_reaches_a_clock_that_was_set_forward_for_good():
    clock = JumpingClock()
    retention = RetentionClock(clock.machine, clock.monotonic)
    clock.jump(HOUR_MS)
    clock.pass_ms(HOUR_MS)
    assert retention() == clock.machine()
