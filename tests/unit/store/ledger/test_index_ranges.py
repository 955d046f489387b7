"""A set of indexes, kept as ranges, equals a set of integers."""

from __future__ import annotations

from random import Random

from skyrocket.store.ledger.index_ranges import IndexRange, IndexRanges


def test_ranges_equal_a_set_whatever_is_added_and_discarded():
    rng = Random(7)
    ranges, expected = IndexRanges(), set[int]()
    for _ in range(2_000):
        first = rng.randrange(60)
        last = first + rng.randrange(6)
        if rng.random() < 0.5:
            ranges.add(first, last)
            expected |= set(range(first, last + 1))
        else:
            ranges.discard(first, last)
            expected -= set(range(first, last + 1))
        assert list(ranges) == sorted(expected)
        assert len(ranges) == len(expected)
        assert ranges.covers(first, last) == (set(range(first, last + 1)) <= expected)
        assert ranges.between(first, last) == bool(set(range(first, last + 1)) & expected)
        assert all(one.last + 1 < following.first for one, following in zip(ranges.ranges, ranges.ranges[1:], strict=False))


def test_ranges_read_as_words():
    ranges = IndexRanges()
    ranges.add(3, 3)
    ranges.add(7, 9)
    assert str(ranges) == "3, 7 to 9"
    assert ranges.ranges == [IndexRange(3, 3), IndexRange(7, 9)]
