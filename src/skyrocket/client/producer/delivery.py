"""Delivery: an outgoing message, attempted until a broker acknowledges it, nothing is left to try, or the time is over.

`retries` decides what is tried again; `queue_choice` where.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from skyrocket.client.errors import (
    Attempt,
    BrokerError,
    SendFailedError,
    SendTimedOutError,
    TimedOutError,
    UnreachableError,
)
from skyrocket.client.producer.broker_latency import LatencyTable
from skyrocket.client.producer.queue_selection import RoundRobin
from skyrocket.client.producer.request_frames import Outgoing, envelope
from skyrocket.client.producer.retry_policy import Retries
from skyrocket.client.producer.send_response import SEND_BIT, SendAnswer
from skyrocket.client.producer.sequence import Sequences
from skyrocket.client.queues import Queue
from skyrocket.client.receipt import Receipt, receipt_from
from skyrocket.client.session.session import DEFAULT_TOPIC_QUEUES, Session, client_error
from skyrocket.net.connection import Connection, Sendable
from skyrocket.net.errors import NetError
from skyrocket.protocol.command import ONEWAY_FLAG, Command, encode_command

_TOPICS_MAX = 10_000  # that are sent to in turn

Chooser = Callable[[Sequence[Queue]], Queue]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliverySettings:
    retries: int = 2  # attempts beyond the first
    attempt_timeout_ms: int | None = None  # of one attempt, where others may follow; None: as long as the whole send
    retry_unsafe: bool = False  # an answer that is not OK (a flush or a replica was late) is tried elsewhere too


class Delivery:
    def __init__(
        self,
        session: Session,
        group: str,
        settings: DeliverySettings,
        latency: LatencyTable | None = None,
        sequences: Sequences | None = None,
    ) -> None:
        self._session = session
        self._group = group
        self._settings = settings
        self._latency = latency
        self._sequences = sequences
        self._turns: dict[str, RoundRobin] = {}
        self._signs = session.options.credentials is not None
        self.now_ms = session.now_ms

    # --- queues

    @property
    def is_ordinary(self) -> bool:
        """Nothing is stamped, signed, measured, or tried elsewhere after it was stored: `express` may do the first attempt."""
        wishes = self._settings.attempt_timeout_ms is not None or self._settings.retry_unsafe
        return not (wishes or self._signs or self._latency is not None or self._sequences is not None)

    def turns(self, topic: str) -> RoundRobin:
        found = self._turns.get(topic)
        if found is None:
            start = hash((self._session.client_id, topic)) & 0xFFFF  # producers begin with different queues
            found = self._turns[topic] = RoundRobin(start, self._latency)
            if len(self._turns) > _TOPICS_MAX:
                del self._turns[next(iter(self._turns))]
        return found

    async def queues(self, topic: str, deadline_ms: int) -> tuple[Queue, ...]:
        known = self._session.routes.route(topic)
        if known is not None and known.to_write:
            return known.to_write
        route = await self._session.route_to_write(topic, timeout_ms=self._left_ms(deadline_ms, topic))
        return route.to_write

    # --- sending

    async def deliver(self, outgoing: Outgoing, deadline_ms: int, choose: Chooser | None = None) -> Receipt:
        """`choose` takes one of the topic's queues, and the same one for each attempt; None: each in turn."""
        gate, size_bytes = self._session.gate, outgoing.size_bytes
        if not gate.try_enter(size_bytes):
            await self.enter(size_bytes, outgoing.topic, deadline_ms)
        try:
            return await self.attempt(outgoing, deadline_ms, choose)
        finally:
            gate.leave(size_bytes)

    async def enter(self, size_bytes: int, topic: str, deadline_ms: int) -> None:
        """Through the gate, when there is room."""
        try:
            async with asyncio.timeout(self._left_ms(deadline_ms, topic) / 1000):
                await self._session.gate.enter(size_bytes)
        except TimeoutError as error:
            raise TimedOutError(
                f"Too many messages were under way for too long; this one to topic '{topic}' was not sent."
            ) from error

    async def again(
        self, outgoing: Outgoing, deadline_ms: int, queue: Queue, address: str, error: NetError | BrokerError
    ) -> Receipt:
        """What is to be done after the first attempt, in turn, has failed so."""
        failures = _Failures(outgoing.topic, self._settings.retries)
        route = self._session.routes.route(outgoing.topic)
        pause_ms = self._failed(failures, error, queue, address, route.to_write if route is not None else (), deadline_ms)
        if pause_ms:
            await asyncio.sleep(pause_ms / 1000)
        return await self.attempt(outgoing, deadline_ms, failures=failures)

    async def attempt(
        self, outgoing: Outgoing, deadline_ms: int, choose: Chooser | None = None, *, failures: _Failures | None = None
    ) -> Receipt:
        """The same for what has passed the gate already. Where all goes well, this waits once: for the answer."""
        session, settings = self._session, self._settings
        while True:
            route = session.routes.route(outgoing.topic)
            queues = route.to_write if route is not None else ()
            if not queues:
                queues = await self.queues(outgoing.topic, deadline_ms)
            if choose is not None:
                queue = choose(queues)
            elif failures is None and self._latency is None:
                queue = self.turns(outgoing.topic).next(queues)
            else:
                not_at = failures.last_broker if failures is not None else ""
                queue = self.turns(outgoing.topic).next(queues, not_at=not_at, now_ms=session.now_ms())
            address = session.routes.address(queue.broker_name) or ""
            until_ms = deadline_ms if settings.attempt_timeout_ms is None else self._until_ms(deadline_ms, failures)
            started_ms = session.now_ms() if self._latency is not None else 0
            try:
                connection = session.dialer.open_connection(address)
                if connection is None:
                    connection = await self._connected(queue, address, until_ms)
                opaque = connection.next_opaque() | SEND_BIT
                answer = await connection.request_frame(opaque, self._frame(outgoing, queue, opaque), until_ms)
                receipt = receipt_from(answer, outgoing.message_id, queue, address)
            except (NetError, BrokerError, UnreachableError) as caught:
                failures = failures or _Failures(outgoing.topic, settings.retries)
                pause_ms = self._failed(failures, caught, queue, address, () if choose is not None else queues, deadline_ms)
            else:
                if self._latency is not None:
                    now_ms = session.now_ms()
                    self._latency.answered(queue.broker_name, now_ms - started_ms, now_ms)
                if not settings.retry_unsafe or receipt.is_safe:
                    return receipt
                failures = failures or _Failures(outgoing.topic, settings.retries)
                if failures.retries.is_last:
                    return receipt
                pause_ms = failures.stored_unsafely(receipt)
            if pause_ms is None:
                assert failures.unsafe is not None
                return failures.unsafe
            if pause_ms:
                await asyncio.sleep(pause_ms / 1000)

    def _failed(
        self,
        failures: _Failures,
        caught: NetError | BrokerError | UnreachableError,
        queue: Queue,
        address: str,
        queues: Sequence[Queue],
        deadline_ms: int,
    ) -> int | None:
        """The pause before the next attempt; None: there is none, but a broker has it. `queues` are those to choose from."""
        error = client_error(caught) if isinstance(caught, NetError) else caught
        now_ms = self._session.now_ms()
        if self._latency is not None:
            self._latency.failed(queue.broker_name, now_ms)
        is_alone = all(other.broker_name == queue.broker_name for other in queues)
        pause_ms = failures.pause_ms(Attempt(queue.broker_name, address, error), now_ms, deadline_ms, is_alone)
        if not isinstance(error, BrokerError):
            self._session.refresh_soon(failures.topic)
        return pause_ms

    def _until_ms(self, deadline_ms: int, failures: _Failures | None) -> int:
        limit_ms, retries = self._settings.attempt_timeout_ms, failures.retries if failures else Retries(self._settings.retries)
        return deadline_ms if limit_ms is None or retries.is_last else min(deadline_ms, self._session.now_ms() + limit_ms)

    async def _connected(self, queue: Queue, address: str, deadline_ms: int) -> Connection:
        if not address:
            raise UnreachableError(f"No address is known of the master of broker {queue.broker_name}.")
        return await self._session.connection(address, deadline_ms)

    def _frame(self, outgoing: Outgoing, queue: Queue, opaque: int, *, oneway: bool = False) -> Sendable:
        properties = outgoing.properties
        if self._sequences is not None:
            properties = outgoing.for_queue(queue, self._sequences)
        born_ms = time.time_ns() // 1_000_000
        about = envelope(outgoing.code, self._group, queue, DEFAULT_TOPIC_QUEUES)
        sys_flag, flag = outgoing.sys_flag, outgoing.flag
        if not self._signs:
            return about.frame_of(
                opaque, properties, outgoing.pieces(), sys_flag=sys_flag, born_ms=born_ms, flag=flag, oneway=oneway
            )
        command = about.command(properties, outgoing.body, sys_flag=sys_flag, born_ms=born_ms, flag=flag)
        command.opaque = opaque
        if oneway:
            command.flag |= ONEWAY_FLAG
        return encode_command(self._session.signed(command))

    def request(self, outgoing: Outgoing, queue: Queue, deadline_ms: int) -> asyncio.Future[Command | SendAnswer] | None:
        """One attempt at one queue, for who sends many at once and deals with failures himself: `receipt_from` reads its answer.
        None when there is no open connection to that broker; `attempt` makes one."""
        connection = self._session.dialer.open_connection(self._session.routes.address(queue.broker_name) or "")
        if connection is None:
            return None
        opaque = connection.next_opaque() | SEND_BIT
        return connection.request_frame(opaque, self._frame(outgoing, queue, opaque), deadline_ms)

    async def oneway(self, outgoing: Outgoing, deadline_ms: int, choose: Chooser | None = None) -> None:
        """Written to a connection, once, and no more is known of it."""
        queues = await self.queues(outgoing.topic, deadline_ms)
        queue = choose(queues) if choose is not None else self.turns(outgoing.topic).next(queues, now_ms=self._session.now_ms())
        address = self._session.routes.address(queue.broker_name)
        if address is None:
            raise UnreachableError(f"No address is known of the master of broker {queue.broker_name}.")
        connection = self._session.dialer.open_connection(address) or await self._session.connection(address, deadline_ms)
        while connection.is_full or connection.unwritten_bytes > self._session.dialer.limits.unwritten_high_bytes:
            await asyncio.sleep(0.001)  # nobody acknowledges these, so nothing else holds them back
            self._left_ms(deadline_ms, outgoing.topic)
        connection.send(self._frame(outgoing, queue, connection.next_opaque(), oneway=True))

    def _left_ms(self, deadline_ms: int, topic: str) -> int:
        left_ms = deadline_ms - self._session.now_ms()
        if left_ms <= 0:
            raise TimedOutError(f"The time to send a message to topic '{topic}' was over before it could be sent.")
        return left_ms


