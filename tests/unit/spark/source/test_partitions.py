"""Ranges of queues as partitions: everything once, in pieces of the right number and size."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from skyrocket.client.queues import Queue
from skyrocket.spark.source.partitions import QueueRange, divided, partitions_of, ranges_between


def of(number: int, start: int, stop: int) -> QueueRange:
    return QueueRange(Queue("orders", "broker-a", number), start, stop)


@st.composite
def some_ranges(draw: st.DrawFn) -> list[QueueRange]:
    sizes = draw(st.lists(st.tuples(st.integers(0, 1_000), st.integers(0, 5_000)), max_size=12))
    return [of(number, start, start + size) for number, (start, size) in enumerate(sizes)]


@given(some_ranges(), st.none() | st.integers(1, 100), st.none() | st.integers(1, 700))
def test_every_message_is_in_one_partition(ranges: list[QueueRange], least: int | None, most: int | None):
    parts = partitions_of(ranges, min_partitions=least, max_records=most)
    assert all(part.size > 0 for part in parts)
    for whole in ranges:
        pieces = [part for part in parts if part.queue == whole.queue]
        assert sum(piece.size for piece in pieces) == whole.size
        if pieces:
            assert (pieces[0].start, pieces[-1].stop) == (whole.start, whole.stop)
        assert all(left.stop == right.start for left, right in pairwise(pieces))


@given(some_ranges(), st.integers(1, 100))
def test_there_are_at_least_so_many_where_there_are_so_many_messages(ranges: list[QueueRange], least: int):
    parts = partitions_of(ranges, min_partitions=least)
    total = sum(whole.size for whole in ranges)
    assert len(parts) >= min(least, total)
    assert len(parts) <= max(least + len(ranges), len(ranges))


@given(some_ranges(), st.integers(1, 700), st.none() | st.integers(1, 100))
def test_none_has_more_than_it_may(ranges: list[QueueRange], most: int, least: int | None):
    assert all(part.size <= most for part in partitions_of(ranges, max_records=most, min_partitions=least))


def test_queues_are_left_whole_when_nothing_is_asked_for():
    ranges = [of(0, 5, 900), of(1, 0, 1)]
    assert partitions_of(ranges) == ranges
    assert partitions_of(ranges, min_partitions=2) == ranges


def test_large_queues_are_divided_in_proportion_and_small_ones_left_whole():
    parts = partitions_of([of(0, 0, 10), of(1, 0, 400), of(2, 0, 800)], min_partitions=7)
    counts = {number: sum(part.queue.queue_id == number for part in parts) for number in range(3)}
    assert counts == {0: 1, 1: 2, 2: 4}


def test_pieces_differ_by_one_message_at_most():
    assert [part.size for part in divided(of(0, 3, 13), 4)] == [2, 3, 2, 3]
    assert [part.size for part in divided(of(0, 3, 5), 9)] == [1, 1]


def test_a_range_lies_between_a_start_and_an_end():
    first, second, third = (of(number, 0, 0).queue for number in range(3))
    starts, stops = {first: 3, second: 7, third: 0}, {first: 9, second: 7, third: 0}
    assert ranges_between(starts, stops) == [QueueRange(first, 3, 9)]
