"""Locks on queues for orderly consumers: 41 and 42."""

from __future__ import annotations

from collections.abc import Callable

from skyrocket.broker.tables.queue_locks import QueueLocks
from skyrocket.net.connection import Connection
from skyrocket.net.router import Router
from skyrocket.protocol.bodies import LockBatchRequestBody, LockBatchResponseBody, UnlockBatchRequestBody
from skyrocket.protocol.command import Command
from skyrocket.protocol.errors import BodyError
from skyrocket.protocol.fastjson.codec import decode, encode
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode


class LockHandlers:
    def __init__(self, locks: QueueLocks, now_ms: Callable[[], int]) -> None:
        self._locks = locks
        self._now_ms = now_ms

    def register(self, router: Router) -> None:
        router.add(RequestCode.LOCK_BATCH_MQ, self.lock)
        router.add(RequestCode.UNLOCK_BATCH_MQ, self.unlock)

    def lock(self, command: Command, _connection: Connection) -> Command:
        if not command.body:
            raise BodyError("A request to lock queues has no body.")
        wanted = decode(command.body, LockBatchRequestBody)
        locked = self._locks.lock(wanted.consumer_group, wanted.client_id, wanted.mq_set, self._now_ms())
        return command.response(ResponseCode.SUCCESS, body=encode(LockBatchResponseBody(lock_ok_mq_set=locked)))

    def unlock(self, command: Command, _connection: Connection) -> Command:
        if not command.body:
            raise BodyError("A request to unlock queues has no body.")
        wanted = decode(command.body, UnlockBatchRequestBody)
        self._locks.unlock(wanted.consumer_group, wanted.client_id, wanted.mq_set)
        return command.response(ResponseCode.SUCCESS)
