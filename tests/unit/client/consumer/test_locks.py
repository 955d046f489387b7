"""The lock on one queue, as a client sees it."""

from __future__ import annotations

from skyrocket.client.consumer.locks import QueueLock


def test_lock_is_not_held_before_the_broker_grants_it():
    lock = QueueLock()
    assert not lock.is_held(0)


def test_lock_is_held_for_thirty_seconds_after_the_request():
    lock = QueueLock()
    lock.grant(1_000)
    assert lock.is_held(31_000)
    assert not lock.is_held(31_001)
    lock.grant(21_000)
    assert lock.is_held(51_000)


def test_responses_out_of_order_do_not_shorten_the_lock():
    lock = QueueLock()
    lock.grant(21_000)
    lock.grant(1_000)
    assert lock.is_held(51_000)


def test_revoke_ends_the_lock_and_returns_whether_it_was_held():
    lock = QueueLock()
    assert not lock.revoke()
    lock.grant(1_000)
    assert lock.revoke()
    assert not lock.is_held(1_000)
