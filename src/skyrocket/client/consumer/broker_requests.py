"""What brokers ask a consumer: to look again who its group is, to go on elsewhere, what it is doing, and to handle a message.

One row for each question. Answers are as Apache's client gives them, so that its tools show our members as they show its own.
"""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from skyrocket.client.consumer.assigned_queue import HeldQueue
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
    from skyrocket.client.consumer.engine import Consuming

_RESULTS: Final = {
    Verdict.DONE: CMResult.CR_SUCCESS,
    Verdict.LATER: CMResult.CR_LATER,
    Verdict.COMMIT: CMResult.CR_COMMIT,
    Verdict.ROLLBACK: CMResult.CR_ROLLBACK,
}
_MIB = 1024 * 1024
_VERSION = "V5_5_0"  # Apache's name of the version whose behaviour this project follows


class ConsumerAnswers:
    def __init__(self, consuming: Consuming) -> None:
        self._consuming = consuming
        self._started_ms = time.time_ns() // 1_000_000

    def handlers(self) -> Mapping[int, Handler]:
        return {
            RequestCode.NOTIFY_CONSUMER_IDS_CHANGED: self._members_changed,
            RequestCode.RESET_CONSUMER_CLIENT_OFFSET: self._reset,
            RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT: self._status,
            RequestCode.GET_CONSUMER_RUNNING_INFO: self._running_info,
            RequestCode.CONSUME_MESSAGE_DIRECTLY: self._consume_directly,
        }

    def _members_changed(self, _command: Command, _connection: Connection) -> Answer:
        self._consuming.rebalance_soon()
        return None

    async def _reset(self, command: Command, _connection: Connection) -> Answer:
        """Oneway."""
        body = decode(command.body, ResetOffsetBody)
        await self._consuming.reset({Queue.of(queue): offset for queue, offset in body.offset_table.items()})
        return None

    def _status(self, command: Command, _connection: Connection) -> Answer:
        topic = command.header(GetConsumerStatusRequestHeader).topic
        offsets = {
            queue.as_body(): held.state.commit_offset
            for queue, held in self._consuming.holdings.queues.items()
            if queue.topic == topic
        }
        return command.response(ResponseCode.SUCCESS, body=encode(GetConsumerStatusBody(message_queue_table=offsets)))

    def _running_info(self, command: Command, _connection: Connection) -> Answer:
        consuming, settings = self._consuming, self._consuming.settings
        info = ConsumerRunningInfo(
            properties={
                "PROP_NAMESERVER_ADDR": ";".join(consuming.session.options.nameservers),
                "PROP_CONSUME_TYPE": ConsumeType.CONSUME_PASSIVELY.value,
                "PROP_CLIENT_VERSION": _VERSION,
                "PROP_THREADPOOL_CORE_SIZE": str(settings.concurrency),
                "PROP_CONSUMEORDERLY": "true" if settings.orderly else "false",
                "PROP_CONSUMER_START_TIMESTAMP": str(self._started_ms),
            },
            subscription_set=[wanted.as_body() for wanted in consuming.subscriptions.values()],
            mq_table={queue.as_body(): _info(held) for queue, held in consuming.holdings.queues.items()},
            status_table={topic: ConsumeStatus() for topic in consuming.subscriptions},
        )
        if command.header(GetConsumerRunningInfoRequestHeader).jstack_enable:
            info.jstack = _stacks()
        return command.response(ResponseCode.SUCCESS, body=encode(info))

    async def _consume_directly(self, command: Command, _connection: Connection) -> Answer:
        consuming, header = self._consuming, command.header(ConsumeMessageDirectlyResultRequestHeader)
        if consuming.calling is None:
            raise RefusedError(ResponseCode.SYSTEM_ERROR, "This consumer has no handlers: its messages are read in a loop.")
        message = Received(decode_record(command.body), broker_name=header.broker_name or "")
        namespace = consuming.session.options.namespace
        message.topic = without_namespace(namespace, message.properties.get(RETRY_TOPIC, message.record.topic))
        begun = time.monotonic()
        verdict, error = await consuming.calling.directly(message)
        failed = CMResult.CR_RETURN_NULL if error is None else CMResult.CR_THROW_EXCEPTION
        result = ConsumeMessageDirectlyResult(
            order=consuming.settings.orderly,
            auto_commit=consuming.settings.auto_commit,
            consume_result=failed if verdict is None else _RESULTS[verdict],
            remark=None if error is None else repr(error),
            spent_time_mills=int((time.monotonic() - begun) * 1000),
        )
        return command.response(ResponseCode.SUCCESS, body=encode(result))


def _info(held: HeldQueue) -> ProcessQueueInfo:
    state = held.state
    return ProcessQueueInfo(
        commit_offset=state.commit_offset,
        cached_msg_min_offset=state.commit_offset if state.cached_messages else 0,
        cached_msg_max_offset=state.commit_offset + state.span if state.cached_messages else 0,
        cached_msg_count=state.cached_messages,
        cached_msg_size_in_mib=state.cached_bytes // _MIB,
        locked=state.lease is not None,
        dropped=state.dropped,
        last_pull_timestamp=time.time_ns() // 1_000_000,
        last_consume_timestamp=time.time_ns() // 1_000_000,
    )


def _stacks() -> str:
    """What every thread does at this moment: Python's word for what Java's tools call jstack."""
    parts = []
    for thread, frame in sys._current_frames().items():
        parts.append(f"thread {thread}\n" + "".join(traceback.format_stack(frame)))
    return "\n".join(parts)
