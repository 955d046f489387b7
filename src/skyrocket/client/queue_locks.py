"""Locks on queues for orderly consumers: asked from the brokers that have them, many queues with one request."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from skyrocket.client.errors import ClientError
from skyrocket.client.queues import Queue
from skyrocket.client.session import Session
from skyrocket.protocol.bodies import LockBatchRequestBody, LockBatchResponseBody, UnlockBatchRequestBody
from skyrocket.protocol.fastjson import decode, encode
from skyrocket.protocol.headers import LockBatchMqRequestHeader, UnlockBatchMqRequestHeader
from skyrocket.protocol.requests import RequestCode

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
            answer = await self._session.ask_for(address, RequestCode.LOCK_BATCH_MQ, LockBatchMqRequestHeader(), encode(body))
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
            await self._session.ask_for(address, code, header, encode(body), timeout_ms=_UNLOCK_MS)
        except ClientError as error:
            log.info("%s was not told that %d queues are unlocked: %s", broker, len(queues), error)


def _by_broker(queues: Iterable[Queue]) -> dict[str, list[Queue]]:
    found: dict[str, list[Queue]] = {}
    for queue in queues:
        found.setdefault(queue.broker_name, []).append(queue)
    return found
