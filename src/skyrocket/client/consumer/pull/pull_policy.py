"""When to pull a queue: the decision before each pull and after its result. Pure; the delays stand in one table.

    before_pull(queue, …)     may the queue be pulled now?
    after_pull(status, …)     when is the next pull?

The delays are those of Apache's client and come from `ConsumerLimits`.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Any, Final, NamedTuple

from skyrocket.client.consumer.limits import ConsumerLimits
from skyrocket.client.consumer.process_queue import ProcessQueue
from skyrocket.protocol.responses import ResponseCode


class PullAction(Enum):
    """What the pull loop does next."""

    PULL = auto()  # after the delay
    WAIT = auto()  # decide again after the delay
    END = auto()  # the queue was dropped: end the loop
    RESTART = auto()  # drop what is cached and start again at the offset that the broker named


class PullStatus(Enum):
    """The result of a pull."""

    FOUND = auto()
    NO_NEW_MESSAGES = auto()  # the broker held the pull until its time was over
    NO_MATCHED_MESSAGES = auto()  # there were messages, with other tags
    SLAVE_BEHIND = auto()  # a slave does not have the offset: its master may have it
    OFFSET_ILLEGAL = auto()  # the broker does not have the offset, and names another
    BROKER_BUSY = auto()  # the broker refused for flow control
    FAILED = auto()  # any other response, or none


class PullDecision(NamedTuple):
    """What the pull loop does next, after which delay, and why."""

    action: PullAction
    delay_ms: int = 0
    reason: str = ""


_PULL_NOW: Final = PullDecision(PullAction.PULL)

_STATUSES: Final[dict[int, PullStatus]] = {
    ResponseCode.SUCCESS: PullStatus.FOUND,
    ResponseCode.PULL_NOT_FOUND: PullStatus.NO_NEW_MESSAGES,
    ResponseCode.PULL_RETRY_IMMEDIATELY: PullStatus.NO_MATCHED_MESSAGES,
    ResponseCode.PULL_OFFSET_MOVED: PullStatus.OFFSET_ILLEGAL,
    ResponseCode.FLOW_CONTROL: PullStatus.BROKER_BUSY,
}

# Status -> the next action, and the field of ConsumerLimits that holds its delay.
_AFTER_PULL: Final[dict[PullStatus, tuple[PullAction, str | None]]] = {
    PullStatus.FOUND: (PullAction.PULL, "between_pulls_ms"),
    PullStatus.NO_NEW_MESSAGES: (PullAction.PULL, None),
    PullStatus.NO_MATCHED_MESSAGES: (PullAction.PULL, None),
    PullStatus.SLAVE_BEHIND: (PullAction.PULL, "when_slave_behind_ms"),
    PullStatus.OFFSET_ILLEGAL: (PullAction.RESTART, None),
    PullStatus.BROKER_BUSY: (PullAction.PULL, "when_broker_busy_ms"),
    PullStatus.FAILED: (PullAction.PULL, "after_failure_ms"),
}


def status_of(code: int) -> PullStatus:
    """Convert the response code of a pull."""
    return _STATUSES.get(code, PullStatus.FAILED)


def before_pull(queue: ProcessQueue[Any], now_ms: int, *, paused: bool = False) -> PullDecision:
    """Decide whether to pull a queue now."""
    limits = queue.limits
    if queue.dropped:
        return PullDecision(PullAction.END, 0, "the queue is no longer assigned to this consumer")
    if paused:
        return PullDecision(PullAction.WAIT, limits.when_paused_ms, "the consumer is paused")
    reached = queue.reached_limit()
    if reached is not None:
        return PullDecision(PullAction.WAIT, limits.when_full_ms, reached.value)
    if queue.lock is not None and not queue.lock.is_held(now_ms):
        return PullDecision(PullAction.WAIT, limits.when_not_locked_ms, "this consumer does not hold the lock on the queue")
    return _PULL_NOW


def after_pull(status: PullStatus, limits: ConsumerLimits) -> PullDecision:
    """Decide when to pull again."""
    action, delay = _AFTER_PULL[status]
    return PullDecision(action, getattr(limits, delay) if delay else 0)
