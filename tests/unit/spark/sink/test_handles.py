"""The ids of rows, and the handles of their half messages."""

from __future__ import annotations

import numpy as np

from skyrocket.client.queues import Queue
from skyrocket.protocol.message.message_id import parse_unique_id
from skyrocket.spark.sink.handles import (
    HandleList,
    Handles,
    count_rows,
    only_rows,
    rows_of,
    unpack_handles,
    without_half_messages,
    without_rows,
)
from skyrocket.spark.sink.row_ids import id_prefix, row_id, row_ids, row_of

QUEUE = Queue("t", "a", 3)


def test_id_depends_on_query_batch_partition_and_row():
    assert id_prefix("q", 1, 2) == id_prefix("q", 1, 2)
    others = [id_prefix(*place) for place in (("q", 1, 2), ("q", 12, 0), ("q", 1, 20), ("q1", 1, 2), ("p", 1, 2))]
    assert len(set(others)) == len(others)
    assert len(set(row_ids(others[0], range(100_000)))) == 100_000


def test_row_of_returns_the_row_of_an_id():
    prefix = id_prefix("q", 1, 2)
    for row in (0, 1, 65_535, 65_536, 2**32 - 1):
        assert row_of(row_id(prefix, row)) == (prefix, row)


def test_ids_have_the_format_of_unique_ids():
    assert parse_unique_id(row_id(id_prefix("q", 1, 2), 70_000)).in_month_ms == 0


def test_row_of_ignores_other_ids():
    assert row_of("7F0000010C3D18B4AAC2034F7C2D0001") is None
    assert row_of("short") is None
    assert row_of("X" * 20 + "00000000" + "WXYZ") is None


def handles(rows: list[int], *, prefix: str = "P", first: int = 1_000) -> Handles:
    found = HandleList()
    for row in rows:
        found.add(row, first + row * 300, 10 + row)
    return found.handles(QUEUE, prefix)


def test_handles_are_equal_after_packing_and_sorted_by_row():
    found = unpack_handles(handles([5, 1, 3]).pack())
    assert found.rows.tolist() == [1, 3, 5]
    assert found.physical_offsets.tolist() == [1_300, 1_900, 2_500]
    assert found.half_offsets.tolist() == [11, 13, 15]
    assert (found.queue, found.prefix) == (QUEUE, "P")


def test_packed_handles_take_less_than_four_bytes_per_row():
    rng = np.random.default_rng(1)
    sizes = rng.integers(300, 1_300, 10_000).cumsum()
    found = HandleList()
    for row in range(10_000):
        found.add(row, int(sizes[row]), row * 2)
    assert len(found.handles(QUEUE, "P").pack().data) < 4 * 10_000


def test_rows_are_selected_by_prefix_and_number():
    some = [handles([1, 2, 3]), handles([1, 9], prefix="Q")]
    assert [each.rows.tolist() for each in without_rows(some, {("P", 1), ("P", 3), ("Q", 1), ("Q", 9)})] == [[2]]
    assert [each.rows.tolist() for each in only_rows(some, {("Q", 9), ("P", 7)})] == [[9]]
    assert rows_of(some) == {("P", 1), ("P", 2), ("P", 3), ("Q", 1), ("Q", 9)}
    assert count_rows(some) == 5


def test_half_messages_are_identified_by_broker_and_physical_offset():
    mine, elsewhere = handles([1, 2, 3]), handles([1], first=1_000)._replace(queue=Queue("t", "b", 0))
    left = without_half_messages([mine, elsewhere], [handles([2], first=1_000)])
    assert [(each.queue.broker_name, each.rows.tolist()) for each in left] == [("a", [1, 3]), ("b", [1])]
