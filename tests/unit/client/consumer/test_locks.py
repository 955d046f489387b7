from __future__ import annotations

from skyrocket.client.consumer.locks import QueueLease


def test_a_queue_is_not_ours_before_the_broker_says_so():
    lease = QueueLease()
    assert not lease.is_held(0)
    assert lease.is_due(0)


def test_a_lock_holds_for_thirty_seconds_from_the_asking_and_is_renewed_after_twenty():
    lease = QueueLease()
    lease.granted(1_000)
    assert lease.is_held(31_000)
    assert not lease.is_held(31_001)
    assert not lease.is_due(20_999)
    assert lease.is_due(21_000)
    lease.granted(21_000)
    assert lease.is_held(51_000)


def test_answers_that_overtake_each_other_do_not_shorten_it():
    lease = QueueLease()
    lease.granted(21_000)
    lease.granted(1_000)
    assert lease.is_held(51_000)


def test_a_refusal_ends_it_and_tells_whether_it_was_ours():
    lease = QueueLease()
    assert not lease.refused()
    lease.granted(1_000)
    assert lease.refused()
    assert not lease.is_held(1_000)
