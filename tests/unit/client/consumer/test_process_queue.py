"""The process queue: which messages wait, are with handlers or are finished, and which offset may be committed."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from skyrocket.client.consumer.limits import ConsumerLimits
from skyrocket.client.consumer.locks import QueueLock
from skyrocket.client.consumer.process_queue import CacheLimit, ProcessQueue
from skyrocket.client.received import Received
from skyrocket.protocol.message.record import Record


class Message(NamedTuple):
    queue_offset: int
    size_bytes: int = 10


def queue_of(*offsets: int, start: int = 0, **options) -> ProcessQueue[Message]:
    queue: ProcessQueue[Message] = ProcessQueue(start, 0, **options)
    queue.add(list(map(Message, offsets)), max(offsets, default=start - 1) + 1)
    return queue


def offsets(messages: list[Message]) -> list[int]:
    return [message.queue_offset for message in messages]


class TestCommitOffset:
    def test_is_that_of_the_first_unfinished_message(self):
        queue = queue_of(0, 1, 2, 3)
        slow, *others = queue.take(4, 0)
        assert queue.finish(others) is None
        assert queue.commit_offset == 0
        assert queue.finish([slow]) == 4

    def test_counts_waiting_messages_as_unfinished(self):
        queue = queue_of(0, 1, 2, 3)
        assert queue.finish(queue.take(2, 0)) == 2

    def test_moves_past_messages_that_the_broker_filtered_out(self):
        queue = queue_of(3, 7)
        queue.add([], next_offset=20)
        assert queue.commit_offset == 3
        assert queue.finish(queue.take(2, 0)) == 20
        queue.add([], next_offset=30)
        assert queue.commit_offset == 30

    def test_starts_at_the_start_offset(self):
        assert queue_of(start=100).commit_offset == 100

    def test_does_not_move_when_a_message_is_finished_twice(self):
        queue = queue_of(0, 1)
        taken = queue.take(1, 0)
        assert queue.finish(taken) == 1
        assert queue.finish(taken) is None
        assert queue.cached_messages == 1
        assert queue.cached_bytes == 10

    def test_is_not_committed_after_the_queue_was_dropped(self):
        queue = queue_of(0, 1)
        taken = queue.take(1, 0)
        queue.drop()
        assert queue.finish(taken) is None
        assert queue.take(1, 0) == []
        assert queue.add([Message(2)], 3) == 0

    def test_still_moves_while_a_shutdown_waits_for_handlers(self):
        queue = queue_of(0, 1)
        taken = queue.take(1, 0)
        queue.stop()
        assert queue.take(1, 0) == []
        assert queue.finish(taken) == 1


class TestPulls:
    def test_messages_that_were_added_before_are_ignored(self):
        queue = queue_of(0, 1, 2)
        queue.finish(queue.take(1, 0))
        assert queue.add(list(map(Message, (0, 1, 2, 3))), 4) == 1
        assert offsets(queue.take(9, 0)) == [1, 2, 3]

    def test_messages_before_the_start_offset_are_ignored(self):
        assert offsets(queue_of(98, 99, 100, 101, start=100).take(9, 0)) == [100, 101]

    def test_messages_out_of_order_are_sorted(self):
        queue = queue_of()
        assert queue.add(list(map(Message, (2, 0, 1, 1))), 3) == 3
        assert offsets(queue.take(9, 0)) == [0, 1, 2]
        assert queue.cached_bytes == 30

    def test_next_offset_never_goes_back(self):
        queue = queue_of(0, 1, 2)
        queue.add([], next_offset=1)
        assert queue.next_offset == 3

    def test_queue_without_a_pull_for_two_minutes_is_expired(self):
        queue = queue_of()
        queue.note_pull(1_000)
        assert not queue.is_pull_expired(121_000)
        assert queue.is_pull_expired(121_001)


class TestCacheLimits:
    def test_too_many_messages_reach_the_limit(self):
        queue = queue_of(*range(1_000))
        assert queue.reached_limit() is None
        queue.add([Message(1_000)], 1_001)
        assert queue.reached_limit() is CacheLimit.MESSAGES
        queue.finish(queue.take(1, 0))
        assert queue.reached_limit() is None

    def test_too_many_bytes_reach_the_limit(self):
        queue = queue_of()
        queue.add([Message(0, 100 * 1024 * 1024), Message(1, 1)], 2)
        assert queue.reached_limit() is CacheLimit.BYTES
        queue.finish(queue.take(1, 0))
        assert queue.reached_limit() is None

    def test_slow_message_too_far_behind_reaches_the_limit(self):
        queue = queue_of(0, 2_001)
        assert queue.reached_limit() is CacheLimit.SPAN
        assert queue_of(0, 2_000).reached_limit() is None
        assert queue_of(0, 2_001, orderly=True).reached_limit() is None, "in an orderly queue no message stays behind"

    @pytest.mark.parametrize(
        ("bounds", "messages", "size_bytes"),
        [
            ({}, 1_000, 100 * 1024 * 1024),
            ({"topic_messages_max": 100}, 25, 100 * 1024 * 1024),
            ({"topic_messages_max": 20_000}, 5_000, 100 * 1024 * 1024),
            ({"topic_bytes_max": 4_000}, 1_000, 1_000),
            ({"all_messages_max": 100, "all_bytes_max": 1_000}, 10, 100),
            ({"all_messages_max": 1_000_000}, 1_000, 100 * 1024 * 1024),
            ({"all_messages_max": 1, "topic_bytes_max": 1}, 1, 1),
        ],
    )
    def test_shared_bounds_are_divided_among_the_queues(self, bounds, messages: int, size_bytes: int):
        limits = ConsumerLimits(**bounds).divide(queues_of_topic=4, queues=10)
        assert (limits.cached_messages_max, limits.cached_bytes_max) == (messages, size_bytes)

    def test_received_messages_count_with_offset_and_body_size(self):
        queue = ProcessQueue[Received](7, 0)
        queue.add([Received(Record(topic="orders", body=b"12345", queue_offset=7))], 8)
        assert (queue.commit_offset, queue.cached_bytes) == (7, 5)


class TestConcurrentHandlers:
    def test_several_handlers_have_messages_at_the_same_time(self):
        queue = queue_of(0, 1, 2)
        assert [offsets(queue.take(2, 0)), offsets(queue.take(2, 0)), queue.take(2, 0)] == [[0, 1], [2], []]
        assert (queue.in_flight, queue.waiting) == (3, 0)

    def test_messages_that_are_put_back_come_before_later_ones(self):
        queue = queue_of(0, 1, 2, 3)
        first, second = queue.take(1, 0), queue.take(1, 0)
        queue.put_back(second)
        queue.put_back(first)
        assert offsets(queue.take(9, 0)) == [0, 1, 2, 3]

    def test_message_is_overdue_until_it_is_finished(self):
        queue = queue_of(0, 1, 2)
        queue.take(1, 0)
        queue.take(1, 5)
        assert queue.overdue(900_000) == []
        late = queue.overdue(900_001)
        assert offsets(late) == [0]
        assert queue.finish(late) == 1
        assert not queue.is_unfinished(late[0]), "the result of its handler does not count any more"
        assert offsets(queue.overdue(900_006)) == [1]

    def test_time_of_a_message_restarts_when_it_is_put_back(self):
        queue = queue_of(0)
        queue.put_back(queue.take(1, 0))
        assert queue.overdue(900_001) == []
        queue.take(1, 900_001)
        assert queue.overdue(900_002) == []

    def test_putting_back_a_finished_message_has_no_effect(self):
        queue = queue_of(0)
        taken = queue.take(1, 0)
        queue.finish(taken)
        queue.put_back(taken)
        assert queue.waiting == 0


class TestOrderlyHandlers:
    def test_one_batch_is_taken_at_a_time(self):
        queue = queue_of(0, 1, 2, orderly=True)
        taken = queue.take(2, 0)
        assert queue.take(2, 0) == []
        queue.finish(taken)
        assert offsets(queue.take(2, 0)) == [2]

    def test_suspended_queue_gives_the_same_message_after_the_pause(self):
        queue = queue_of(0, 1, orderly=True)
        queue.put_back(queue.take(1, 0), until_ms=1_000)
        assert queue.take(1, 999) == []
        assert offsets(queue.take(2, 1_000)) == [0, 1]

    def test_manual_commit_finishes_all_held_messages(self):
        queue = queue_of(0, 1, 2, orderly=True)
        queue.hold_for_commit(queue.take(1, 0))
        queue.hold_for_commit(queue.take(1, 0))
        assert queue.commit_offset == 0
        assert queue.commit() == 2
        assert queue.commit() is None

    def test_rollback_returns_all_held_messages(self):
        queue = queue_of(0, 1, 2, 3, orderly=True)
        queue.finish(queue.take(1, 0))
        queue.hold_for_commit(queue.take(1, 0))
        queue.hold_for_commit(queue.take(1, 0))
        queue.rollback(until_ms=10)
        assert queue.take(9, 9) == []
        assert offsets(queue.take(9, 10)) == [1, 2, 3]
        assert queue.commit_offset == 1

    def test_no_message_is_taken_without_the_lock(self):
        lock = QueueLock()
        queue = queue_of(0, 1, orderly=True, lock=lock)
        assert queue.take(1, 0) == []
        lock.grant(0)
        queue.finish(queue.take(1, 30_000))
        assert queue.take(1, 30_001) == []
        lock.grant(30_000)
        assert offsets(queue.take(1, 30_001)) == [1]

    def test_only_orderly_queues_have_a_lock(self):
        with pytest.raises(AssertionError):
            queue_of(lock=QueueLock())
