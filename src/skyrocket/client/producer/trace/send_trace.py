"""What a producer writes to RocketMQ's message trace: a row for each message that a broker stored, for the end of each
transaction, and for each recall.

Like Java's client, it writes nothing about a send that failed, and nothing when the broker says that traces are off
(`traceOn=false`).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import TracebackType
from typing import Final

from skyrocket.client.message import Message
from skyrocket.client.producer.interceptors import call_interceptor
from skyrocket.client.producer.send_strategy import OpenScope, SendScope
from skyrocket.client.producer.trace.dispatcher import TraceDispatcher
from skyrocket.client.receipt import Receipt
from skyrocket.protocol.hosts import host_text
from skyrocket.protocol.message.message_id import ID_SEPARATOR, decode_offset_id
from skyrocket.protocol.message.properties import KEY_SEPARATOR
from skyrocket.protocol.message.trace import TracedKind, TraceRow, TraceType

DEFAULT_REGION: Final = "DefaultRegion"  # where a response does not name one, as in Java's client


class SendTrace:
    """The trace of one producer."""

    def __init__(self, dispatcher: TraceDispatcher, group: str) -> None:
        self.dispatcher = dispatcher
        self._group = group

    def around(self, open_inner: OpenScope, kind: TracedKind = TracedKind.NORMAL) -> OpenScope:
        """Return a function that opens a scope which traces the send, around the scope of `open_inner`."""
        return lambda messages: _TracedSend(messages, self, kind, open_inner)

    def add_sends(self, messages: Sequence[Message], receipt: Receipt, kind: TracedKind, started_ms: int, cost_ms: int) -> None:
        """Add a row for each message of a send that was acknowledged."""
        if not receipt.is_trace_on or messages[0].topic.startswith(self.dispatcher.topic):
            return
        offset_ids = receipt.offset_id.split(ID_SEPARATOR)
        ids = receipt.message_id.split(ID_SEPARATOR)
        if len(offset_ids) != len(ids):
            offset_ids = offset_ids[:1] * len(ids)
        rows = [
            TraceRow(
                type=TraceType.PUB,
                message_id=message_id,
                time_ms=started_ms,
                region_id=receipt.region_id or DEFAULT_REGION,
                group=self._group,
                topic=message.topic,
                tags=message.tag,
                keys=KEY_SEPARATOR.join(message.keys),
                store_host=host_text(decode_offset_id(offset_id).host),
                body_bytes=len(message.body),
                cost_ms=cost_ms // len(messages),
                kind=TracedKind.DELAYED if message.is_delayed else kind,
                offset_id=offset_id,
                success=receipt.is_safe,
            )
            for message, message_id, offset_id in zip(messages, ids, offset_ids, strict=True)
        ]
        self.dispatcher.append(rows)

    def add_end(self, message: Message, receipt: Receipt, state: str) -> None:
        """Add a row for the outcome that a producer told at the end of a transaction."""
        store_host = host_text(decode_offset_id(receipt.offset_id).host)
        keys, transaction_id = KEY_SEPARATOR.join(message.keys), receipt.transaction_id or receipt.message_id
        self._add_end(receipt.message_id, message.topic, message.tag, keys, store_host, transaction_id, state, False)

    def add_checked_end(self, message_id: str, topic: str, tag: str, keys: Sequence[str], store_host: str, state: str) -> None:
        """Add a row for the outcome that a producer told when the broker checked back."""
        self._add_end(message_id, topic, tag, KEY_SEPARATOR.join(keys), store_host, message_id, state, True)

    def _add_end(
        self, message_id: str, topic: str, tag: str, keys: str, store_host: str, transaction_id: str, state: str, checked: bool
    ) -> None:
        row = TraceRow(
            type=TraceType.END_TRANSACTION,
            message_id=message_id,
            time_ms=time.time_ns() // 1_000_000,
            region_id=DEFAULT_REGION,
            group=self._group,
            topic=topic,
            tags=tag,
            keys=keys,
            store_host=store_host,
            kind=TracedKind.TRANSACTION_END,
            transaction_id=transaction_id,
            transaction_state=state,
            from_check=checked,
        )
        self.dispatcher.append([row])

    def add_recall(self, topic: str, message_id: str, region_id: str) -> None:
        """Add a row for a timed message that was recalled."""
        row = TraceRow(
            type=TraceType.RECALL,
            message_id=message_id,
            time_ms=time.time_ns() // 1_000_000,
            region_id=region_id or DEFAULT_REGION,
            group=self._group,
            topic=topic,
        )
        self.dispatcher.append([row])


class _TracedSend(SendScope):
    """The context around one send that is traced."""

    __slots__ = ("_inner", "_kind", "_scope", "_started_ms", "_trace")

    def __init__(self, messages: Sequence[Message], trace: SendTrace, kind: TracedKind, open_inner: OpenScope) -> None:
        super().__init__(messages)
        self._inner = open_inner(messages)
        self._scope: SendScope | None = None
        self._trace = trace
        self._kind = kind
        self._started_ms = time.time_ns() // 1_000_000

    def acknowledge(self, receipt: Receipt) -> Receipt:
        assert self._scope is not None, "the scope is open"
        cost_ms = max(0, time.time_ns() // 1_000_000 - self._started_ms)
        call_interceptor(self._trace.add_sends, self.messages, receipt, self._kind, self._started_ms, cost_ms)
        return self._scope.acknowledge(receipt)

    def __enter__(self) -> _TracedSend:
        self._scope = self._inner.__enter__()
        self.messages = self._scope.messages
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._inner.__exit__(kind, error, trace)
