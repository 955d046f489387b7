"""What a stream may read next, whatever became of its queues meanwhile."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyrocket.client.queues import Queue
from skyrocket.spark.errors import DataLossError, OffsetsError, UnreachableClusterError
from skyrocket.spark.source.admission import shared
from skyrocket.spark.source.stream_offsets import StreamOffsets, stream_offsets
from skyrocket.spark.source.trigger import Bounds, Front, QueueWatch, Survey

A, B = Queue("orders", "broker-a", 0), Queue("orders", "broker-b", 0)
PATIENCE_MS = 60_000
DEAD = "The broker at 127.0.0.1:10911 does not answer."


def watch(*, fail_on_data_loss: bool = True) -> QueueWatch:
    return QueueWatch(fail_on_data_loss, PATIENCE_MS)


def front(it: QueueWatch, stands: dict[Queue, int], found: dict[Queue, tuple[int, int]], now_ms: int = 0, **given: Any) -> Front:
    asked_for = given.pop("asked_for", lambda queue: True)
    return it.front(stands, Survey({queue: Bounds(*each) for queue, each in found.items()}, **given), asked_for, now_ms)


def test_what_came_since_the_last_batch_can_be_read():
    now = front(watch(), {A: 5, B: 7}, {A: (0, 9), B: (0, 7)})
    assert now.backlog() == {A: 4, B: 0}
    assert now.end({A: 3}) == StreamOffsets({A: 8, B: 7})


def test_where_nothing_is_new_there_is_no_end():
    assert front(watch(), {A: 5}, {A: (0, 5)}).end({}) is None


def test_nothing_admitted_is_nothing_new():
    assert front(watch(), {A: 5}, {A: (0, 9)}).end({}) is None


def test_the_first_batch_of_a_query_tells_where_it_began_even_if_it_is_empty():
    now = front(watch(), {A: 5, B: 7}, {A: (0, 9), B: (0, 7)})
    assert now.end({A: 4}, tells_all=True) == StreamOffsets({A: 9, B: 7}, {A: 5, B: 7})
    assert now.end({}, tells_all=True) == StreamOffsets({A: 5, B: 7}, {A: 5, B: 7})


def test_a_queue_that_is_new_is_read_from_its_first_offset_and_the_checkpoint_says_so():
    now = front(watch(), {A: 5}, {A: (0, 5), B: (3, 9)})
    assert now.backlog() == {A: 0, B: 6}
    assert now.end({B: 2}) == StreamOffsets({A: 5, B: 5}, {B: 3})


# --- messages that are gone


def test_messages_gone_before_they_were_read_end_the_query():
    with pytest.raises(DataLossError, match=r"^Offsets 5 to 8 of queue 0 of orders at broker-a are gone .*failOnDataLoss"):
        front(watch(), {A: 5}, {A: (8, 12)})


def test_or_it_goes_on_with_the_first_that_is_there():
    now = front(watch(fail_on_data_loss=False), {A: 5}, {A: (8, 12)})
    assert now.end({A: 4}) == StreamOffsets({A: 12}, {A: 8})
    assert "from offset 8" in now.warnings[0]


def test_a_broker_that_came_back_with_fewer_messages_ends_the_query():
    with pytest.raises(DataLossError, match=r"ends at offset 3, but the checkpoint stands at 5.*failOnDataLoss"):
        front(watch(), {A: 5}, {A: (0, 3)})


def test_or_it_goes_on_with_what_comes_next_there_and_repeats_nothing():
    now = front(watch(fail_on_data_loss=False), {A: 5}, {A: (0, 3)})
    assert now.backlog() == {A: 0}
    assert now.end({}) == StreamOffsets({A: 3}, {A: 3})


def test_a_slave_that_is_behind_has_lost_nothing():
    now = front(watch(), {A: 5}, {A: (0, 3)}, slaves=frozenset({"broker-a"}))
    assert now.backlog() == {A: 0}
    assert now.end({}) is None


# --- queues that nobody answers for


def test_a_broker_that_does_not_answer_stays_where_it_is_while_others_are_read():
    now = front(watch(), {A: 5, B: 7}, {A: (0, 9)}, silent={B: DEAD})
    assert now.backlog() == {A: 4, B: 0}
    assert now.end({A: 4}) == StreamOffsets({A: 9, B: 7})
    assert DEAD in now.warnings[0]


def test_it_is_told_once_when_a_queue_goes_and_once_when_it_comes():
    it = watch()
    assert len(front(it, {A: 5}, {}, silent={A: DEAD}).warnings) == 1
    assert front(it, {A: 5}, {}, 10, silent={A: DEAD}).warnings == ()
    assert "there again" in front(it, {A: 5}, {A: (0, 5)}, 20).warnings[0]
    assert front(it, {A: 5}, {A: (0, 5)}, 30).warnings == ()


def test_a_silent_broker_ends_the_query_after_the_retry_timeout():
    it = watch()
    front(it, {A: 5}, {}, 1_000, silent={A: DEAD})
    front(it, {A: 5}, {}, 1_000 + PATIENCE_MS - 1, silent={A: DEAD})
    with pytest.raises(UnreachableClusterError, match="retryTimeout"):
        front(it, {A: 5}, {}, 1_000 + PATIENCE_MS, silent={A: DEAD})


def test_a_broker_that_came_back_in_time_is_given_the_whole_time_again():
    it = watch()
    front(it, {A: 5}, {}, 0, silent={A: DEAD})
    front(it, {A: 5}, {A: (0, 9)}, PATIENCE_MS - 1)
    front(it, {A: 5}, {}, PATIENCE_MS, silent={A: DEAD})
    front(it, {A: 5}, {}, 2 * PATIENCE_MS - 1, silent={A: DEAD})


def test_a_queue_that_no_nameserver_knows_any_more_is_data_lost_after_that_time():
    it = watch()
    front(it, {A: 5}, {}, 0)
    with pytest.raises(DataLossError, match=r"queue 0 of orders at broker-a is gone.*failOnDataLoss"):
        front(it, {A: 5}, {}, PATIENCE_MS)


def test_or_it_waits_where_it_is_for_as_long_as_it_takes():
    it = watch(fail_on_data_loss=False)
    front(it, {A: 5}, {}, 0)
    assert "goes on without" in front(it, {A: 5}, {}, PATIENCE_MS).warnings[0]
    assert front(it, {A: 5}, {}, 100 * PATIENCE_MS).warnings == ()
    assert front(it, {A: 5}, {A: (0, 9)}, 101 * PATIENCE_MS).backlog() == {A: 4}


# --- options that changed


def test_a_checkpoint_of_queues_that_are_not_asked_for_ends_the_query():
    with pytest.raises(OffsetsError, match=r"queue 0 of orders at broker-b.*options.*checkpointLocation"):
        front(watch(), {A: 5, B: 7}, {A: (0, 9)}, asked_for=lambda queue: queue == A)


def test_or_they_are_forgotten():
    now = front(watch(fail_on_data_loss=False), {A: 5, B: 7}, {A: (0, 9)}, asked_for=lambda queue: queue == A)
    assert now.end({}) == StreamOffsets({A: 5})
    assert "forgotten" in now.warnings[0]


# --- any history


@given(st.data())
def test_whatever_happens_each_offset_is_read_once_and_a_batch_done_again_reads_the_same(data: st.DataObject):
    """Queues come, grow, fall silent and come back; each batch is checked against what was read before."""
    queues = [Queue("t", "a", queue_id) for queue_id in range(4)]
    lasts: dict[Queue, int] = {}
    read: dict[Queue, list[int]] = {queue: [] for queue in queues}
    it, stands = watch(fail_on_data_loss=False), StreamOffsets({})
    for now_ms in range(0, 400_000, 10_000):
        for queue in data.draw(st.lists(st.sampled_from(queues), max_size=4)):
            lasts[queue] = lasts.get(queue, 0) + data.draw(st.integers(0, 50))
        silent = data.draw(st.sets(st.sampled_from(queues)))
        found = {queue: (0, last) for queue, last in lasts.items() if queue not in silent}
        now = front(it, dict(stands.ends), found, now_ms)
        end = now.end(shared(now.backlog(), data.draw(st.integers(1, 40))))
        if end is None:
            continue
        starts = end.starts(stands)
        assert stream_offsets(end.as_json()).starts(stands) == starts, "the checkpoint gives the same batch"
        for queue, start in starts.items():
            read[queue] += range(start, end.ends[queue])
        stands = end
    now = front(it, dict(stands.ends), {queue: (0, last) for queue, last in lasts.items()}, 400_000)
    for queue, last in lasts.items():
        assert read[queue] + list(range(now.starts[queue], now.lasts[queue])) == list(range(last))


# --- a query that ends with what there is


def test_what_began_a_moment_later_than_the_look_at_the_queues_is_not_beyond_their_end():
    found = Survey({A: Bounds(0, 5)}).up_to({A: 7, B: 2})
    assert found.bounds == {A: (0, 7), B: (2, 2)}
    assert Survey({A: Bounds(0, 5)}).up_to({A: 3}).bounds == {A: (0, 5)}


def test_queues_that_answer_late_are_added_but_only_where_the_stream_stands():
    found = Survey({A: Bounds(0, 5)}).with_more(Survey({A: Bounds(0, 9), B: Bounds(0, 4)}), {A: 5})
    assert found.bounds == {A: (0, 5)}, "what came to a queue since is not read"
    found = Survey({A: Bounds(0, 5)}).with_more(Survey({B: Bounds(0, 4)}), {A: 5, B: 2})
    assert found.bounds == {A: (0, 5), B: (0, 4)}


def test_a_watch_waits_while_a_queue_may_come_back_and_no_longer():
    it = watch(fail_on_data_loss=False)
    front(it, {A: 5}, {A: (0, 5)}, 0)
    assert not it.is_waiting(0)
    front(it, {A: 5}, {}, 1_000)
    assert it.is_waiting(PATIENCE_MS)
    assert not it.is_waiting(1_000 + PATIENCE_MS)


def test_only_queues_that_answer_are_told_of_offsets_or_asked_for_filters():
    now = front(watch(fail_on_data_loss=False), {A: 5, B: 7}, {A: (0, 5)})
    assert now.answering == {A}
