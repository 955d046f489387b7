"""The offsets of a batch in the checkpoint: enough to repeat exactly the same batch."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyrocket.client.queues import Queue
from skyrocket.spark.errors import OffsetsError
from skyrocket.spark.source.stream_offsets import StreamOffsets, parse_stream_offsets

A, B = Queue("orders", "broker-a", 0), Queue("orders", "broker-a", 1)
TEN = Queue("orders", "broker-a", 10)
offsets = st.dictionaries(
    st.builds(Queue, st.sampled_from(["orders", "%RETRY%g", "users"]), st.sampled_from(["a", "b:c"]), st.integers(0, 99)),
    st.integers(0, 2**62),
)


@given(offsets, offsets)
def test_offsets_are_equal_after_a_round_trip(ends: dict[Queue, int], starts: dict[Queue, int]):
    written = json.dumps(StreamOffsets(ends, starts).as_json())
    assert parse_stream_offsets(json.loads(written)) == StreamOffsets(ends, starts)


@given(offsets)
def test_equal_offsets_have_equal_texts(ends: dict[Queue, int]):
    other = StreamOffsets(dict(reversed(ends.items())))
    assert json.dumps(other.as_json()) == json.dumps(StreamOffsets(ends).as_json())


def test_queues_are_sorted_by_number():
    text = json.dumps(StreamOffsets({TEN: 1, B: 2, A: 3}).as_json())
    assert text == '{"orders": {"broker-a:0": 3, "broker-a:1": 2, "broker-a:10": 1}}'


def test_batch_starts_where_the_last_one_ended():
    assert StreamOffsets({A: 9, B: 9}).starts(StreamOffsets({A: 3, B: 4})) == {A: 3, B: 4}


def test_explicit_start_overrides_the_end_of_the_last_batch():
    """After a restart, "latest" may be later than it was when the batch was planned."""
    batch = StreamOffsets({A: 9, B: 9}, {A: 3, B: 4})
    assert batch.starts(StreamOffsets({A: 8, B: 12})) == {A: 3, B: 4}


def test_new_queue_starts_at_its_explicit_start():
    assert StreamOffsets({A: 9, B: 9}, {B: 2}).starts(StreamOffsets({A: 3})) == {A: 3, B: 2}


def test_dropped_queue_is_not_read():
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
def test_checkpoint_of_another_source_is_refused_with_a_clear_message(found: Any):
    with pytest.raises(OffsetsError, match=r"^[^\n]+\.$"):
        parse_stream_offsets(found)


def test_end_without_a_start_is_refused():
    with pytest.raises(OffsetsError, match="queue 1 of orders at broker-a"):
        StreamOffsets({A: 9, B: 9}).starts(StreamOffsets({A: 3}))
