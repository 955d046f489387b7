"""One queue of a consumer: what is waiting, with handlers and done, and how far may be committed."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from skyrocket.client.consumer.limits import ConsumerLimits
from skyrocket.client.consumer.locks import QueueLease
from skyrocket.client.consumer.process_queue import ConsumerQueue, Full
from skyrocket.client.received import Received
from skyrocket.protocol.message.record import Record


class Message(NamedTuple):
    offset: int
    size: int = 10


def queue_of(*offsets: int, start: int = 0, **options) -> ConsumerQueue[Message]:
    queue = ConsumerQueue(start, 0, offset_of=lambda m: m.offset, size_of=lambda m: m.size, **options)
    queue.took(list(map(Message, offsets)), max(offsets, default=start - 1) + 1)
    return queue


def offsets(messages: list[Message]) -> list[int]:
    return [message.offset for message in messages]


class TestTheOffset:
    def test_is_that_of_the_first_unfinished_message_however_many_overtake_it(self):
        queue = queue_of(0, 1, 2, 3)
        slow, *others = queue.take(4, 0)
        assert queue.finish(others) is None
        assert queue.commit_offset == 0
        assert queue.finish([slow]) == 4

    def test_counts_messages_that_wait_for_a_handler_as_unfinished(self):
        queue = queue_of(0, 1, 2, 3)
        assert queue.finish(queue.take(2, 0)) == 2

    def test_goes_over_what_the_broker_filtered_out(self):
        queue = queue_of(3, 7)
        queue.took([], next_offset=20)
        assert queue.commit_offset == 3
        assert queue.finish(queue.take(2, 0)) == 20
        queue.took([], next_offset=30)
        assert queue.commit_offset == 30

    def test_begins_where_the_queue_began(self):
        assert queue_of(start=100).commit_offset == 100

    def test_is_not_moved_by_a_message_that_is_finished_twice(self):
        queue = queue_of(0, 1)
        taken = queue.take(1, 0)
        assert queue.finish(taken) == 1
        assert queue.finish(taken) is None
        assert queue.cached_messages == 1
        assert queue.cached_bytes == 10

    def test_is_not_to_be_committed_once_the_queue_is_anothers(self):
        queue = queue_of(0, 1)
        taken = queue.take(1, 0)
        queue.drop()
        assert queue.finish(taken) is None
        assert queue.take(1, 0) == []
        assert queue.took([Message(2)], 3) == 0

    def test_still_moves_while_a_consumer_that_shuts_down_finishes_what_it_took(self):
        queue = queue_of(0, 1)
        taken = queue.take(1, 0)
        queue.stop()
        assert queue.take(1, 0) == []
        assert queue.finish(taken) == 1


class TestPulls:
    def test_messages_that_were_here_already_are_passed_over(self):
        queue = queue_of(0, 1, 2)
        queue.finish(queue.take(1, 0))
        assert queue.took(list(map(Message, (0, 1, 2, 3))), 4) == 1
        assert offsets(queue.take(9, 0)) == [1, 2, 3]

    def test_messages_before_the_start_are_passed_over(self):
        assert offsets(queue_of(98, 99, 100, 101, start=100).take(9, 0)) == [100, 101]

    def test_a_pull_out_of_order_is_put_in_order(self):
        queue = queue_of()
        assert queue.took(list(map(Message, (2, 0, 1, 1))), 3) == 3
        assert offsets(queue.take(9, 0)) == [0, 1, 2]
        assert queue.cached_bytes == 30

    def test_a_next_offset_that_goes_back_is_not_believed(self):
        queue = queue_of(0, 1, 2)
        queue.took([], next_offset=1)
        assert queue.next_offset == 3

    def test_a_queue_not_pulled_for_two_minutes_is_stuck(self):
        queue = queue_of()
        queue.pulled(1_000)
        assert not queue.is_pull_expired(121_000)
        assert queue.is_pull_expired(121_001)


class TestFlow:
    def test_it_is_full_by_messages(self):
        queue = queue_of(*range(1_000))
        assert queue.full() is None
        queue.took([Message(1_000)], 1_001)
        assert queue.full() is Full.MESSAGES
        queue.finish(queue.take(1, 0))
        assert queue.full() is None

    def test_it_is_full_by_bytes(self):
        queue = queue_of()
        queue.took([Message(0, 100 * 1024 * 1024), Message(1, 1)], 2)
        assert queue.full() is Full.BYTES
        queue.finish(queue.take(1, 0))
        assert queue.full() is None

    def test_it_is_full_when_one_slow_message_stays_too_far_behind(self):
        queue = queue_of(0, 2_001)
        assert queue.full() is Full.SPAN
        assert queue_of(0, 2_000).full() is None
        assert queue_of(0, 2_001, orderly=True).full() is None, "in order nobody stays behind"

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
    def test_bounds_of_a_topic_and_of_all_are_divided_by_their_queues(self, bounds, messages: int, size_bytes: int):
        limits = ConsumerLimits(**bounds).shared_by(queues_of_topic=4, queues=10)
        assert (limits.cached_messages_max, limits.cached_bytes_max) == (messages, size_bytes)

    def test_sizes_and_offsets_of_received_messages_are_known_by_themselves(self):
        queue = ConsumerQueue[Received](7, 0)
        queue.took([Received(Record(topic="orders", body=b"12345", queue_offset=7))], 8)
        assert (queue.commit_offset, queue.cached_bytes) == (7, 5)


class TestConcurrentHandlers:
    def test_several_have_messages_at_the_same_time(self):
        queue = queue_of(0, 1, 2)
        assert [offsets(queue.take(2, 0)), offsets(queue.take(2, 0)), queue.take(2, 0)] == [[0, 1], [2], []]
        assert (queue.in_flight, queue.waiting) == (3, 0)

    def test_what_is_put_back_comes_again_before_later_ones(self):
        queue = queue_of(0, 1, 2, 3)
        first, second = queue.take(1, 0), queue.take(1, 0)
        queue.put_back(second)
        queue.put_back(first)
        assert offsets(queue.take(9, 0)) == [0, 1, 2, 3]

    def test_one_that_takes_too_long_is_named_until_it_is_done_with(self):
        queue = queue_of(0, 1, 2)
        queue.take(1, 0)
        queue.take(1, 5)
        assert queue.overdue(900_000) == []
        late = queue.overdue(900_001)
        assert offsets(late) == [0]
        assert queue.finish(late) == 1
        assert not queue.has(late[0]), "its handler's result does not count any more"
        assert offsets(queue.overdue(900_006)) == [1]

    def test_a_message_put_back_begins_anew_to_be_late(self):
        queue = queue_of(0)
        queue.put_back(queue.take(1, 0))
        assert queue.overdue(900_001) == []
        queue.take(1, 900_001)
        assert queue.overdue(900_002) == []

    def test_putting_back_what_is_finished_does_nothing(self):
        queue = queue_of(0)
        taken = queue.take(1, 0)
        queue.finish(taken)
        queue.put_back(taken)
        assert queue.waiting == 0


class TestOrderlyHandlers:
    def test_one_batch_at_a_time(self):
        queue = queue_of(0, 1, 2, orderly=True)
        taken = queue.take(2, 0)
        assert queue.take(2, 0) == []
        queue.finish(taken)
        assert offsets(queue.take(2, 0)) == [2]

    def test_a_suspended_queue_rests_and_then_gives_the_same_again(self):
        queue = queue_of(0, 1, orderly=True)
        queue.put_back(queue.take(1, 0), until_ms=1_000)
        assert queue.take(1, 999) == []
        assert offsets(queue.take(2, 1_000)) == [0, 1]

    def test_committing_by_hand(self):
        queue = queue_of(0, 1, 2, orderly=True)
        queue.hold(queue.take(1, 0))
        queue.hold(queue.take(1, 0))
        assert queue.commit_offset == 0
        assert queue.commit() == 2
        assert queue.commit() is None

    def test_rolling_back_gives_all_that_is_held_again(self):
        queue = queue_of(0, 1, 2, 3, orderly=True)
        queue.finish(queue.take(1, 0))
        queue.hold(queue.take(1, 0))
        queue.hold(queue.take(1, 0))
        queue.rollback(until_ms=10)
        assert queue.take(9, 9) == []
        assert offsets(queue.take(9, 10)) == [1, 2, 3]
        assert queue.commit_offset == 1

    def test_nothing_is_given_out_without_the_lock(self):
        lease = QueueLease()
        queue = queue_of(0, 1, orderly=True, lease=lease)
        assert queue.take(1, 0) == []
        lease.granted(0)
        queue.finish(queue.take(1, 30_000))
        assert queue.take(1, 30_001) == []
        lease.granted(30_000)
        assert offsets(queue.take(1, 30_001)) == [1]

    def test_only_orderly_queues_are_locked(self):
        with pytest.raises(AssertionError):
            queue_of(lease=QueueLease())
