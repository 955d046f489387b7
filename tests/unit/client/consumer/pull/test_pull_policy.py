"""When a queue is pulled next."""

from __future__ import annotations

import pytest

from skyrocket.client.consumer.limits import ConsumerLimits
from skyrocket.client.consumer.locks import QueueLease
from skyrocket.client.consumer.process_queue import ConsumerQueue
from skyrocket.client.consumer.pull.pull_policy import Decision, Outcome, Step, after_pull, before_pull, outcome_of


def queue(**options) -> ConsumerQueue[int]:
    return ConsumerQueue(0, 0, offset_of=int, size_of=lambda message: 1, **options)


def test_a_queue_with_room_is_pulled_at_once():
    assert before_pull(queue(), 0) == Decision(Step.PULL)


def test_a_queue_that_was_dropped_is_never_pulled_again():
    dropped = queue()
    dropped.drop()
    assert before_pull(dropped, 0, paused=True).step is Step.GIVE_UP


def test_a_paused_consumer_looks_again_in_a_second():
    assert before_pull(queue(), 0, paused=True)[:2] == (Step.WAIT, 1_000)


def test_a_full_queue_waits_a_moment_and_says_why():
    full = queue(limits=ConsumerLimits(cached_messages_max=1))
    full.took([0, 1], 2)
    assert before_pull(full, 0) == (Step.WAIT, 50, "it has as many messages as it may hold")
    full.finish(full.take(1, 0))
    assert before_pull(full, 0).step is Step.PULL


def test_an_orderly_queue_waits_for_its_lock():
    lease = QueueLease()
    orderly = queue(orderly=True, lease=lease)
    assert before_pull(orderly, 0)[:2] == (Step.WAIT, 3_000)
    lease.granted(0)
    assert before_pull(orderly, 0).step is Step.PULL
    assert before_pull(queue(orderly=True), 0).step is Step.PULL, "a broadcasting consumer needs no lock"


@pytest.mark.parametrize(
    ("code", "outcome", "step", "delay_ms"),
    [
        (0, Outcome.FOUND, Step.PULL, 0),
        (19, Outcome.NOTHING_NEW, Step.PULL, 0),
        (20, Outcome.NOTHING_MATCHED, Step.PULL, 0),
        (21, Outcome.OFFSET_ILLEGAL, Step.BEGIN_ANEW, 0),
        (215, Outcome.BROKER_BUSY, Step.PULL, 20),
        (1, Outcome.FAILED, Step.PULL, 3_000),
        (25, Outcome.FAILED, Step.PULL, 3_000),
    ],
)
def test_how_a_pull_ended_says_when_the_next_begins(code: int, outcome: Outcome, step: Step, delay_ms: int):
    assert outcome_of(code) is outcome
    assert after_pull(outcome, ConsumerLimits())[:2] == (step, delay_ms)


def test_an_interval_between_pulls_counts_when_something_was_found():
    assert after_pull(Outcome.FOUND, ConsumerLimits(between_pulls_ms=7)).delay_ms == 7
    assert after_pull(Outcome.NOTHING_NEW, ConsumerLimits(between_pulls_ms=7)).delay_ms == 0
