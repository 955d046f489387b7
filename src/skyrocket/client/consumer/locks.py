"""Queue locks of orderly consumers.

Only the member of a group that holds the broker's lock on a queue may consume the queue in order. A broker keeps a lock for 60 s,
a client trusts it for 30 s and renews it every 20 s.

    QueueLock             the lock on one queue, as this client sees it; pure, the caller passes the time
        grant(…)          the broker granted or renewed the lock
        revoke()          the broker refused it: another client holds the lock
        is_held(now_ms)   may a handler start?
    LockRequests          locks and unlocks queues at the brokers, one request for all queues of a broker

The time of a lock counts from the request, not from the response: the broker's own time for the lock cannot start earlier.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from skyrocket.client.consumer.limits import ConsumerLimits
from skyrocket.client.errors import ClientError
from skyrocket.client.queues import Queue
from skyrocket.client.session.session import Session
from skyrocket.protocol.bodies import LockBatchRequestBody, LockBatchResponseBody, UnlockBatchRequestBody
from skyrocket.protocol.fastjson.codec import decode, encode
from skyrocket.protocol.headers import LockBatchMqRequestHeader, UnlockBatchMqRequestHeader
from skyrocket.protocol.requests import RequestCode

log = logging.getLogger(__name__)

_UNLOCK_MS = 1_000


class QueueLock:
    """The lock on one queue, as this client sees it."""

    __slots__ = ("_limits", "_requested_ms")

    def __init__(self, limits: ConsumerLimits | None = None) -> None:
        self._limits = limits or ConsumerLimits()
        self._requested_ms: int | None = None

    def grant(self, requested_ms: int) -> None:
        """Note that the broker granted a request that was sent at `requested_ms`."""
        if self._requested_ms is None or requested_ms > self._requested_ms:  # responses may arrive out of order
            self._requested_ms = requested_ms

    def revoke(self) -> bool:
        """Note that another client holds the lock. Returns whether this client held it before.

        If it did, the other client may already consume the messages that are cached here: drop the queue.
        """
        was_held = self._requested_ms is not None
        self._requested_ms = None
        return was_held

    def is_held(self, now_ms: int) -> bool:
        return self._requested_ms is not None and now_ms - self._requested_ms <= self._limits.lock_expires_ms


class LockRequests:
    """Locks and unlocks queues of one group at the brokers."""

    def __init__(self, session: Session, group: str) -> None:
        self._session = session
        self._group = group

    async def lock(self, queues: Iterable[Queue]) -> tuple[set[Queue], set[Queue]]:
        """Lock queues. Returns the queues that are locked now, and those that another client holds.

        A queue whose broker did not answer is in neither set.
        """
        locked: set[Queue] = set()
        refused: set[Queue] = set()
        by_broker = _group_by_broker(queues)
        responses = await asyncio.gather(*(self._lock(broker, some) for broker, some in by_broker.items()))
        for requested, granted in zip(by_broker.values(), responses, strict=True):
            if granted is not None:
                locked |= granted
                refused |= set(requested) - granted
        return locked, refused

    async def _lock(self, broker: str, queues: list[Queue]) -> set[Queue] | None:
        address = self._session.routes.address(broker)
        if address is None:
            return None
        body = LockBatchRequestBody(
            consumer_group=self._group, client_id=self._session.client_id, mq_set=[queue.as_body() for queue in queues]
        )
        try:
            answer = await self._session.request_ok(address, RequestCode.LOCK_BATCH_MQ, LockBatchMqRequestHeader(), encode(body))
        except ClientError as error:
            log.warning("%d queues could not be locked at %s: %s", len(queues), broker, error)
            return None
        return {Queue.of(queue) for queue in decode(answer.body, LockBatchResponseBody).lock_ok_mq_set}

    async def unlock(self, queues: Iterable[Queue]) -> None:
        """Unlock queues. A lock whose broker cannot be reached expires at the broker after 60 s."""
        await asyncio.gather(*(self._unlock(broker, some) for broker, some in _group_by_broker(queues).items()))

    async def _unlock(self, broker: str, queues: list[Queue]) -> None:
        address = self._session.routes.address(broker)
        if address is None:
            return
        body = UnlockBatchRequestBody(
            consumer_group=self._group, client_id=self._session.client_id, mq_set=[queue.as_body() for queue in queues]
        )
        code, header = RequestCode.UNLOCK_BATCH_MQ, UnlockBatchMqRequestHeader()
        try:
            await self._session.request_ok(address, code, header, encode(body), timeout_ms=_UNLOCK_MS)
        except ClientError as error:
            log.info("%d queues could not be unlocked at %s; their locks expire there: %s", len(queues), broker, error)


def _group_by_broker(queues: Iterable[Queue]) -> dict[str, list[Queue]]:
    by_broker: dict[str, list[Queue]] = {}
    for queue in queues:
        by_broker.setdefault(queue.broker_name, []).append(queue)
    return by_broker
