"""Looks at small clusters, for tests of the backlog's rules."""

from __future__ import annotations

from skyrocket.client.queues import Queue
from skyrocket.doctor.backlog.look import ClusterLook, GroupLook, MemberLook, QueueLook

NOW_MS = 1_800_000_000_000
HOUR_MS = 3_600_000


def queue(number: int = 0, topic: str = "orders") -> Queue:
    return Queue(topic, "broker-a", number)


def at(number: int, committed: int, end: int, *, first: int = 0, age_ms: int = 0, topic: str = "orders") -> QueueLook:
    return QueueLook(queue(number, topic), first, end, committed, NOW_MS - age_ms if age_ms else 0)


def member(name: str, *queues: int, tags: str = "*", cached: int = 0, at_offset: int = 0, error: str = "") -> MemberLook:
    held = frozenset(queue(number) for number in queues)
    subscriptions = {} if error else {"orders": tags, "%RETRY%coupons": "*"}
    positions = dict.fromkeys(held, at_offset)
    return MemberLook(
        name, subscriptions=subscriptions, queues=held, cached=dict.fromkeys(held, cached), positions=positions, error=error
    )


def cluster(at_ms: int, queues: list[QueueLook], *members: MemberLook, broadcasting: bool = False) -> ClusterLook:
    return ClusterLook(at_ms, [GroupLook("coupons", queues, members, broadcasting)], {"broker-a": 72 * HOUR_MS})
