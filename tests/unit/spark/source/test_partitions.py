"""Ranges of queues become partitions: every message once, in the right number of pieces of the right size."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from skyrocket.client.queues import Queue
from skyrocket.spark.source.partitions import QueuePartition, divide, plan_partitions, ranges_between


def of(number: int, start: int, stop: int) -> QueuePartition:
    return QueuePartition(Queue("orders", "broker-a", number), start, stop)


@st.composite
def some_ranges(draw: st.DrawFn) -> list[QueuePartition]:
    sizes = draw(st.lists(st.tuples(st.integers(0, 1_000), st.integers(0, 5_000)), max_size=12))
    return [of(number, start, start + size) for number, (start, size) in enumerate(sizes)]


@given(some_ranges(), st.none() | st.integers(1, 100), st.none() | st.integers(1, 700))
def test_every_message_is_in_one_partition(ranges: list[QueuePartition], least: int | None, most: int | None):
    parts = plan_partitions(ranges, min_partitions=least, max_records=most)
    assert all(part.size > 0 for part in parts)
    for whole in ranges:
        pieces = [part for part in parts if part.queue == whole.queue]
        assert sum(piece.size for piece in pieces) == whole.size
        if pieces:
            assert (pieces[0].start, pieces[-1].stop) == (whole.start, whole.stop)
        assert all(left.stop == right.start for left, right in pairwise(pieces))


@given(some_ranges(), st.integers(1, 100))
def test_there_are_at_least_min_partitions_if_there_are_enough_messages(ranges: list[QueuePartition], least: int):
    parts = plan_partitions(ranges, min_partitions=least)
    total = sum(whole.size for whole in ranges)
    assert len(parts) >= min(least, total)
    assert len(parts) <= max(least + len(ranges), len(ranges))


@given(some_ranges(), st.integers(1, 700), st.none() | st.integers(1, 100))
def test_no_partition_exceeds_max_records(ranges: list[QueuePartition], most: int, least: int | None):
    assert all(part.size <= most for part in plan_partitions(ranges, max_records=most, min_partitions=least))


def test_each_queue_is_one_partition_by_default():
    ranges = [of(0, 5, 900), of(1, 0, 1)]
    assert plan_partitions(ranges) == ranges
    assert plan_partitions(ranges, min_partitions=2) == ranges


def test_large_queues_are_divided_in_proportion_and_small_ones_stay_whole():
    parts = plan_partitions([of(0, 0, 10), of(1, 0, 400), of(2, 0, 800)], min_partitions=7)
    counts = {number: sum(part.queue.queue_id == number for part in parts) for number in range(3)}
    assert counts == {0: 1, 1: 2, 2: 4}


def test_pieces_differ_by_at_most_one_message():
    assert [part.size for part in divide(of(0, 3, 13), 4)] == [2, 3, 2, 3]
    assert [part.size for part in divide(of(0, 3, 5), 9)] == [1, 1]


def test_only_queues_whose_start_is_before_their_end_have_a_range():
    first, second, third = (of(number, 0, 0).queue for number in range(3))
    starts, stops = {first: 3, second: 7, third: 0}, {first: 9, second: 7, third: 0}
    assert ranges_between(starts, stops) == [QueuePartition(first, 3, 9)]
