"""The pull policy: when a queue is pulled next."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from skyrocket.client.consumer.limits import ConsumerLimits
from skyrocket.client.consumer.locks import QueueLock
from skyrocket.client.consumer.process_queue import ProcessQueue
from skyrocket.client.consumer.pull.pull_policy import (
    PullAction,
    PullDecision,
    PullStatus,
    after_pull,
    before_pull,
    status_of,
)


class Message(NamedTuple):
    queue_offset: int
    size_bytes: int = 1


def queue(**options) -> ProcessQueue[Message]:
    return ProcessQueue(0, 0, **options)


def test_queue_with_room_is_pulled_at_once():
    assert before_pull(queue(), 0) == PullDecision(PullAction.PULL)


def test_dropped_queue_is_never_pulled_again():
    dropped = queue()
    dropped.drop()
    assert before_pull(dropped, 0, paused=True).action is PullAction.END


def test_paused_consumer_decides_again_after_one_second():
    assert before_pull(queue(), 0, paused=True)[:2] == (PullAction.WAIT, 1_000)


def test_full_queue_waits_and_names_the_reason():
    full = queue(limits=ConsumerLimits(cached_messages_max=1))
    full.add([Message(0), Message(1)], 2)
    assert before_pull(full, 0) == (PullAction.WAIT, 50, "too many messages are cached")
    full.finish(full.take(1, 0))
    assert before_pull(full, 0).action is PullAction.PULL


def test_orderly_queue_waits_for_its_lock():
    lock = QueueLock()
    orderly = queue(orderly=True, lock=lock)
    assert before_pull(orderly, 0)[:2] == (PullAction.WAIT, 3_000)
    lock.grant(0)
    assert before_pull(orderly, 0).action is PullAction.PULL
    assert before_pull(queue(orderly=True), 0).action is PullAction.PULL, "a broadcasting consumer needs no lock"


@pytest.mark.parametrize(
    ("code", "status", "action", "delay_ms"),
    [
        (0, PullStatus.FOUND, PullAction.PULL, 0),
        (19, PullStatus.NO_NEW_MESSAGES, PullAction.PULL, 0),
        (20, PullStatus.NO_MATCHED_MESSAGES, PullAction.PULL, 0),
        (21, PullStatus.OFFSET_ILLEGAL, PullAction.RESTART, 0),
        (215, PullStatus.BROKER_BUSY, PullAction.PULL, 20),
        (1, PullStatus.FAILED, PullAction.PULL, 3_000),
        (25, PullStatus.FAILED, PullAction.PULL, 3_000),
    ],
)
def test_response_code_decides_when_the_next_pull_starts(code: int, status: PullStatus, action: PullAction, delay_ms: int):
    assert status_of(code) is status
    assert after_pull(status, ConsumerLimits())[:2] == (action, delay_ms)


def test_interval_between_pulls_applies_only_after_messages_were_found():
    assert after_pull(PullStatus.FOUND, ConsumerLimits(between_pulls_ms=7)).delay_ms == 7
    assert after_pull(PullStatus.NO_NEW_MESSAGES, ConsumerLimits(between_pulls_ms=7)).delay_ms == 0
