"""The pure part of a rebalance: from what is held to what is ours."""

from __future__ import annotations

from skyrocket.client.consumer.rebalancing import change
from skyrocket.client.queues import Queue

A, B, C = (Queue("t", "broker-a", number) for number in range(3))


def test_what_is_no_longer_ours_is_lost_and_what_is_new_is_won():
    assert change([A, B], [B, C]) == ([A], [C])


def test_nothing_changes_when_all_is_as_it_was():
    assert change([A, B], [B, A]) == ([], [])


def test_all_may_come_and_all_may_go():
    assert change([], [A, B]) == ([], [A, B])
    lost, won = change([A, B], [])
    assert (set(lost), won) == ({A, B}, [])
