"""What a stream may read next, whatever has happened to its queues."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyrocket.client.queues import Queue
from skyrocket.spark.errors import DataLossError, OffsetsError, UnreachableClusterError
from skyrocket.spark.source.admission import divide_limit
from skyrocket.spark.source.stream_offsets import StreamOffsets, parse_stream_offsets
from skyrocket.spark.source.trigger import ClusterSnapshot, QueueWatch, ReadableBounds, ReadableOffsets

A, B = Queue("orders", "broker-a", 0), Queue("orders", "broker-b", 0)
RETRY_MS = 60_000
DEAD = "The broker at 127.0.0.1:10911 does not answer."


def watch(*, fail_on_data_loss: bool = True) -> QueueWatch:
    return QueueWatch(fail_on_data_loss, RETRY_MS)


def compare(
    it: QueueWatch, positions: dict[Queue, int], found: dict[Queue, tuple[int, int]], now_ms: int = 0, **given: Any
) -> ReadableOffsets:
    is_selected = given.pop("is_selected", lambda queue: True)
    snapshot = ClusterSnapshot({queue: ReadableBounds(*each) for queue, each in found.items()}, **given)
    return it.compare(positions, snapshot, is_selected, now_ms)


def test_new_messages_can_be_read():
    now = compare(watch(), {A: 5, B: 7}, {A: (0, 9), B: (0, 7)})
    assert now.backlog() == {A: 4, B: 0}
    assert now.end({A: 3}) == StreamOffsets({A: 8, B: 7})


def test_without_new_messages_there_is_no_end():
    assert compare(watch(), {A: 5}, {A: (0, 5)}).end({}) is None


def test_without_admitted_offsets_there_is_no_end():
    assert compare(watch(), {A: 5}, {A: (0, 9)}).end({}) is None


def test_first_batch_of_a_query_records_its_starts_even_if_it_is_empty():
    now = compare(watch(), {A: 5, B: 7}, {A: (0, 9), B: (0, 7)})
    assert now.end({A: 4}, with_all_starts=True) == StreamOffsets({A: 9, B: 7}, {A: 5, B: 7})
    assert now.end({}, with_all_starts=True) == StreamOffsets({A: 5, B: 7}, {A: 5, B: 7})


def test_new_queue_is_read_from_its_first_offset_and_the_checkpoint_records_it():
    now = compare(watch(), {A: 5}, {A: (0, 5), B: (3, 9)})
    assert now.backlog() == {A: 0, B: 6}
    assert now.end({B: 2}) == StreamOffsets({A: 5, B: 5}, {B: 3})


# --- messages that no longer exist


def test_expired_messages_fail_the_query():
    with pytest.raises(DataLossError, match=r"^Offsets 5 to 8 of queue 0 of orders at broker-a expired .*failOnDataLoss"):
        compare(watch(), {A: 5}, {A: (8, 12)})


def test_without_fail_on_data_loss_the_query_continues_at_the_first_message():
    now = compare(watch(fail_on_data_loss=False), {A: 5}, {A: (8, 12)})
    assert now.end({A: 4}) == StreamOffsets({A: 12}, {A: 8})
    assert "at offset 8" in now.warnings[0]


def test_broker_that_returned_with_fewer_messages_fails_the_query():
    with pytest.raises(DataLossError, match=r"ends at offset 3, but the checkpoint is at 5.*failOnDataLoss"):
        compare(watch(), {A: 5}, {A: (0, 3)})


def test_without_fail_on_data_loss_the_query_continues_at_the_new_end():
    now = compare(watch(fail_on_data_loss=False), {A: 5}, {A: (0, 3)})
    assert now.backlog() == {A: 0}
    assert now.end({}) == StreamOffsets({A: 3}, {A: 3})


def test_slave_behind_its_master_is_no_data_loss():
    now = compare(watch(), {A: 5}, {A: (0, 3)}, slaves=frozenset({"broker-a"}))
    assert now.backlog() == {A: 0}
    assert now.end({}) is None


# --- queues whose broker does not answer


def test_silent_broker_keeps_its_position_while_others_are_read():
    now = compare(watch(), {A: 5, B: 7}, {A: (0, 9)}, silent={B: DEAD})
    assert now.backlog() == {A: 4, B: 0}
    assert now.end({A: 4}) == StreamOffsets({A: 9, B: 7})
    assert DEAD in now.warnings[0]


def test_one_warning_when_a_queue_goes_and_one_when_it_is_back():
    it = watch()
    assert len(compare(it, {A: 5}, {}, silent={A: DEAD}).warnings) == 1
    assert compare(it, {A: 5}, {}, 10, silent={A: DEAD}).warnings == ()
    assert "is back" in compare(it, {A: 5}, {A: (0, 5)}, 20).warnings[0]
    assert compare(it, {A: 5}, {A: (0, 5)}, 30).warnings == ()


def test_silent_broker_fails_the_query_after_the_retry_timeout():
    it = watch()
    compare(it, {A: 5}, {}, 1_000, silent={A: DEAD})
    compare(it, {A: 5}, {}, 1_000 + RETRY_MS - 1, silent={A: DEAD})
    with pytest.raises(UnreachableClusterError, match="retryTimeout"):
        compare(it, {A: 5}, {}, 1_000 + RETRY_MS, silent={A: DEAD})


def test_retry_timeout_starts_again_when_a_broker_was_back():
    it = watch()
    compare(it, {A: 5}, {}, 0, silent={A: DEAD})
    compare(it, {A: 5}, {A: (0, 9)}, RETRY_MS - 1)
    compare(it, {A: 5}, {}, RETRY_MS, silent={A: DEAD})
    compare(it, {A: 5}, {}, 2 * RETRY_MS - 1, silent={A: DEAD})


def test_queue_without_a_route_is_data_loss_after_the_retry_timeout():
    it = watch()
    compare(it, {A: 5}, {}, 0)
    with pytest.raises(DataLossError, match=r"queue 0 of orders at broker-a is gone.*failOnDataLoss"):
        compare(it, {A: 5}, {}, RETRY_MS)


def test_without_fail_on_data_loss_the_query_continues_without_the_queue():
    it = watch(fail_on_data_loss=False)
    compare(it, {A: 5}, {}, 0)
    assert "continues without" in compare(it, {A: 5}, {}, RETRY_MS).warnings[0]
    assert compare(it, {A: 5}, {}, 100 * RETRY_MS).warnings == ()
    assert compare(it, {A: 5}, {A: (0, 9)}, 101 * RETRY_MS).backlog() == {A: 4}


# --- options that changed


def test_checkpoint_with_unselected_queues_fails_the_query():
    with pytest.raises(OffsetsError, match=r"queue 0 of orders at broker-b.*options.*checkpointLocation"):
        compare(watch(), {A: 5, B: 7}, {A: (0, 9)}, is_selected=lambda queue: queue == A)


def test_without_fail_on_data_loss_unselected_queues_are_forgotten():
    now = compare(watch(fail_on_data_loss=False), {A: 5, B: 7}, {A: (0, 9)}, is_selected=lambda queue: queue == A)
    assert now.end({}) == StreamOffsets({A: 5})
    assert "forgotten" in now.warnings[0]


# --- any history


@given(st.data())
def test_in_any_history_each_offset_is_read_once_and_a_repeated_batch_reads_the_same(data: st.DataObject):
    """Queues are created, grow, fall silent and come back. Each batch is compared with what was read before."""
    queues = [Queue("t", "a", queue_id) for queue_id in range(4)]
    lasts: dict[Queue, int] = {}
    read: dict[Queue, list[int]] = {queue: [] for queue in queues}
    it, positions = watch(fail_on_data_loss=False), StreamOffsets({})
    for now_ms in range(0, 400_000, 10_000):
        for queue in data.draw(st.lists(st.sampled_from(queues), max_size=4)):
            lasts[queue] = lasts.get(queue, 0) + data.draw(st.integers(0, 50))
        silent = data.draw(st.sets(st.sampled_from(queues)))
        found = {queue: (0, last) for queue, last in lasts.items() if queue not in silent}
        now = compare(it, dict(positions.ends), found, now_ms)
        end = now.end(divide_limit(now.backlog(), data.draw(st.integers(1, 40))))
        if end is None:
            continue
        starts = end.starts(positions)
        assert parse_stream_offsets(end.as_json()).starts(positions) == starts, "the checkpoint defines the same batch"
        for queue, start in starts.items():
            read[queue] += range(start, end.ends[queue])
        positions = end
    now = compare(it, dict(positions.ends), {queue: (0, last) for queue, last in lasts.items()}, 400_000)
    for queue, last in lasts.items():
        assert read[queue] + list(range(now.starts[queue], now.lasts[queue])) == list(range(last))


# --- a query with availableNow


def test_snapshot_is_extended_to_starts_that_were_resolved_later():
    found = ClusterSnapshot({A: ReadableBounds(0, 5)}).extend_to({A: 7, B: 2})
    assert found.bounds == {A: (0, 7), B: (2, 2)}
    assert ClusterSnapshot({A: ReadableBounds(0, 5)}).extend_to({A: 3}).bounds == {A: (0, 5)}


def test_late_answers_are_added_only_for_queues_with_a_position():
    found = ClusterSnapshot({A: ReadableBounds(0, 5)}).with_late_answers(
        ClusterSnapshot({A: ReadableBounds(0, 9), B: ReadableBounds(0, 4)}), {A: 5}
    )
    assert found.bounds == {A: (0, 5)}, "messages that arrived since are not read"
    found = ClusterSnapshot({A: ReadableBounds(0, 5)}).with_late_answers(ClusterSnapshot({B: ReadableBounds(0, 4)}), {A: 5, B: 2})
    assert found.bounds == {A: (0, 5), B: (0, 4)}


def test_watch_waits_until_the_retry_timeout_and_no_longer():
    it = watch(fail_on_data_loss=False)
    compare(it, {A: 5}, {A: (0, 5)}, 0)
    assert not it.is_waiting(0)
    compare(it, {A: 5}, {}, 1_000)
    assert it.is_waiting(RETRY_MS)
    assert not it.is_waiting(1_000 + RETRY_MS)


def test_only_queues_that_answered_are_answering():
    now = compare(watch(fail_on_data_loss=False), {A: 5, B: 7}, {A: (0, 5)})
    assert now.answering == {A}
