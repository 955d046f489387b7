"""An archive compared with the offsets that it should have."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from skyrocket.client.queues import Queue
from skyrocket.pipelines.archive.coverage import BEYOND, MISSING, REPEATED, QueueRows, compare_offsets, covers
from skyrocket.pipelines.archive.plan import QueueBounds

QUEUE = Queue("orders", "broker-a", 3)


def problems(wanted: QueueBounds, offsets: list[int]) -> list[tuple[int, int, str]]:
    return [(found.start, found.stop, found.what) for found in compare_offsets(QUEUE, wanted, offsets)]


def test_each_offset_once_is_no_problem():
    assert problems(QueueBounds(5, 9), [5, 6, 7, 8]) == []
    assert problems(QueueBounds(5, 5), []) == []


def test_holes_repetitions_and_strangers_are_named():
    assert problems(QueueBounds(5, 12), [4, 7, 7, 8, 10, 13]) == [
        (4, 5, BEYOND),
        (5, 7, MISSING),
        (7, 8, REPEATED),
        (9, 10, MISSING),
        (13, 14, BEYOND),
        (11, 12, MISSING),
    ]
    assert [str(found) for found in compare_offsets(QUEUE, QueueBounds(0, 3), [2])] == [f"{QUEUE}: offsets 0 to 1 are missing."]


@given(st.integers(0, 5), st.integers(0, 8), st.lists(st.integers(0, 15), max_size=12))
def test_counts_fit_exactly_when_there_is_no_problem(first: int, count: int, offsets: list[int]):
    """Counts alone decide which queues are looked at, so they must never fit where something is wrong."""
    wanted, found = QueueBounds(first, first + count), sorted(offsets)
    rows = QueueRows(len(found), len(set(found)), found[0], found[-1]) if found else None
    assert covers(rows, wanted) == (problems(wanted, found) == [])


def test_offsets_in_a_gap_are_not_missing_and_those_beside_it_are():
    gaps = [QueueBounds(3, 6), QueueBounds(8, 9)]
    assert list(compare_offsets(QUEUE, QueueBounds(0, 10), [0, 1, 2, 6, 7, 9], gaps)) == []
    found = list(compare_offsets(QUEUE, QueueBounds(0, 10), [0, 7], gaps))
    assert [(one.start, one.stop) for one in found] == [(1, 3), (6, 7), (9, 10)]