class _Failures:
    """What went wrong with one send so far."""

    __slots__ = ("_attempts", "last_broker", "retries", "topic", "unsafe")

    def __init__(self, topic: str, retries: int) -> None:
        self.topic = topic
        self._attempts: list[Attempt] = []
        self.retries = Retries(retries)
        self.last_broker = ""
        self.unsafe: Receipt | None = None  # stored, though not as safely as promised

    def stored_unsafely(self, receipt: Receipt) -> int:
        self.unsafe = receipt
        self.retries.used += 1
        self.last_broker = receipt.queue.broker_name
        return 0

    def pause_ms(self, failed: Attempt, now_ms: int, deadline_ms: int, is_alone: bool) -> int | None:
        """Before the next attempt. Where none is left it raises, unless a broker has the message: then None."""
        pause_ms = self.retries.pause_ms(failed.error, is_alone=is_alone)
        if pause_ms is None and not self._attempts and isinstance(failed.error, BrokerError):
            raise failed.error
        self._attempts.append(failed)
        self.last_broker = failed.broker
        out_of_time = now_ms + (pause_ms or 0) >= deadline_ms
        if pause_ms is not None and not out_of_time:
            return pause_ms
        if self.unsafe is not None:
            return None
        raise (SendTimedOutError if out_of_time else SendFailedError)(self.topic, self._attempts) from failed.error
