"""The sequence stamps of a producer: what it says about how far it has counted."""

from __future__ import annotations

from skyrocket.client import Producer
from skyrocket.client.producer.sequence import PRODUCER_ID, SEQUENCE, SequenceStamps
from skyrocket.client.queues import Queue

QUEUES = [Queue("shop%orders", "broker-a", number) for number in range(2)]


def test_numbers_count_from_one_in_each_queue():
    stamps = SequenceStamps("me")
    numbers = [stamps.next(QUEUES[index]) for index in (0, 0, 1)]
    assert [(one[PRODUCER_ID], one[SEQUENCE]) for one in numbers] == [("me", "1"), ("me", "2"), ("me", "1")]
    assert stamps.counts == {QUEUES[0]: 2, QUEUES[1]: 1}


def test_a_producer_tells_its_id_and_its_last_numbers_without_the_namespace():
    producer = Producer("127.0.0.1:9876", namespace="shop", stamp=True)
    assert producer._stamps is not None
    producer._stamps.next(QUEUES[0])
    counts = producer.stamped
    assert counts is not None
    assert counts.producer_id == producer._stamps.producer_id
    assert counts.last == {Queue("orders", "broker-a", 0): 1}


def test_a_producer_without_stamps_has_nothing_to_tell():
    assert Producer("127.0.0.1:9876").stamped is None
