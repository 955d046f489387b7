"""How much a batch may take: both limits, and how they are shared among queues."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from skyrocket.client.queues import Queue
from skyrocket.spark.source.admission import Admission, everything, shared

A, B, C = (Queue("orders", "broker-a", queue_id) for queue_id in range(3))
DELAY_MS = 60_000

backlogs = st.dictionaries(
    st.builds(Queue, st.just("orders"), st.sampled_from(["a", "b"]), st.integers(0, 20)), st.integers(0, 10**12), max_size=12
)


def test_a_limit_is_shared_in_proportion_to_what_waits():
    assert shared({A: 600, B: 300, C: 100}, 100) == {A: 60, B: 30, C: 10}


def test_what_fits_the_limit_is_taken_whole():
    assert shared({A: 6, B: 3, C: 0}, 9) == {A: 6, B: 3}


def test_a_small_queue_is_not_starved_by_a_large_one():
    assert shared({A: 1_000_000, B: 1}, 10) == {A: 9, B: 1}


def test_with_more_queues_than_offsets_each_gets_one():
    assert shared({A: 5, B: 5, C: 5}, 2) == {A: 1, B: 1, C: 1}


@given(backlogs, st.integers(1, 10**12))
def test_a_share_is_used_to_the_last_and_never_exceeds_what_waits(backlog: dict[Queue, int], most: int):
    shares = shared(backlog, most)
    waiting = everything(backlog)
    assert shares.keys() == waiting.keys()
    assert all(1 <= shares[queue] <= waiting[queue] for queue in shares)
    assert sum(shares.values()) == min(sum(waiting.values()), max(most, len(waiting)))


@given(backlogs, st.integers(1, 10**12))
def test_a_larger_backlog_never_gets_less(backlog: dict[Queue, int], most: int):
    shares = shared(backlog, most)
    by_backlog = sorted(shares, key=lambda queue: backlog[queue])
    assert all(shares[less] <= shares[more] for less, more in pairwise(by_backlog))


@given(backlogs, st.integers(1, 10**6))
def test_shares_do_not_depend_on_the_order_in_which_queues_are_told(backlog: dict[Queue, int], most: int):
    assert shared(dict(reversed(backlog.items())), most) == shared(backlog, most)


def begun(**limits: int) -> Admission:
    admission = Admission(delay_ms_max=DELAY_MS, **limits)
    assert admission.admitted({A: 1}, 0) == {A: 1}, "the first batch of a query does not wait"
    return admission


def test_too_little_waits_until_there_is_enough():
    admission = begun(least=10)
    assert admission.admitted({A: 4, B: 5}, 1_000) == {}
    assert admission.admitted({A: 4, B: 6}, 2_000) == {A: 4, B: 6}


def test_too_little_waits_no_longer_than_the_delay():
    admission = begun(least=10)
    assert admission.admitted({A: 4}, 1_000) == {}
    assert admission.admitted({A: 5}, 1_000 + DELAY_MS - 1) == {}
    assert admission.admitted({A: 5}, 1_000 + DELAY_MS) == {A: 5}


def test_the_delay_counts_from_when_something_waits_and_not_through_idle_hours():
    admission = begun(least=10)
    assert admission.admitted({A: 0}, 10 * DELAY_MS) == {}
    assert admission.admitted({A: 1}, 20 * DELAY_MS) == {}, "one message after a quiet time waits for others, too"
    assert admission.admitted({A: 1}, 21 * DELAY_MS) == {A: 1}


def test_the_delay_begins_anew_with_each_batch():
    admission = begun(least=10)
    admission.admitted({A: 4}, 1_000)
    assert admission.admitted({A: 10}, 2_000) == {A: 10}
    assert admission.admitted({A: 4}, 1_000 + DELAY_MS) == {}


def test_both_limits_hold_together():
    admission = begun(least=10, most=20)
    assert admission.admitted({A: 9}, 1) == {}
    assert admission.admitted({A: 30, B: 10}, 2) == {A: 15, B: 5}


def test_without_limits_everything_is_taken():
    assert begun().admitted({A: 4, B: 0}, 5) == {A: 4}
