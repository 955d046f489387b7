"""Transactions: a message that consumers see if, and only if, a local transaction was committed.

    async def paid(message: Received) -> Outcome:                       # asked when the first answer got lost
        return Outcome.COMMIT if await orders.is_paid(message.keys[0]) else Outcome.ROLLBACK

    async with TransactionProducer("127.0.0.1:9876", group="orders", check=paid) as producer:
        await producer.transaction(Message("order-paid", b"...", keys=["o-7"]), pay)

The broker keeps the message aside first (a half message), then `pay` is called, then the broker is told the outcome. Where that
does not reach it, it asks a producer of the group, some seconds later and again and again.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from enum import Enum
from typing import Any, NamedTuple, Unpack

from skyrocket.client.errors import ClientError, InvalidMessageError
from skyrocket.client.message import Message
from skyrocket.client.options import Nameservers
from skyrocket.client.producer.producer import Producer, ProducerOptions
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
    COMMIT = sysflag.TRANSACTION_COMMIT
    ROLLBACK = sysflag.TRANSACTION_ROLLBACK
    UNKNOWN = sysflag.TRANSACTION_NONE  # the broker will ask later


Execute = Callable[[Message, str], Outcome | Awaitable[Outcome]]
"""The local transaction: given the message and its transaction id. A plain function runs in a thread."""

Check = Callable[[Received], Outcome | Awaitable[Outcome]]
"""How did it end? Given the half message. A plain function runs in a thread."""


class TransactionReceipt(NamedTuple):
    receipt: Receipt
    outcome: Outcome


class TransactionProducer(Producer):
    """A producer that can do transactions too. `check` must know the outcome after a restart, so it asks a database."""

    def __init__(self, nameservers: Nameservers = None, *, check: Check, **options: Unpack[ProducerOptions]) -> None:
        self._check = check
        self._checks: set[asyncio.Task[None]] = set()
        super().__init__(nameservers, **options)

    async def close(self) -> None:
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
        """The outcome that `execute` told. When it raises, the broker will ask `check`, and the error goes on to the caller."""
        if message.is_delayed:
            raise InvalidMessageError("A delayed message cannot be part of a transaction.")
        added = {p.TRANSACTION_PREPARED: "true", p.PRODUCER_GROUP: self._member.group}
        with self._sending([message]) as sending:
            outgoing = self._prepared(sending.message, added, sysflag.TRANSACTION_PREPARED)
            receipt = sending.acknowledged(await self._deliver(outgoing, message, queue, selector, timeout_ms))
        if not receipt.is_safe:
            await self._end(outgoing.topic, receipt, Outcome.ROLLBACK, None)
            return TransactionReceipt(receipt, Outcome.ROLLBACK)
        try:
            outcome = await _called(execute, message, receipt.message_id)
        except BaseException as error:
            await self._end(outgoing.topic, receipt, Outcome.UNKNOWN, f"The local transaction raised {error!r}.")
            raise
        await self._end(outgoing.topic, receipt, outcome, None)
        return TransactionReceipt(receipt, outcome)

    async def _end(self, topic: str, receipt: Receipt, outcome: Outcome, remark: str | None) -> None:
        """Told, and confirmed where that can be; a broker that did not hear of it asks."""
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
        command = Command(RequestCode.END_TRANSACTION, fields=header.to_fields(), remark=remark)
        address = session.routes.address(receipt.queue.broker_name) or ""
        try:
            if outcome is Outcome.UNKNOWN:
                await session.tell(address, command, timeout_ms=self.timeout_ms)  # nothing is done, so nothing is answered
            else:
                await session.ask(address, command, timeout_ms=self.timeout_ms)
        except ClientError as error:
            log.warning(
                "The broker %s was not told that transaction %s ends with %s, and will ask: %s",
                receipt.queue.broker_name,
                receipt.message_id,
                outcome.name,
                error,
            )

    # --- the broker asks

    def _handlers(self) -> Mapping[int, Handler]:
        return {RequestCode.CHECK_TRANSACTION_STATE: self._asked}

    def _asked(self, command: Command, connection: Connection) -> Answer:
        """Oneway: the answer is a request of its own. Too many at once are left to the broker's next round."""
        if len(self._checks) < self._options.limits.checks_max:
            task = asyncio.get_running_loop().create_task(self._checked(command, connection))
            self._checks.add(task)
            task.add_done_callback(self._checks.discard)
        return None

    async def _checked(self, command: Command, connection: Connection) -> None:
        header = command.header(CheckTransactionStateRequestHeader)
        record = decode_record(command.body)
        namespace = self._options.namespace
        received = Received(record, topic=without_namespace(namespace, record.topic))
        outcome, remark = await self._outcome(received)
        answer = EndTransactionRequestHeader(
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
        told = Command(RequestCode.END_TRANSACTION, fields=answer.to_fields(), remark=remark)
        connection.oneway(self._open_session().signed(told))

    async def _outcome(self, received: Received) -> tuple[Outcome, str | None]:
        """What the user's check says. Whatever it raises is logged, and the broker will ask again."""
        asking = asyncio.ensure_future(_called(self._check, received))
        try:
            await asyncio.wait([asking])
        finally:
            asking.cancel()
        error = asking.exception()
        if error is None:
            return asking.result(), None
        log.error("How transaction %s ended is not known; the broker will ask again.", received.message_id, exc_info=error)
        return Outcome.UNKNOWN, f"The check raised {error!r}."


async def _called(function: Callable[..., Outcome | Awaitable[Outcome]], *arguments: object) -> Outcome:
    if inspect.iscoroutinefunction(function):
        result: Any = await function(*arguments)
    else:
        result = await asyncio.to_thread(function, *arguments)
        if inspect.isawaitable(result):
            result = await result
    if not isinstance(result, Outcome):
        raise InvalidMessageError(f"A local transaction ends with an Outcome, not with {result!r}.")
    return result
