"""What a consumer writes to RocketMQ's message trace: a row before each call of a handler, and one after it, for each message.

Nothing is written about a message that its broker stored with `traceOn=false`.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from typing import Final, NamedTuple

from skyrocket.client.consumer.handlers import RetryLater, Verdict
from skyrocket.client.consumer.interceptors import ConsumerInterceptor
from skyrocket.client.producer.trace.dispatcher import TraceDispatcher
from skyrocket.client.received import Received
from skyrocket.protocol.message.properties import KEYS, MESSAGE_REGION, TRACE_ON
from skyrocket.protocol.message.trace import TraceRow, TraceType

CALLS_MAX: Final = 10_000  # calls of handlers that have begun and not ended; beyond, the oldest are forgotten
_SUCCESS, _EXCEPTION, _FAILED = 0, 2, 4  # context codes of Java's client


class _Call(NamedTuple):
    request_id: str
    started_ms: int
    messages: list[Received]  # those that are traced


class ConsumeTrace(ConsumerInterceptor):
    """Writes the trace of one consumer."""

    def __init__(self, dispatcher: TraceDispatcher, group: str) -> None:
        self.dispatcher = dispatcher
        self._group = group
        self._calls: dict[int, _Call] = {}  # by the identity of the list that both methods get

    def before_consume(self, messages: Sequence[Received]) -> None:
        traced = [message for message in messages if _is_traced(message)]
        if not traced:
            return
        call = self._calls[id(messages)] = _Call(secrets.token_hex(16).upper(), time.time_ns() // 1_000_000, traced)
        if len(self._calls) > CALLS_MAX:
            self._calls.pop(next(iter(self._calls)), None)
        self.dispatcher.append(
            [
                TraceRow(
                    type=TraceType.SUB_BEFORE,
                    message_id=message.message_id,
                    time_ms=call.started_ms,
                    region_id=message.properties[MESSAGE_REGION],
                    group=self._group,
                    request_id=call.request_id,
                    retry_times=message.reconsume_times,
                    keys=message.properties.get(KEYS, ""),
                )
                for message in traced
            ]
        )

    def after_consume(self, messages: Sequence[Received], verdict: Verdict, error: Exception | None) -> None:
        call = self._calls.pop(id(messages), None)
        if call is None:
            return
        now_ms = time.time_ns() // 1_000_000
        is_consumed = verdict in (Verdict.DONE, Verdict.COMMIT)
        code = _SUCCESS if is_consumed else _FAILED if error is None or isinstance(error, RetryLater) else _EXCEPTION
        self.dispatcher.append(
            [
                TraceRow(
                    type=TraceType.SUB_AFTER,
                    message_id=message.message_id,
                    time_ms=now_ms,
                    group=self._group,
                    request_id=call.request_id,
                    cost_ms=max(0, now_ms - call.started_ms) // len(messages),
                    success=is_consumed,
                    keys=message.properties.get(KEYS, ""),
                    context_code=code,
                )
                for message in call.messages
            ]
        )


def _is_traced(message: Received) -> bool:
    return MESSAGE_REGION in message.properties and message.properties.get(TRACE_ON) != "false"
