from __future__ import annotations

import pytest

from skyrocket.client.producer.broker_latency import LatencyTable
from skyrocket.client.producer.queue_selection import RoundRobin, by_hash
from skyrocket.client.queues import Queue

TWO_BROKERS = [Queue("t", broker, number) for broker in ("a", "b") for number in range(2)]


def test_every_queue_has_its_turn_in_order():
    round_robin = RoundRobin(start=7)
    chosen = [round_robin.next(TWO_BROKERS) for _ in range(8)]
    assert sorted(chosen[:4]) == TWO_BROKERS
    assert chosen[4:] == chosen[:4]


def test_another_broker_is_chosen_after_a_failure():
    round_robin = RoundRobin()
    assert {round_robin.next(TWO_BROKERS, not_at="a").broker_name for _ in range(10)} == {"b"}


def test_only_broker_is_chosen_although_it_failed():
    round_robin = RoundRobin()
    assert round_robin.next(TWO_BROKERS[:2], not_at="a").broker_name == "a"


def test_slow_broker_is_skipped_for_its_pause():
    latency = LatencyTable()
    latency.record_latency("a", 16_000, now_ms=0)
    round_robin = RoundRobin(latency=latency)
    assert {round_robin.next(TWO_BROKERS, now_ms=599_999).broker_name for _ in range(6)} == {"b"}
    assert {round_robin.next(TWO_BROKERS, now_ms=600_000).broker_name for _ in range(6)} == {"a", "b"}


def test_failed_broker_is_avoided_even_when_all_are_slow():
    latency = LatencyTable()
    for broker in ("a", "b"):
        latency.record_failure(broker, now_ms=0)
    assert RoundRobin(latency=latency).next(TWO_BROKERS, not_at="b", now_ms=1).broker_name == "a"


# Results of Apache's SelectMessageQueueByHash: (key, number of queues, the queue).
JAVAS_CHOICES = [
    *[("order-1", 3, 2), ("order-1", 4, 2), ("order-1", 8, 6), ("order-1", 7, 6), ("order-7", 3, 2), ("order-7", 4, 0)],
    *[("Aa", 3, 0), ("Aa", 7, 5), ("u-42", 3, 0), ("u-42", 4, 2), ("u-42", 8, 6), ("u-42", 7, 4), ("größe-ß", 3, 1)],
    *[("größe-ß", 4, 3), ("größe-ß", 7, 2), ("🚀", 4, 3), ("🚀", 7, 4), ("polygenelubricants", 3, 2)],
    *[("polygenelubricants", 7, 2), ("negative-hash-3", 3, 2), ("negative-hash-3", 8, 4), ("negative-hash-3", 7, 2)],
]


@pytest.mark.parametrize(("key", "size", "queue_id"), JAVAS_CHOICES)
def test_sharding_key_selects_the_queue_of_javas_selector(key: str, size: int, queue_id: int):
    assert by_hash([Queue("t", "a", number) for number in range(size)], key).queue_id == queue_id
