"""What a drain decides without a cluster: what waits, what is selected, whether the group may be moved."""

from __future__ import annotations

import pytest

from skyrocket.client.queues import Queue
from skyrocket.pipelines.archive.plan import QueueBounds
from skyrocket.pipelines.drain.plan import (
    EVERYTHING,
    Conditions,
    needs_move,
    plan_ranges,
    select_condition,
    subscribe_condition,
)
from skyrocket.pipelines.errors import ArgumentError, DrainError

A, B = Queue("orders", "broker-a", 0), Queue("orders", "broker-a", 1)


def test_what_waits_begins_at_the_groups_offset_and_ends_at_the_queues_end():
    bounds = {A: QueueBounds(100, 1_000), B: QueueBounds(0, 50)}
    assert plan_ranges("g", {A: 700, B: 50}, bounds) == {A: QueueBounds(700, 1_000), B: QueueBounds(50, 50)}


def test_messages_that_the_broker_has_deleted_do_not_wait():
    assert plan_ranges("g", {A: 20}, {A: QueueBounds(100, 1_000)}) == {A: QueueBounds(100, 1_000)}


def test_a_queue_that_is_new_to_the_group_waits_as_a_whole():
    bounds = {A: QueueBounds(0, 10), B: QueueBounds(3, 9)}
    assert plan_ranges("g", {A: 10, B: None}, bounds) == {A: QueueBounds(10, 10), B: QueueBounds(3, 9)}


def test_a_group_ahead_of_a_queue_has_nothing_waiting():
    assert plan_ranges("g", {A: 12}, {A: QueueBounds(0, 10)}) == {A: QueueBounds(10, 10)}


def test_a_topic_that_the_group_does_not_consume_is_refused():
    with pytest.raises(ArgumentError, match=r"^Group 'g' has no offset in topic 'orders', so nothing of it waits\.$"):
        plan_ranges("g", {A: None}, {A: QueueBounds(0, 10), B: QueueBounds(0, 10)})


# --- moves


@pytest.mark.parametrize(("committed", "expected"), [(700, True), (999, True), (1_000, False), (1_200, False), (None, True)])
def test_a_group_is_moved_forwards_only(committed: int | None, expected: bool):
    assert needs_move("g", A, QueueBounds(700, 1_000), committed, 1_300) is expected


def test_an_empty_range_moves_nothing():
    assert not needs_move("g", A, QueueBounds(10, 10), None, 10)
    assert not needs_move("g", A, QueueBounds(10, 10), 10, 10)


def test_a_group_that_was_set_back_behind_the_archive_is_not_moved():
    with pytest.raises(DrainError, match="would pass over messages that are not archived"):
        needs_move("g", A, QueueBounds(700, 1_000), 699, 1_300)


def test_a_queue_that_became_shorter_is_not_moved():
    with pytest.raises(DrainError, match="ends at 12, but was archived up to 1000"):
        needs_move("g", A, QueueBounds(700, 1_000), 700, 12)


# --- conditions


def test_everything_is_selected_without_a_condition():
    assert select_condition([], None) == EVERYTHING
    found = Conditions()
    assert (found.replayed, found.selects_everything) == (EVERYTHING, True)


def test_what_is_not_selected_includes_where_the_condition_is_null():
    found = Conditions(select_condition(["low"], "queueId = 3"), "tags = 'x'")
    assert found.selected == "(tags IN ('low') AND (queueId = 3))"
    assert found.replayed == f"coalesce({found.selected}, false) AND coalesce(tags = 'x', false)"
    assert found.resent == f"NOT coalesce({found.selected}, false) AND coalesce(tags = 'x', false)"


def test_subscriptions_of_members_become_conditions():
    assert subscribe_condition(["a", "b"], {"a": "*", "b": "*"}) == EVERYTHING
    assert subscribe_condition(["a", "b"], {"a": "*", "b": "y || x", "%RETRY%g": "*"}) == (
        "(topic = 'a') OR (topic = 'b' AND tags IN ('x', 'y'))"
    )


def test_a_subscription_that_is_not_known_is_to_be_given():
    with pytest.raises(
        ArgumentError, match=r"^No connected member says .* Say which messages it gets with --subscribed: true for all"
    ):
        subscribe_condition(["a"], {})
    with pytest.raises(
        ArgumentError, match=r"by SQL92, which only brokers evaluate\. Say which messages it gets with --subscribed"
    ):
        subscribe_condition(["a"], {"a": "price > 100"}, ["a"])
