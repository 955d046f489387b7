"""When a queue is pulled next: what is known of it, or how its last pull ended, makes a decision; the delays stand in one table.

    before_pull(queue, …)     may it be pulled now?
    after_pull(outcome, …)    and when again?

The figures are those of Apache's client, and come from `ConsumerLimits`.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Any, Final, NamedTuple

from skyrocket.client.consumer.limits import ConsumerLimits
from skyrocket.client.consumer.process_queue import ConsumerQueue
from skyrocket.protocol.responses import ResponseCode


class Step(Enum):
    PULL = auto()  # now, or when the delay is over
    WAIT = auto()  # ask again when the delay is over
    GIVE_UP = auto()  # never again: the queue is another's
    BEGIN_ANEW = auto()  # drop the queue, commit the offset that the broker named, and rebalance


class Outcome(Enum):
    """How a pull ended."""

    FOUND = auto()
    NOTHING_NEW = auto()  # the broker held it until its time was over
    NOTHING_MATCHED = auto()  # there were messages, with other tags
    OFFSET_ILLEGAL = auto()  # the broker has no such offset, and says which
    BROKER_BUSY = auto()  # it refused, to protect itself
    FAILED = auto()  # any other answer, or none


class Decision(NamedTuple):
    step: Step
    delay_ms: int = 0
    reason: str = ""


_PULL: Final = Decision(Step.PULL)

_OUTCOMES: Final[dict[int, Outcome]] = {
    ResponseCode.SUCCESS: Outcome.FOUND,
    ResponseCode.PULL_NOT_FOUND: Outcome.NOTHING_NEW,
    ResponseCode.PULL_RETRY_IMMEDIATELY: Outcome.NOTHING_MATCHED,
    ResponseCode.PULL_OFFSET_MOVED: Outcome.OFFSET_ILLEGAL,
    ResponseCode.FLOW_CONTROL: Outcome.BROKER_BUSY,
}

# How it ended -> what next, and after which of the limits' delays.
_AFTER: Final[dict[Outcome, tuple[Step, str | None]]] = {
    Outcome.FOUND: (Step.PULL, "between_pulls_ms"),
    Outcome.NOTHING_NEW: (Step.PULL, None),
    Outcome.NOTHING_MATCHED: (Step.PULL, None),
    Outcome.OFFSET_ILLEGAL: (Step.BEGIN_ANEW, None),
    Outcome.BROKER_BUSY: (Step.PULL, "when_broker_busy_ms"),
    Outcome.FAILED: (Step.PULL, "after_failure_ms"),
}


def outcome_of(code: int) -> Outcome:
    """From a pull's response code."""
    return _OUTCOMES.get(code, Outcome.FAILED)


def before_pull(queue: ConsumerQueue[Any], now_ms: int, *, paused: bool = False) -> Decision:
    limits = queue.limits
    if queue.dropped:
        return Decision(Step.GIVE_UP, 0, "it is no longer ours")
    if paused:
        return Decision(Step.WAIT, limits.when_paused_ms, "the consumer is paused")
    full = queue.full()
    if full is not None:
        return Decision(Step.WAIT, limits.when_full_ms, full.value)
    if queue.lease is not None and not queue.lease.is_held(now_ms):
        return Decision(Step.WAIT, limits.when_not_locked_ms, "its broker has not locked it for us")
    return _PULL


def after_pull(outcome: Outcome, limits: ConsumerLimits) -> Decision:
    step, delay = _AFTER[outcome]
    return Decision(step, getattr(limits, delay) if delay else 0)
