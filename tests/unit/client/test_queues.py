from __future__ import annotations

from skyrocket.client.queues import Queue, queue_order


def test_a_queue_says_which_it_is():
    assert str(Queue("orders", "broker-a", 3)) == "queue 3 of orders at broker-a"


def test_a_queue_goes_into_bodies_and_comes_back():
    queue = Queue("orders", "broker-a", 3)
    assert Queue.of(queue.as_body()) == queue


def test_queues_are_ordered_by_topic_broker_and_number_and_texts_as_java_orders_them():
    ordered = [
        Queue("a", "b", 9),
        Queue("a", "c", 0),
        Queue("a", "c", 10),
        Queue("b", "a", 0),
        Queue("🚀", "", 0),
        Queue("\uffee", "", 0),
    ]
    mixed = ordered[3:] + ordered[:3]
    assert sorted(mixed, key=queue_order) == ordered
