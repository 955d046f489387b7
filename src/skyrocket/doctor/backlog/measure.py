"""Rates, time to drain and skew: what two looks at a cluster say together. Pure.

produced = growth of the queue's end / time between the looks        consumed = growth of the committed offset / time
time to drain = lag / (consumed - produced), if that is positive     skew = longest queue's lag / mean lag of the queues
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from skyrocket.client.queues import Queue
from skyrocket.doctor.backlog.look import ClusterLook, GroupLook, MemberLook, QueueLook
from skyrocket.protocol.system_names import RETRY_PREFIX

KEEPS_UP_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class QueueBacklog:
    """A queue at the second look, with what happened since the first. Rates are None after a single look."""

    look: QueueLook
    produced_per_s: float | None
    consumed_per_s: float | None
    waiting_ms: int | None  # age of the oldest unread message
    owner: str  # client id of the member that reads it; empty: none, or unknown
    has_moved: bool = False  # the group, or the member by its own account, finished messages between the looks
    has_waited: bool = False  # messages waited at both looks

    @property
    def queue(self) -> Queue:
        return self.look.queue

    @property
    def lag(self) -> int:
        return self.look.lag

    @property
    def is_standing(self) -> bool:
        """Whether messages waited all the time between the looks, and none was finished."""
        return self.has_waited and not self.has_moved


@dataclass(frozen=True, slots=True)
class TopicBacklog:
    """A group's backlog in one topic."""

    group: str
    topic: str
    queues: Sequence[QueueBacklog]

    @property
    def lag(self) -> int:
        return sum(queue.lag for queue in self.queues)

    @property
    def expired(self) -> int:
        return sum(queue.look.expired for queue in self.queues)

    @property
    def produced_per_s(self) -> float | None:
        return _total([queue.produced_per_s for queue in self.queues])

    @property
    def consumed_per_s(self) -> float | None:
        return _total([queue.consumed_per_s for queue in self.queues])

    @property
    def waiting_ms(self) -> int | None:
        return max((queue.waiting_ms for queue in self.queues if queue.waiting_ms is not None), default=None)

    @property
    def drain_ms(self) -> float | None:
        """Until nothing waits, if both rates stay. None: it never drains at these rates, or they are unknown."""
        return drain_ms(self.lag, self.produced_per_s, self.consumed_per_s)

    @property
    def skew(self) -> float:
        """How many times the mean the longest queue has; 1 for queues of one length, or without lag."""
        return max(queue.lag for queue in self.queues) * len(self.queues) / self.lag if self.lag else 1.0

    @property
    def keeps_up(self) -> bool:
        """Whether what waits is less than the group consumes in a second: messages under way, and no backlog."""
        return not self.lag or (self.consumed_per_s is not None and self.lag <= self.consumed_per_s * KEEPS_UP_S)

    @property
    def is_retry(self) -> bool:
        return self.topic.startswith(RETRY_PREFIX)


@dataclass(frozen=True, slots=True)
class GroupBacklog:
    """A group at the second look."""

    group: str
    topics: Sequence[TopicBacklog]
    members: Sequence[MemberLook]
    is_broadcasting: bool
    between_ms: int  # time between the looks; 0: there was one

    @property
    def lag(self) -> int:
        return sum(topic.lag for topic in self.topics)


def drain_ms(lag: int, produced_per_s: float | None, consumed_per_s: float | None) -> float | None:
    """Return how long the lag lasts at these rates. None: for ever, or unknown."""
    if not lag:
        return 0.0
    if produced_per_s is None or consumed_per_s is None or consumed_per_s <= produced_per_s:
        return None
    return 1000 * lag / (consumed_per_s - produced_per_s)


def measure(before: ClusterLook | None, now: ClusterLook) -> list[GroupBacklog]:
    """Compare two looks at the same cluster. Without a first one, nothing is known about rates."""
    earlier = {} if before is None else {one.group: one for one in before.groups}
    between_ms = 0 if before is None else now.at_ms - before.at_ms
    return [_measure_group(earlier.get(one.group), one, now.at_ms, between_ms) for one in now.groups]


def _measure_group(before: GroupLook | None, now: GroupLook, at_ms: int, between_ms: int) -> GroupBacklog:
    earlier = {} if before is None else {one.queue: one for one in before.queues}
    moved = set() if before is None else _moved_queues(before, now)
    owners = {queue: member.client_id for member in now.members for queue in member.queues}
    queues = [
        QueueBacklog(
            look=one,
            produced_per_s=_rate(earlier.get(one.queue), one, "end_offset", between_ms),
            consumed_per_s=_rate(earlier.get(one.queue), one, "committed_offset", between_ms),
            waiting_ms=max(0, at_ms - one.oldest_unread_ms) if one.lag and one.oldest_unread_ms else None,
            owner=owners.get(one.queue, ""),
            has_moved=one.queue in moved,
            has_waited=one.queue in earlier and earlier[one.queue].lag > 0 and one.lag > 0,
        )
        for one in sorted(now.queues, key=lambda one: one.queue)
    ]
    topics = [TopicBacklog(now.group, topic, tuple(found)) for topic, found in groupby(queues, key=lambda one: one.queue.topic)]
    return GroupBacklog(now.group, topics, now.members, now.is_broadcasting, between_ms)


def _moved_queues(before: GroupLook, now: GroupLook) -> set[Queue]:
    """Return the queues with messages that were finished between the looks, by what brokers know or by what members say."""
    committed = {one.queue: one.committed_offset for one in before.queues}
    moved = {one.queue for one in now.queues if committed.get(one.queue, one.committed_offset) != one.committed_offset}
    earlier = {member.client_id: member.positions for member in before.members}
    for member in now.members:
        known = earlier.get(member.client_id, {})
        moved |= {queue for queue, offset in member.positions.items() if known.get(queue, offset) != offset}
    return moved


def _rate(before: QueueLook | None, now: QueueLook, offset: str, between_ms: int) -> float | None:
    """Return how fast an offset grew. An offset that was reset to an earlier one has no rate."""
    if before is None or between_ms <= 0:
        return None
    grown = getattr(now, offset) - getattr(before, offset)
    return 1000 * grown / between_ms if grown >= 0 else None


def _total(rates: Sequence[float | None]) -> float | None:
    known = [rate for rate in rates if rate is not None]
    return sum(known) if known else None
