"""Requests that brokers send to a consumer: rebalance, reset offsets, report its state, consume a message.

Responses equal those of Apache's client, so that its admin tools show Python members as they show Java members.
"""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from skyrocket.client.consumer.assigned_queue import AssignedQueue
from skyrocket.client.consumer.handlers import Verdict
from skyrocket.client.queues import Queue
from skyrocket.client.received import Received
from skyrocket.client.session.namespaces import without_namespace
from skyrocket.net.connection import Connection
from skyrocket.net.router import Answer, Handler, RefusedError
from skyrocket.protocol.bodies import (
    CMResult,
    ConsumeMessageDirectlyResult,
    ConsumerRunningInfo,
    ConsumeStatus,
    ConsumeType,
    GetConsumerStatusBody,
    MessageModel,
    ProcessQueueInfo,
    ResetOffsetBody,
)
from skyrocket.protocol.command import Command
from skyrocket.protocol.fastjson.codec import decode, encode
from skyrocket.protocol.headers import (
    ConsumeMessageDirectlyResultRequestHeader,
    GetConsumerRunningInfoRequestHeader,
    GetConsumerStatusRequestHeader,
)
from skyrocket.protocol.message.properties import RETRY_TOPIC
from skyrocket.protocol.message.record import decode_record
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode

if TYPE_CHECKING:
    from skyrocket.client.consumer.engine import ConsumerEngine

_RESULTS: Final = {
    Verdict.DONE: CMResult.CR_SUCCESS,
    Verdict.LATER: CMResult.CR_LATER,
    Verdict.COMMIT: CMResult.CR_COMMIT,
    Verdict.ROLLBACK: CMResult.CR_ROLLBACK,
}
_MIB = 1024 * 1024
_VERSION = "V5_5_0"  # Apache's name of the version whose behaviour this client follows


class ConsumerRequestHandlers:
    """Handles the requests that brokers send to one consumer."""

    def __init__(self, engine: ConsumerEngine) -> None:
        self._engine = engine
        self._started_ms = time.time_ns() // 1_000_000

    def handlers(self) -> Mapping[int, Handler]:
        """Return request code -> handler."""
        return {
            RequestCode.NOTIFY_CONSUMER_IDS_CHANGED: self._rebalance,
            RequestCode.RESET_CONSUMER_CLIENT_OFFSET: self._reset_offsets,
            RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT: self._report_offsets,
            RequestCode.GET_CONSUMER_RUNNING_INFO: self._report_running_info,
            RequestCode.CONSUME_MESSAGE_DIRECTLY: self._consume_directly,
        }

    def _rebalance(self, _command: Command, _connection: Connection) -> Answer:
        self._engine.rebalance_soon()
        return None

    async def _reset_offsets(self, command: Command, _connection: Connection) -> Answer:
        """Reset offsets. The request is oneway: there is no response."""
        body = decode(command.body, ResetOffsetBody)
        await self._engine.reset_offsets({Queue.of(queue): offset for queue, offset in body.offset_table.items()})
        return None

    def _report_offsets(self, command: Command, _connection: Connection) -> Answer:
        topic = command.header(GetConsumerStatusRequestHeader).topic
        offsets = {
            queue.as_body(): assigned.process_queue.commit_offset
            for queue, assigned in self._engine.assigned.by_queue.items()
            if queue.topic == topic
        }
        return command.response(ResponseCode.SUCCESS, body=encode(GetConsumerStatusBody(message_queue_table=offsets)))

    def _report_running_info(self, command: Command, _connection: Connection) -> Answer:
        engine, settings = self._engine, self._engine.settings
        info = ConsumerRunningInfo(
            properties={
                "PROP_NAMESERVER_ADDR": ";".join(engine.session.options.nameservers),
                "PROP_CONSUME_TYPE": ConsumeType.CONSUME_PASSIVELY.value,
                "PROP_CLIENT_VERSION": _VERSION,
                "PROP_THREADPOOL_CORE_SIZE": str(settings.concurrency),
                "PROP_CONSUMEORDERLY": "true" if settings.orderly else "false",
                "PROP_CONSUMER_START_TIMESTAMP": str(self._started_ms),
                "messageModel": (MessageModel.BROADCASTING if settings.broadcasting else MessageModel.CLUSTERING).value,
            },
            subscription_set=[subscription.as_body() for subscription in engine.subscriptions.values()],
            mq_table={queue.as_body(): _process_queue_info(assigned) for queue, assigned in engine.assigned.by_queue.items()},
            status_table={topic: ConsumeStatus() for topic in engine.subscriptions},
        )
        if command.header(GetConsumerRunningInfoRequestHeader).jstack_enable:
            info.jstack = _format_stacks()
        return command.response(ResponseCode.SUCCESS, body=encode(info))

    async def _consume_directly(self, command: Command, _connection: Connection) -> Answer:
        engine, header = self._engine, command.header(ConsumeMessageDirectlyResultRequestHeader)
        if engine.runner is None:
            raise RefusedError(ResponseCode.SYSTEM_ERROR, "This consumer has no handlers: it reads messages in a loop.")
        message = Received(decode_record(command.body), broker_name=header.broker_name or "")
        namespace = engine.session.options.namespace
        message.topic = without_namespace(namespace, message.properties.get(RETRY_TOPIC, message.record.topic))
        started = time.monotonic()
        verdict, error = await engine.runner.run_directly(message)
        failed = CMResult.CR_RETURN_NULL if error is None else CMResult.CR_THROW_EXCEPTION
        result = ConsumeMessageDirectlyResult(
            order=engine.settings.orderly,
            auto_commit=engine.settings.auto_commit,
            consume_result=failed if verdict is None else _RESULTS[verdict],
            remark=None if error is None else repr(error),
            spent_time_mills=int((time.monotonic() - started) * 1000),
        )
        return command.response(ResponseCode.SUCCESS, body=encode(result))


def _process_queue_info(assigned: AssignedQueue) -> ProcessQueueInfo:
    process_queue = assigned.process_queue
    return ProcessQueueInfo(
        commit_offset=process_queue.commit_offset,
        cached_msg_min_offset=process_queue.commit_offset if process_queue.cached_messages else 0,
        cached_msg_max_offset=process_queue.commit_offset + process_queue.span if process_queue.cached_messages else 0,
        cached_msg_count=process_queue.cached_messages,
        cached_msg_size_in_mib=process_queue.cached_bytes // _MIB,
        locked=process_queue.lock is not None,
        dropped=process_queue.dropped,
        last_pull_timestamp=time.time_ns() // 1_000_000,
        last_consume_timestamp=time.time_ns() // 1_000_000,
    )


def _format_stacks() -> str:
    """Format the stacks of all threads, for what Apache's tools call jstack."""
    parts = []
    for thread, frame in sys._current_frames().items():
        parts.append(f"thread {thread}\n" + "".join(traceback.format_stack(frame)))
    return "\n".join(parts)
