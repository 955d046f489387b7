from __future__ import annotations

from skyrocket.client.queues import Queue, queue_order


def test_queue_as_text():
    assert str(Queue("orders", "broker-a", 3)) == "queue 3 of orders at broker-a"


def test_queue_survives_conversion_to_a_body_and_back():
    queue = Queue("orders", "broker-a", 3)
    assert Queue.of(queue.as_body()) == queue


def test_queues_sort_by_topic_broker_and_number_with_text_in_java_order():
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
