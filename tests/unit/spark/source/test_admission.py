"""How much a batch takes: both limits, and how they are divided among queues."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from skyrocket.client.queues import Queue
from skyrocket.spark.source.admission import Admission, divide_limit, whole_backlog

A, B, C = (Queue("orders", "broker-a", queue_id) for queue_id in range(3))
DELAY_MS = 60_000

backlogs = st.dictionaries(
    st.builds(Queue, st.just("orders"), st.sampled_from(["a", "b"]), st.integers(0, 20)), st.integers(0, 10**12), max_size=12
)


def test_limit_is_divided_in_proportion_to_backlogs():
    assert divide_limit({A: 600, B: 300, C: 100}, 100) == {A: 60, B: 30, C: 10}


def test_backlog_within_the_limit_is_taken_whole():
    assert divide_limit({A: 6, B: 3, C: 0}, 9) == {A: 6, B: 3}


def test_large_queue_does_not_starve_a_small_one():
    assert divide_limit({A: 1_000_000, B: 1}, 10) == {A: 9, B: 1}


def test_with_more_queues_than_offsets_each_gets_one():
    assert divide_limit({A: 5, B: 5, C: 5}, 2) == {A: 1, B: 1, C: 1}


@given(backlogs, st.integers(1, 10**12))
def test_limit_is_used_up_and_no_share_exceeds_its_backlog(backlog: dict[Queue, int], most: int):
    shares = divide_limit(backlog, most)
    waiting = whole_backlog(backlog)
    assert shares.keys() == waiting.keys()
    assert all(1 <= shares[queue] <= waiting[queue] for queue in shares)
    assert sum(shares.values()) == min(sum(waiting.values()), max(most, len(waiting)))


@given(backlogs, st.integers(1, 10**12))
def test_larger_backlog_never_gets_less(backlog: dict[Queue, int], most: int):
    shares = divide_limit(backlog, most)
    by_backlog = sorted(shares, key=lambda queue: backlog[queue])
    assert all(shares[less] <= shares[more] for less, more in pairwise(by_backlog))


@given(backlogs, st.integers(1, 10**6))
def test_shares_do_not_depend_on_the_order_of_queues(backlog: dict[Queue, int], most: int):
    assert divide_limit(dict(reversed(backlog.items())), most) == divide_limit(backlog, most)


def begun(**limits: int) -> Admission:
    admission = Admission(delay_ms_max=DELAY_MS, **limits)
    assert admission.admit({A: 1}, 0) == {A: 1}, "the first batch of a query does not wait"
    return admission


def test_batch_waits_for_the_minimum():
    admission = begun(least=10)
    assert admission.admit({A: 4, B: 5}, 1_000) == {}
    assert admission.admit({A: 4, B: 6}, 2_000) == {A: 4, B: 6}


def test_batch_waits_no_longer_than_the_delay():
    admission = begun(least=10)
    assert admission.admit({A: 4}, 1_000) == {}
    assert admission.admit({A: 5}, 1_000 + DELAY_MS - 1) == {}
    assert admission.admit({A: 5}, 1_000 + DELAY_MS) == {A: 5}


def test_delay_starts_with_the_first_waiting_message():
    admission = begun(least=10)
    assert admission.admit({A: 0}, 10 * DELAY_MS) == {}
    assert admission.admit({A: 1}, 20 * DELAY_MS) == {}, "a message after an idle time waits for others, too"
    assert admission.admit({A: 1}, 21 * DELAY_MS) == {A: 1}


def test_delay_starts_again_with_each_batch():
    admission = begun(least=10)
    admission.admit({A: 4}, 1_000)
    assert admission.admit({A: 10}, 2_000) == {A: 10}
    assert admission.admit({A: 4}, 1_000 + DELAY_MS) == {}


def test_both_limits_apply_together():
    admission = begun(least=10, most=20)
    assert admission.admit({A: 9}, 1) == {}
    assert admission.admit({A: 30, B: 10}, 2) == {A: 15, B: 5}


def test_without_limits_the_whole_backlog_is_taken():
    assert begun().admit({A: 4, B: 0}, 5) == {A: 4}
