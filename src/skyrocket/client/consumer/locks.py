"""The lock of an orderly consumer on one queue: the broker gives it, and it is good only while it is asked for again.

    granted(asked_ms)     the broker says the queue is ours
    refused()             the broker says it is another's
    is_held(now_ms)       may a handler be started?
    is_due(now_ms)        is it time to ask again?

Time counts from the moment of asking, not of the answer: the broker's own clock for the lock cannot have begun earlier.

Locks on queues for orderly consumers: asked from the brokers that have them, many queues with one request.
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


class QueueLease:
    __slots__ = ("_limits", "_since_ms")

    def __init__(self, limits: ConsumerLimits | None = None) -> None:
        self._limits = limits or ConsumerLimits()
        self._since_ms: int | None = None

    def granted(self, asked_ms: int) -> None:
        if self._since_ms is None or asked_ms > self._since_ms:  # answers may come in another order than the questions
            self._since_ms = asked_ms

    def refused(self) -> bool:
        """Whether it was ours until now. Then another may consume what is cached here: give the queue up and begin anew."""
        was_held = self._since_ms is not None
        self._since_ms = None
        return was_held

    def is_held(self, now_ms: int) -> bool:
        return self._since_ms is not None and now_ms - self._since_ms <= self._limits.lock_expires_ms

    def is_due(self, now_ms: int) -> bool:
        return self._since_ms is None or now_ms - self._since_ms >= self._limits.lock_renew_ms


log = logging.getLogger(__name__)

_UNLOCK_MS = 1_000


class QueueLocks:
    def __init__(self, session: Session, group: str) -> None:
        self._session = session
        self._group = group

    async def lock(self, queues: Iterable[Queue]) -> tuple[set[Queue], set[Queue]]:
        """Those that are ours now, and those that are another's. Of the rest no broker has said anything."""
        locked: set[Queue] = set()
        refused: set[Queue] = set()
        by_broker = _by_broker(queues)
        answers = await asyncio.gather(*(self._lock(broker, some) for broker, some in by_broker.items()))
        for some, ours in zip(by_broker.values(), answers, strict=True):
            if ours is not None:
                locked |= ours
                refused |= set(some) - ours
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
        """What does not reach a broker ends there by itself."""
        await asyncio.gather(*(self._unlock(broker, some) for broker, some in _by_broker(queues).items()))

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
            log.info("%s was not told that %d queues are unlocked: %s", broker, len(queues), error)


def _by_broker(queues: Iterable[Queue]) -> dict[str, list[Queue]]:
    found: dict[str, list[Queue]] = {}
    for queue in queues:
        found.setdefault(queue.broker_name, []).append(queue)
    return found
