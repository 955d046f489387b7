"""What a checkpoint says of a batch: enough to do it again just so."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyrocket.client.queues import Queue
from skyrocket.spark.errors import OffsetsError
from skyrocket.spark.source.stream_offsets import StreamOffsets, stream_offsets

A, B = Queue("orders", "broker-a", 0), Queue("orders", "broker-a", 1)
TEN = Queue("orders", "broker-a", 10)
offsets = st.dictionaries(
    st.builds(Queue, st.sampled_from(["orders", "%RETRY%g", "users"]), st.sampled_from(["a", "b:c"]), st.integers(0, 99)),
    st.integers(0, 2**62),
)


@given(offsets, offsets)
def test_what_is_written_is_read_again(ends: dict[Queue, int], beginnings: dict[Queue, int]):
    written = json.dumps(StreamOffsets(ends, beginnings).as_json())
    assert stream_offsets(json.loads(written)) == StreamOffsets(ends, beginnings)


@given(offsets)
def test_equal_offsets_are_equal_texts(ends: dict[Queue, int]):
    other = StreamOffsets(dict(reversed(ends.items())))
    assert json.dumps(other.as_json()) == json.dumps(StreamOffsets(ends).as_json())


def test_queues_are_in_the_order_of_their_numbers():
    text = json.dumps(StreamOffsets({TEN: 1, B: 2, A: 3}).as_json())
    assert text == '{"orders": {"broker-a:0": 3, "broker-a:1": 2, "broker-a:10": 1}}'


def test_a_batch_begins_where_the_last_one_ended():
    assert StreamOffsets({A: 9, B: 9}).starts(StreamOffsets({A: 3, B: 4})) == {A: 3, B: 4}


def test_a_beginning_that_is_kept_goes_before_the_end_of_the_last_batch():
    """As after a restart, when "latest" is further on than it was when the batch was planned."""
    batch = StreamOffsets({A: 9, B: 9}, {A: 3, B: 4})
    assert batch.starts(StreamOffsets({A: 8, B: 12})) == {A: 3, B: 4}


def test_a_queue_that_came_with_a_batch_begins_where_the_batch_says():
    assert StreamOffsets({A: 9, B: 9}, {B: 2}).starts(StreamOffsets({A: 3})) == {A: 3, B: 2}


def test_a_queue_that_is_dropped_is_not_read():
    assert StreamOffsets({A: 9}).starts(StreamOffsets({A: 3, B: 4})) == {A: 3}


@pytest.mark.parametrize(
    "found",
    [
        None,
        7,
        [],
        "orders",
        {"orders": 7},
        {"orders": {"0": 1}},
        {"orders": {"a:x": 1}},
        {"orders": {"a:0": "1"}},
        {"orders": {"a:0": -1}},
    ],
    ids=str,
)
def test_a_checkpoint_of_somebody_else_is_refused_in_a_sentence(found: Any):
    with pytest.raises(OffsetsError, match=r"^[^\n]+\.$"):
        stream_offsets(found)


def test_an_end_without_a_beginning_is_refused():
    with pytest.raises(OffsetsError, match="queue 1 of orders at broker-a"):
        StreamOffsets({A: 9, B: 9}).starts(StreamOffsets({A: 3}))
