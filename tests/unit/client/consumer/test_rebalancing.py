"""The pure part of a rebalance: the difference between two assignments."""

from __future__ import annotations

from skyrocket.client.consumer.rebalancing import AssignmentChange, assignment_change
from skyrocket.client.queues import Queue

A, B, C = (Queue("t", "broker-a", number) for number in range(3))


def test_missing_queues_are_revoked_and_new_queues_are_assigned():
    assert assignment_change([A, B], [B, C]) == AssignmentChange([A], [C])


def test_equal_assignments_change_nothing():
    assert assignment_change([A, B], [B, A]) == AssignmentChange([], [])


def test_all_queues_may_be_assigned_or_revoked():
    assert assignment_change([], [A, B]) == AssignmentChange([], [A, B])
    revoked, assigned, _ = assignment_change([A, B], [])
    assert (set(revoked), assigned) == ({A, B}, [])
