"""Work batches: messages are taken one by one, stolen by other workers, and put back."""

from __future__ import annotations

from skyrocket.client.consumer.assigned_queue import AssignedQueue
from skyrocket.client.consumer.dispatch.work_batch import WorkBatch, drain
from skyrocket.client.consumer.limits import ConsumerLimits
from skyrocket.client.consumer.locks import QueueLock
from skyrocket.client.consumer.subscription import make_subscription
from skyrocket.client.queues import Queue
from skyrocket.client.received import Received
from skyrocket.protocol.message.record import Record


def make_batch(count: int, *, lock: QueueLock | None = None, now_ms: int = 0) -> WorkBatch:
    messages = [Received(Record(topic="t", body=b"%d" % number, queue_offset=number)) for number in range(count)]
    assigned = AssignedQueue(
        Queue("t", "b", 0), make_subscription("t", "*", 0), 0, 0, ConsumerLimits(), orderly=lock is not None, lock=lock
    )
    assigned.process_queue.add(messages, count)
    return WorkBatch(assigned, assigned.process_queue.take(count, 0) if lock is None else messages, now_ms, lambda: now_ms)


def test_messages_are_taken_one_after_another_until_none_is_left():
    batch = make_batch(2)
    assert [batch.take_next().body, batch.take_next().body, batch.take_next()] == [b"0", b"1", None]


def test_dropped_queue_gives_no_more_messages():
    batch = make_batch(2)
    batch.assigned.process_queue.drop()
    assert batch.take_next() is None


def test_queue_with_an_expired_lock_gives_no_more_messages():
    lock = QueueLock()
    lock.grant(0)
    assert make_batch(2, lock=lock, now_ms=30_000).take_next() is not None
    assert make_batch(2, lock=lock, now_ms=30_001).take_next() is None


def test_another_worker_steals_the_second_half():
    batch = make_batch(5)
    assert [message.body for message in batch.steal_half()] == [b"2", b"3", b"4"]
    assert [message.body for message in batch.take_pending()] == [b"0", b"1"]
    assert batch.steal_half() == []


def test_list_for_a_handler_has_messages_of_one_topic():
    batch = make_batch(4)
    batch.pending[2].topic = "other"
    first = batch.take_next()
    assert [message.body for message in batch.take_list(first, 10)] == [b"0", b"1"]
    assert len(batch.pending) == 2


def test_done_messages_are_drained_once():
    batch = make_batch(3)
    batch.done.extend(batch.take_pending())
    assert len(drain(batch.done)) == 3
    assert drain(batch.done) == []


def test_current_message_of_a_loop_is_taken_once():
    batch = make_batch(3)
    batch.current = batch.take_next()
    assert batch.has_current
    assert [message.body for message in batch.take_current()] == [b"0"]
    assert not batch.has_current
    assert batch.take_current() == []
