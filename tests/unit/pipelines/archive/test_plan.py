"""Which offsets an archive takes next."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyrocket.client.queues import Queue
from skyrocket.pipelines.archive.plan import MissingRange, QueueBounds, RunPlan, next_batch, plan_run, plan_tasks, select_topics
from skyrocket.pipelines.errors import ArgumentError, MissingMessagesError

A, B = Queue("orders", "broker-a", 0), Queue("orders", "broker-a", 1)


def test_names_stand_for_themselves_and_patterns_for_what_they_match():
    assert select_topics(["pay", "order-*"], ["order-2", "order-1", "users"]) == ["pay", "order-1", "order-2"]


def test_a_pattern_without_a_topic_is_an_error_that_names_it():
    with pytest.raises(ArgumentError, match=r"^No topic matches the pattern 'x\*'\.$"):
        select_topics(["x*"], ["orders"])


def test_a_new_queue_begins_at_its_first_message_and_a_known_one_where_the_archive_ends():
    run = plan_run({A: 7}, {A: QueueBounds(3, 10), B: QueueBounds(5, 6)})
    assert run == RunPlan({A: 7, B: 5}, {A: 10, B: 6})
    assert run.total == 4


def test_messages_that_were_deleted_before_they_were_archived_are_an_error():
    with pytest.raises(MissingMessagesError, match=r"queue 0 of orders at broker-a, offsets 7 to 9\. To go on .*--skip-missing"):
        plan_run({A: 7}, {A: QueueBounds(9, 10)})


def test_a_gap_can_be_passed_over_and_is_reported_once():
    run = plan_run({A: 7}, {A: QueueBounds(9, 20)}, skip_missing=True)
    assert run.gaps == (MissingRange(A, 7, 9),)
    step = next_batch(run, most=5)
    assert step is not None
    batch, rest = step
    assert (batch.gaps, rest.gaps) == (run.gaps, ())


def test_a_queue_that_is_shorter_than_its_archive_is_an_error():
    with pytest.raises(MissingMessagesError, match="up to offset 7, but the queue ends at 4"):
        plan_run({A: 7}, {A: QueueBounds(0, 4)}, skip_missing=True)


def test_an_empty_queue_makes_no_batch():
    assert next_batch(plan_run({}, {A: QueueBounds(0, 0)}), most=10) is None


queues = st.builds(Queue, st.sampled_from(["orders", "users"]), st.sampled_from(["a", "b"]), st.integers(0, 3))
bounds = st.tuples(st.integers(0, 50), st.integers(0, 50)).map(lambda pair: QueueBounds(min(pair), max(pair)))


@given(st.dictionaries(queues, bounds), st.integers(1, 40), st.integers(1, 5), st.integers(1, 20))
def test_batches_and_tasks_cover_every_offset_once(found: dict[Queue, QueueBounds], most: int, tasks: int, rows_max: int):
    left: RunPlan | None = plan_run({}, found)
    seen: list[tuple[Queue, int]] = []
    while left is not None and (step := next_batch(left, most)) is not None:
        batch, left = step
        parts = plan_tasks(batch, tasks, rows_max)
        assert all(part.size <= rows_max for part in parts)
        seen += [(part.queue, offset) for part in parts for offset in range(part.start, part.stop)]
    assert sorted(seen) == sorted((queue, offset) for queue, (first, last) in found.items() for offset in range(first, last))
