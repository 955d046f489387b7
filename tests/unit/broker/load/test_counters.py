"""Rates are computed from samples of totals; samples and keys are bounded."""

from __future__ import annotations

import pytest

from skyrocket.broker.load.counters import KEYS_MAX, SAMPLES_PER_SLICE, Counters


class Clock:
    now = 1_000_000

    def __call__(self) -> int:
        return self.now


def counting() -> tuple[Counters, Clock]:
    clock = Clock()
    return Counters(clock), clock


def test_rate_is_the_difference_to_a_sample_by_time():
    counters, clock = counting()
    for _ in range(12):
        counters.add("put", "orders", 50, 5_000)
        counters.put.add(50, 5_000)
        clock.now += 10_000
        counters.check_time(clock.now)
    assert counters.topic_put("orders") == 5.0
    assert counters.put.rate(clock.now, 60_000).messages == 300
    assert (counters.put.messages, counters.put.size_bytes) == (600, 60_000)


def test_rate_covers_the_time_since_the_first_sample_at_most():
    counters, clock = counting()
    counters.add("get", "orders@group", 10, 100)
    clock.now += 1_000
    assert counters.group_get("group", "orders") == 10.0


def test_unused_counter_has_no_rate():
    counters, _ = counting()
    assert counters.topic_put("nothing") == 0.0


def test_sum_of_a_day_covers_one_day():
    counters, clock = counting()
    for _ in range(30 * 360):  # thirty hours, one message every ten seconds
        counters.add("put", "orders", 1, 10)
        clock.now += 10_000
        counters.check_time(clock.now)
    counter = counters.find("put", "orders")
    assert counter is not None
    for over_ms, expected in ((60_000, 6), (3_600_000, 360), (86_400_000, 8_640)):
        rate = counter.rate(clock.now, over_ms)
        assert expected * 0.8 <= rate.messages <= expected, f"over {over_ms} ms"
        assert rate.per_second == pytest.approx(0.1)
        assert rate.size_bytes == rate.messages * 10


def test_averages_are_per_request():
    counters, clock = counting()
    counters.count_get("group", "orders", 32, 3_200, took_ms=4)
    counters.count_get("group", "orders", 16, 1_600, took_ms=2)
    counter = counters.find("get", "orders@group")
    assert counter is not None
    assert counter.rate(clock.now, 60_000)[:4] == (48, 4_800, 2, 6)
    counters.count_send_back("group", "orders", 3)
    given_back = counters.find("send back", "orders@group")
    assert given_back is not None
    assert given_back.messages == 3


def test_totals_are_recorded_at_midnight():
    clock = Clock()
    counters = Counters(clock, day_of=lambda time_ms: time_ms // 86_400_000)
    for messages in (5, 7, 9):
        counters.put.add(messages, 0)
        counters.get.add(messages - 1, 0)
        clock.now += 86_400_000
        counters.check_time(clock.now)
    assert counters.mornings == (21, 18, 12, 10)


def test_samples_and_keys_are_bounded():
    counters, clock = counting()
    for number in range(KEYS_MAX + 10):
        counters.add("put", f"topic-{number}", 1, 1)
    assert len(counters._keyed) == KEYS_MAX
    counter = counters.find("put", "topic-0")
    assert counter is not None
    for _ in range(100):
        clock.now += 600_000
        counter.sample(clock.now)
    assert sum(map(len, counter._samples)) <= 7 + 7 + 25


def test_keys_unused_for_a_day_are_removed_when_there_are_too_many():
    counters, clock = counting()
    for number in range(KEYS_MAX):
        counters.add("put", f"topic-{number}", 1, 1)
    for _ in range(26):
        clock.now += 3_600_000
        counters.add("put", "topic-0", 1, 1)
        for _ in range(KEYS_MAX // SAMPLES_PER_SLICE):  # a slice at a time
            counters.check_time(clock.now)
    counters.add("put", "new", 1, 1)
    assert counters.find("put", "topic-0") is not None
    assert counters.find("put", "new") is not None
    assert len(counters._keyed) == 2
