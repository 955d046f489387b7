"""Transactions: a message that consumers see if, and only if, a local transaction was committed.

    async def check(message: Received) -> Outcome:                      # the broker calls back when it did not learn the outcome
        return Outcome.COMMIT if await orders.is_paid(message.keys[0]) else Outcome.ROLLBACK

    async with TransactionProducer("127.0.0.1:9876", group="orders", check=check) as producer:
        await producer.transaction(Message("order-paid", b"...", keys=["o-7"]), pay)

The producer first sends a half message, which consumers do not see. Then it calls `pay` and sends the outcome to the broker. When
the outcome does not arrive, the broker checks back with a producer of the group, some seconds later and repeatedly.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from enum import Enum
from typing import Any, NamedTuple, Unpack

from skyrocket.client.errors import ClientError, InvalidMessageError
from skyrocket.client.message import Message, require_message
from skyrocket.client.options import Nameservers
from skyrocket.client.producer.interceptors import call_interceptor
from skyrocket.client.producer.options import ProducerOptions
from skyrocket.client.producer.producer import Producer
from skyrocket.client.producer.queue_selection import QueueSelector
from skyrocket.client.queues import Queue
from skyrocket.client.receipt import Receipt
from skyrocket.client.received import Received
from skyrocket.client.session.namespaces import without_namespace
from skyrocket.net.connection import Connection
from skyrocket.net.router import Answer, Handler
from skyrocket.protocol import sysflag
from skyrocket.protocol.command import Command
from skyrocket.protocol.headers import CheckTransactionStateRequestHeader, EndTransactionRequestHeader
from skyrocket.protocol.message import properties as p
from skyrocket.protocol.message.message_id import decode_offset_id
from skyrocket.protocol.message.record import decode_record
from skyrocket.protocol.requests import RequestCode

log = logging.getLogger(__name__)


class Outcome(Enum):
    """How a local transaction ended."""

    COMMIT = sysflag.TRANSACTION_COMMIT
    ROLLBACK = sysflag.TRANSACTION_ROLLBACK
    UNKNOWN = sysflag.TRANSACTION_NONE  # the broker checks back later


_STATES = {Outcome.COMMIT: "COMMIT_MESSAGE", Outcome.ROLLBACK: "ROLLBACK_MESSAGE", Outcome.UNKNOWN: "UNKNOW"}  # Java's names

Execute = Callable[[Message, str], Outcome | Awaitable[Outcome]]
"""The local transaction: called with the message and its transaction id. A plain function runs in a thread."""

Check = Callable[[Received], Outcome | Awaitable[Outcome]]
"""The check-back: called with the half message, returns the outcome. A plain function runs in a thread."""


class TransactionReceipt(NamedTuple):
    """The receipt of the half message, and the outcome of the local transaction."""

    receipt: Receipt
    outcome: Outcome


class TransactionProducer(Producer):
    """A producer with transactions. `check` must know the outcome after a restart too, so let it read a database."""

    def __init__(self, nameservers: Nameservers = None, *, check: Check, **options: Unpack[ProducerOptions]) -> None:
        self._check = check
        self._checks: set[asyncio.Task[None]] = set()
        super().__init__(nameservers, **options)

    async def close(self) -> None:
        """Wait for running check-backs, at most as long as a send, and close the producer."""
        if self._checks:
            await asyncio.wait(self._checks, timeout=self.timeout_ms / 1000)
            for check in self._checks:
                check.cancel()
        await super().close()

    async def transaction(
        self,
        message: Message,
        execute: Execute,
        *,
        queue: Queue | None = None,
        selector: QueueSelector | None = None,
        timeout_ms: int | None = None,
    ) -> TransactionReceipt:
        """Send a half message, call `execute`, and send its outcome to the broker.

        When `execute` raises, the broker will call `check` later, and the error reaches the caller.
        """
        require_message(message, "transaction")
        if message.is_delayed:
            raise InvalidMessageError("A delayed message cannot be part of a transaction. Remove its delay.")
        general = self._open_general()
        properties = {p.TRANSACTION_PREPARED: "true", p.PRODUCER_GROUP: self._member.group}
        with self._open_half_scope([message]) as scope:
            request = general.build_request(scope.message, properties, sysflag.TRANSACTION_PREPARED)
            receipt = scope.acknowledge(await general.deliver(request, scope.message, queue, selector, timeout_ms))
        if not receipt.is_safe:
            await self._end(message, request.topic, receipt, Outcome.ROLLBACK, None)
            return TransactionReceipt(receipt, Outcome.ROLLBACK)
        try:
            outcome = await _call(execute, message, receipt.message_id)
        except BaseException as error:
            await self._end(message, request.topic, receipt, Outcome.UNKNOWN, f"The local transaction raised {error!r}.")
            raise
        await self._end(message, request.topic, receipt, outcome, None)
        return TransactionReceipt(receipt, outcome)

    async def _end(self, message: Message, topic: str, receipt: Receipt, outcome: Outcome, remark: str | None) -> None:
        """Send the outcome to the broker. A failure is logged: the broker will check back."""
        session = self._open_session()
        header = EndTransactionRequestHeader(
            topic=topic,
            producer_group=self._member.group,
            tran_state_table_offset=receipt.queue_offset,
            commit_log_offset=decode_offset_id(receipt.offset_id).physical_offset,
            commit_or_rollback=outcome.value,
            from_transaction_check=False,
            msg_id=receipt.message_id,
            transaction_id=receipt.transaction_id or None,
            rpc_broker_name=receipt.queue.broker_name,
        )
        if self._trace is not None:
            call_interceptor(self._trace.add_end, message, receipt, _STATES[outcome])
        command = Command(RequestCode.END_TRANSACTION, fields=header.to_fields(), remark=remark)
        address = session.routes.address(receipt.queue.broker_name) or ""
        try:
            if outcome is Outcome.UNKNOWN:
                await session.send_oneway(address, command, timeout_ms=self.timeout_ms)  # the broker does not respond to UNKNOWN
            else:
                await session.request(address, command, timeout_ms=self.timeout_ms)
        except ClientError as error:
            log.warning(
                "Broker %s did not receive the outcome %s of transaction %s and will check back: %s",
                receipt.queue.broker_name,
                outcome.name,
                receipt.message_id,
                error,
            )

    # --- check-backs of the broker

    def _handlers(self) -> Mapping[int, Handler]:
        return {RequestCode.CHECK_TRANSACTION_STATE: self._on_check}

    def _on_check(self, command: Command, connection: Connection) -> Answer:
        """Start a check-back. It is one-way: the outcome is a request of its own. Beyond `limits.checks_max`, check-backs are
        dropped and the broker repeats them in its next round."""
        if len(self._checks) < self._options.limits.checks_max:
            task = asyncio.get_running_loop().create_task(self._run_check(command, connection))
            self._checks.add(task)
            task.add_done_callback(self._checks.discard)
        return None

    async def _run_check(self, command: Command, connection: Connection) -> None:
        header = command.header(CheckTransactionStateRequestHeader)
        record = decode_record(command.body)
        namespace = self._options.namespace
        received = Received(record, topic=without_namespace(namespace, record.topic))
        outcome, remark = await self._check_outcome(received)
        end = EndTransactionRequestHeader(
            topic=header.topic,
            producer_group=self._member.group,
            tran_state_table_offset=header.tran_state_table_offset,
            commit_log_offset=header.commit_log_offset,
            commit_or_rollback=outcome.value,
            from_transaction_check=True,
            msg_id=received.message_id,
            transaction_id=header.transaction_id,
            rpc_broker_name=header.rpc_broker_name,
        )
        if self._trace is not None:
            call_interceptor(
                self._trace.add_checked_end,
                *(received.message_id, received.topic, received.tag, received.keys, received.store_host, _STATES[outcome]),
            )
        response = Command(RequestCode.END_TRANSACTION, fields=end.to_fields(), remark=remark)
        connection.oneway(self._open_session().sign(response))

    async def _check_outcome(self, received: Received) -> tuple[Outcome, str | None]:
        """Call the user's check. An error is logged and counts as UNKNOWN, so the broker checks back again."""
        check = asyncio.ensure_future(_call(self._check, received))
        try:
            await asyncio.wait([check])
        finally:
            check.cancel()
        error = check.exception()
        if error is None:
            return check.result(), None
        log.error(
            "The check of transaction %s raised an error; the broker will check back again.", received.message_id, exc_info=error
        )
        return Outcome.UNKNOWN, f"The check raised {error!r}."


async def _call(function: Callable[..., Outcome | Awaitable[Outcome]], *arguments: object) -> Outcome:
    if inspect.iscoroutinefunction(function):
        result: Any = await function(*arguments)
    else:
        result = await asyncio.to_thread(function, *arguments)
        if inspect.isawaitable(result):
            result = await result
    if not isinstance(result, Outcome):
        raise InvalidMessageError(
            f"A local transaction and its check must return Outcome.COMMIT, ROLLBACK or UNKNOWN, not {result!r}."
        )
    return result
