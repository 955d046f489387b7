"""A hand of messages: taken one by one, shared, and given up."""

from __future__ import annotations

from skyrocket.client.consumer.assigned_queue import HeldQueue
from skyrocket.client.consumer.dispatch.work_batch import Hand, drained
from skyrocket.client.consumer.limits import ConsumerLimits
from skyrocket.client.consumer.locks import QueueLease
from skyrocket.client.consumer.subscription import subscription
from skyrocket.client.queues import Queue
from skyrocket.client.received import Received
from skyrocket.protocol.message.record import Record


def hand(count: int, *, lease: QueueLease | None = None, now_ms: int = 0) -> Hand:
    messages = [Received(Record(topic="t", body=b"%d" % number, queue_offset=number)) for number in range(count)]
    held = HeldQueue(
        Queue("t", "b", 0), subscription("t", "*", 0), 0, 0, ConsumerLimits(), orderly=lease is not None, lease=lease
    )
    held.state.took(messages, count)
    return Hand(held, held.state.take(count, 0) if lease is None else messages, lambda: now_ms)


def test_messages_come_one_after_another_until_there_are_no_more():
    each = hand(2)
    assert [each.next().body, each.next().body, each.next()] == [b"0", b"1", None]


def test_a_dropped_queue_gives_no_more():
    each = hand(2)
    each.held.state.drop()
    assert each.next() is None


def test_a_queue_whose_lock_has_run_out_gives_no_more():
    lease = QueueLease()
    lease.granted(0)
    assert hand(2, lease=lease, now_ms=30_000).next() is not None
    assert hand(2, lease=lease, now_ms=30_001).next() is None


def test_who_helps_takes_the_second_half():
    each = hand(5)
    assert [message.body for message in each.half()] == [b"2", b"3", b"4"]
    assert [message.body for message in each.given_up()] == [b"0", b"1"]
    assert each.half() == []


def test_a_batch_has_one_topic():
    each = hand(4)
    each.rest[2].topic = "other"
    first = each.next()
    assert [message.body for message in each.more(first, 10)] == [b"0", b"1"]
    assert len(each.rest) == 2


def test_what_is_done_is_taken_out_once():
    each = hand(3)
    each.done.extend(each.given_up())
    assert len(drained(each.done)) == 3
    assert drained(each.done) == []


def test_what_a_loop_was_left_with():
    each = hand(3)
    each.current = each.next()
    assert each.is_in_use
    assert [message.body for message in each.laid_down()] == [b"0"]
    assert not each.is_in_use
    assert each.laid_down() == []
