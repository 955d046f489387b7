"""Rates come from samples of totals; nothing is kept without a bound."""

from __future__ import annotations

from skyrocket.broker.counters import KEYS_MAX, Counters


class Clock:
    now = 1_000_000

    def __call__(self) -> int:
        return self.now


def counting() -> tuple[Counters, Clock]:
    clock = Clock()
    return Counters(clock), clock


def test_a_rate_is_what_came_since_a_sample_divided_by_the_time():
    counters, clock = counting()
    for _ in range(12):
        counters.added("put", "orders", 50, 5_000)
        counters.put.add(50, 5_000)
        clock.now += 10_000
        counters.check_time(clock.now)
    assert counters.topic_put("orders") == 5.0
    assert counters.put.rate(clock.now, 60_000).messages == 300
    assert (counters.put.messages, counters.put.size_bytes) == (600, 60_000)


def test_before_the_first_sample_is_old_the_rate_is_of_what_there_is():
    counters, clock = counting()
    counters.added("get", "orders@group", 10, 100)
    clock.now += 1_000
    assert counters.group_get("group", "orders") == 10.0


def test_what_nobody_used_has_no_rate():
    counters, _ = counting()
    assert counters.topic_put("nothing") == 0.0


def test_samples_and_keys_are_bounded():
    counters, clock = counting()
    for number in range(KEYS_MAX + 10):
        counters.added("put", f"topic-{number}", 1, 1)
    assert len(counters._keyed) == KEYS_MAX
    counter = counters.keyed("put", "topic-0")
    assert counter is not None
    for _ in range(100):
        clock.now += 10_000
        counter.sample(clock.now)
    assert len(counter._samples) <= 61
