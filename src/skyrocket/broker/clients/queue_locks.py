"""Lock and unlock queues for orderly consumers: 41 and 42."""

from __future__ import annotations

from skyrocket.broker.context import BrokerContext
from skyrocket.net.connection import Connection
from skyrocket.net.router import Router
from skyrocket.protocol.bodies import LockBatchRequestBody, LockBatchResponseBody, UnlockBatchRequestBody
from skyrocket.protocol.command import Command
from skyrocket.protocol.errors import BodyError
from skyrocket.protocol.fastjson.codec import decode_request, encode
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode


class QueueLockHandlers:
    def __init__(self, context: BrokerContext) -> None:
        self._locks = context.locks
        self._now_ms = context.now_ms

    def register(self, router: Router) -> None:
        router.add(RequestCode.LOCK_BATCH_MQ, self.lock)
        router.add(RequestCode.UNLOCK_BATCH_MQ, self.unlock)

    def lock(self, command: Command, _connection: Connection) -> Command:
        if not command.body:
            raise BodyError("A request to lock queues has no body.")
        wanted = decode_request(command.body, LockBatchRequestBody)
        locked = self._locks.lock(wanted.consumer_group, wanted.client_id, wanted.mq_set, self._now_ms())
        return command.response(ResponseCode.SUCCESS, body=encode(LockBatchResponseBody(lock_ok_mq_set=locked)))

    def unlock(self, command: Command, _connection: Connection) -> Command:
        if not command.body:
            raise BodyError("A request to unlock queues has no body.")
        wanted = decode_request(command.body, UnlockBatchRequestBody)
        self._locks.unlock(wanted.consumer_group, wanted.client_id, wanted.mq_set)
        return command.response(ResponseCode.SUCCESS)
