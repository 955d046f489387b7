"""Rates, time to drain, skew and age from two looks."""

from __future__ import annotations

import pytest

from skyrocket.doctor.backlog.measure import TopicBacklog, drain_ms, measure
from tests.unit.doctor.backlog.looks import NOW_MS, at, cluster, member


def topic_after(before: list, now: list, seconds: float = 10) -> TopicBacklog:
    (group,) = measure(cluster(NOW_MS - int(seconds * 1000), before), cluster(NOW_MS, now))
    (topic,) = group.topics
    return topic


def test_rates_are_what_happened_between_the_looks():
    topic = topic_after([at(0, 100, 200), at(1, 0, 50)], [at(0, 180, 220), at(1, 20, 50)])
    assert (topic.lag, topic.produced_per_s, topic.consumed_per_s) == (70, 2.0, 10.0)
    assert [(queue.produced_per_s, queue.consumed_per_s) for queue in topic.queues] == [(2.0, 8.0), (0.0, 2.0)]
    assert topic.drain_ms == 1000 * 70 / 8


def test_one_look_has_no_rates():
    (group,) = measure(None, cluster(NOW_MS, [at(0, 100, 200, age_ms=5_000)]))
    (topic,) = group.topics
    assert (topic.lag, topic.produced_per_s, topic.consumed_per_s, topic.drain_ms) == (100, None, None, None)
    assert topic.waiting_ms == 5_000


def test_a_reset_to_earlier_messages_has_no_rate_and_a_new_queue_none_yet():
    topic = topic_after([at(0, 100, 200)], [at(0, 10, 200), at(1, 0, 5)])
    assert [queue.consumed_per_s for queue in topic.queues] == [None, None]
    assert topic.drain_ms is None


@pytest.mark.parametrize(
    ("lag", "produced", "consumed", "expected"),
    [(0, 9.0, 1.0, 0.0), (100, 1.0, 11.0, 10_000.0), (100, 5.0, 5.0, None), (100, 5.0, 1.0, None), (100, None, 3.0, None)],
)
def test_time_to_drain(lag: int, produced: float | None, consumed: float | None, expected: float | None):
    assert drain_ms(lag, produced, consumed) == expected


def test_skew_is_the_longest_queue_beside_the_mean():
    assert topic_after([], [at(0, 0, 90), at(1, 0, 10), at(2, 0, 20)]).skew == pytest.approx(2.25)
    assert topic_after([], [at(0, 5, 5)]).skew == 1.0


def test_owners_are_the_members_that_say_so():
    (group,) = measure(None, cluster(NOW_MS, [at(0, 0, 1), at(1, 0, 1)], member("m1", 0)))
    assert [queue.owner for queue in group.topics[0].queues] == ["m1", ""]
