"""Delivery: attempts a send until a broker acknowledges it, no attempt is left, or the deadline passes.

`retry_policy` decides whether a failed attempt is repeated, `queue_selection` at which queue.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn

from skyrocket.client.errors import (
    Attempt,
    BrokerError,
    NoRouteError,
    SendFailedError,
    SendTimedOutError,
    TimedOutError,
    UnreachableError,
)
from skyrocket.client.producer.broker_latency import LatencyTable
from skyrocket.client.producer.queue_selection import RoundRobin
from skyrocket.client.producer.request_frames import SendRequest, frame_template
from skyrocket.client.producer.retry_policy import RETRIED_CODES, RetryPolicy, is_busy
from skyrocket.client.producer.sequence import SequenceStamps
from skyrocket.client.queues import Queue
from skyrocket.client.receipt import Receipt, build_receipt
from skyrocket.client.session.back_pressure import Turn
from skyrocket.client.session.send_responses import SEND_BIT, SendResponse
from skyrocket.client.session.session import DEFAULT_TOPIC_QUEUES, REFRESH_AWAY_MS_MIN, Session, client_error
from skyrocket.net.connection import Connection, Sendable
from skyrocket.net.errors import NetError
from skyrocket.protocol.command import ONEWAY_FLAG, Command, encode_command
from skyrocket.protocol.responses import ResponseCode

NO_MASTER_PAUSE_MS = 50  # between two questions for a master
_TOPICS_MAX = 10_000  # whose rotation is kept

QueueChooser = Callable[[Sequence[Queue]], Queue]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliverySettings:
    """How often and how long a producer attempts a send."""

    retries: int = 2  # attempts beyond the first
    attempt_timeout_ms: int | None = None  # of one attempt, when another may follow; None: the whole send's
    retry_unsafe: bool = False  # also retry elsewhere when a broker stored the message but a flush or replica was late
    reads_region: bool = False  # read the region and the trace switch of each response, for traces


class Delivery:
    """Sends requests of one producer group."""

    def __init__(
        self,
        session: Session,
        group: str,
        settings: DeliverySettings,
        latency: LatencyTable | None = None,
        stamps: SequenceStamps | None = None,
    ) -> None:
        self._session = session
        self._group = group
        self._settings = settings
        self._latency = latency
        self._stamps = stamps
        self._round_robins: dict[str, RoundRobin] = {}
        self._signs = session.options.credentials is not None
        self._send_bit = 0 if settings.reads_region else SEND_BIT  # without the bit, the response comes with all its fields
        self.now_ms = session.now_ms

    # --- queues

    @property
    def allows_fast_path(self) -> bool:
        """Whether `FastPath` may make the first attempt: nothing is stamped, signed or measured, and no option applies to a
        single attempt."""
        has_attempt_options = self._settings.attempt_timeout_ms is not None or self._settings.retry_unsafe
        return not (has_attempt_options or self._signs or self._latency is not None or self._stamps is not None)

    def round_robin(self, topic: str) -> RoundRobin:
        """Return the rotation over a topic's queues."""
        found = self._round_robins.get(topic)
        if found is None:
            start = hash((self._session.client_id, topic)) & 0xFFFF  # producers begin with different queues
            found = self._round_robins[topic] = RoundRobin(start, self._latency)
            if len(self._round_robins) > _TOPICS_MAX:
                del self._round_robins[next(iter(self._round_robins))]
        return found

    async def find_queues(self, topic: str, deadline_ms: int) -> tuple[Queue, ...]:
        """Return the queues that accept messages for a topic, from the route cache or from a nameserver."""
        known = self._session.routes.route(topic)
        if known is not None and known.to_write:
            return known.to_write
        route = await self._session.route_to_write(topic, timeout_ms=self._remaining_ms(deadline_ms, topic))
        return route.to_write

    async def _find_queues(self, topic: str, deadline_ms: int, failures: _SendFailures | None) -> tuple[Queue, ...]:
        """Like `find_queues`. A send whose broker has failed waits until the deadline: its group may elect another master."""
        while True:
            try:
                return await self.find_queues(topic, deadline_ms)
            except NoRouteError:
                if failures is None or self.now_ms() + NO_MASTER_PAUSE_MS >= deadline_ms:
                    raise
                await asyncio.sleep(NO_MASTER_PAUSE_MS / 1000)

    # --- sending

    async def deliver(self, request: SendRequest, deadline_ms: int, choose: QueueChooser | None = None) -> Receipt:
        """Send a request within the session's in-flight limit.

        `choose` picks one of the topic's queues, the same one for each attempt; None: the queues take turns.
        """
        in_flight, size_bytes = self._session.in_flight, request.size_bytes
        if not in_flight.try_acquire(size_bytes):
            await self.acquire(size_bytes, request.topic, deadline_ms)
        try:
            return await self.attempt(request, deadline_ms, choose)
        finally:
            in_flight.release(size_bytes)

    async def acquire(self, size_bytes: int, topic: str, deadline_ms: int) -> None:
        """Wait for room within the in-flight limit. Raise TimedOutError when the deadline passes first."""
        try:
            async with asyncio.timeout(self._remaining_ms(deadline_ms, topic) / 1000):
                await self._session.in_flight.acquire(size_bytes)
        except TimeoutError as error:
            raise TimedOutError(
                f"The message to topic '{topic}' was not sent: the in-flight limit was reached until the deadline. "
                "Send more slowly, or raise ClientLimits.in_flight_max or in_flight_max_bytes."
            ) from error

    async def retry_after(
        self, error: NetError | BrokerError, request: SendRequest, deadline_ms: int, queue: Queue, address: str
    ) -> Receipt:
        """Make the remaining attempts after the fast path's first one, to `queue`, failed with `error`."""
        failures = _SendFailures(request.topic, self._settings.retries)
        route = self._session.routes.route(request.topic)
        queues = route.to_write if route is not None else ()
        pause_ms = self._record_failure(failures, error, queue, address, queues, deadline_ms)
        if pause_ms:
            await asyncio.sleep(pause_ms / 1000)
        return await self.attempt(request, deadline_ms, failures=failures)

    async def attempt(
        self, request: SendRequest, deadline_ms: int, choose: QueueChooser | None = None, *, failures: _SendFailures | None = None
    ) -> Receipt:
        """Send a request for which the in-flight limit has room already. A send without failure awaits once, for the response."""
        session, settings = self._session, self._settings
        while True:
            route = session.routes.route(request.topic)
            queues = route.to_write if route is not None else ()
            if not queues:
                queues = await self._find_queues(request.topic, deadline_ms, failures)
            if choose is not None:
                queue = choose(queues)
            elif failures is None and self._latency is None:
                queue = self.round_robin(request.topic).next(queues)
            else:
                not_at = failures.last_broker if failures is not None else ""
                queue = self.round_robin(request.topic).next(queues, not_at=not_at, now_ms=session.now_ms())
            address = session.routes.address(queue.broker_name) or ""
            turn = await self._take_turn(queue, address, deadline_ms, failures) if session.back_pressure.is_active else None
            until_ms = deadline_ms if settings.attempt_timeout_ms is None else self._attempt_deadline_ms(deadline_ms, failures)
            started_ms = session.now_ms() if self._latency is not None else 0
            try:
                connection = session.dialer.open_connection(address)
                if connection is None:
                    connection = await self._connect(queue, address, until_ms)
                opaque = connection.next_opaque() | self._send_bit
                response = await connection.request_frame(opaque, self._build_frame(request, queue, opaque), until_ms)
                receipt = build_receipt(response, request.message_id, queue, address, reads_region=settings.reads_region)
            except (NetError, BrokerError, UnreachableError) as caught:
                failures = failures or _SendFailures(request.topic, settings.retries)
                others = () if choose is not None else queues
                pause_ms = self._record_failure(failures, caught, queue, address, others, deadline_ms, turn)
            else:
                if turn is not None:
                    turn.end(session.now_ms(), is_success=True)
                if self._latency is not None:
                    now_ms = session.now_ms()
                    self._latency.record_latency(queue.broker_name, now_ms - started_ms, now_ms)
                if not settings.retry_unsafe or receipt.is_safe:
                    return receipt
                failures = failures or _SendFailures(request.topic, settings.retries)
                if failures.retries.is_last:
                    return receipt
                pause_ms = failures.record_unsafe(receipt)
            finally:
                if turn is not None:
                    turn.end(session.now_ms(), is_success=False)
            if pause_ms is None:
                assert failures.unsafe is not None
                return failures.unsafe
            if pause_ms:
                await asyncio.sleep(pause_ms / 1000)

    async def _take_turn(self, queue: Queue, address: str, deadline_ms: int, failures: _SendFailures | None) -> Turn | None:
        """Wait until the broker, if it is busy, may get one more request."""
        try:
            return await self._session.back_pressure.take_turn(address, deadline_ms)
        except TimeoutError:
            remark = "the broker has been busy, and the message did not get its turn before the deadline"
            error = BrokerError(ResponseCode.SYSTEM_BUSY, remark, address)
            failures = failures or _SendFailures(queue.topic, self._settings.retries)
            failures.expire(Attempt(queue.broker_name, address, error))
            raise

    def _record_failure(
        self,
        failures: _SendFailures,
        caught: NetError | BrokerError | UnreachableError,
        queue: Queue,
        address: str,
        queues: Sequence[Queue],
        deadline_ms: int,
        turn: Turn | None = None,
    ) -> int | None:
        """Return the pause before the next attempt; None: no attempt is left, but a broker has stored the message.

        `queues` are the queues that the next attempt can use. Raise when no attempt is left and no broker has the message.
        """
        error = client_error(caught) if isinstance(caught, NetError) else caught
        now_ms = self._session.now_ms()
        if is_busy(error):
            self._session.back_pressure.refuse(address, turn)
        if self._latency is not None:
            self._latency.record_failure(queue.broker_name, now_ms)
        # For the next send, too, when this one has no attempt left.
        if not isinstance(error, BrokerError):
            self._session.refresh_soon(failures.topic, REFRESH_AWAY_MS_MIN)
        elif error.code in RETRIED_CODES:  # a master that became a slave is SYSTEM_BUSY
            self._session.refresh_soon(failures.topic)
        is_alone = all(other.broker_name == queue.broker_name for other in queues)
        return failures.record(Attempt(queue.broker_name, address, error), now_ms, deadline_ms, is_alone)

    def _attempt_deadline_ms(self, deadline_ms: int, failures: _SendFailures | None) -> int:
        limit_ms = self._settings.attempt_timeout_ms
        retries = failures.retries if failures else RetryPolicy(self._settings.retries)
        return deadline_ms if limit_ms is None or retries.is_last else min(deadline_ms, self._session.now_ms() + limit_ms)

    async def _connect(self, queue: Queue, address: str, deadline_ms: int) -> Connection:
        if not address:
            raise _no_master(queue)
        return await self._session.connection(address, deadline_ms)

    def _build_frame(self, request: SendRequest, queue: Queue, opaque: int, *, oneway: bool = False) -> Sendable:
        properties = request.properties
        if self._stamps is not None:
            properties = request.stamp_for(queue, self._stamps)
        born_ms = time.time_ns() // 1_000_000
        template = frame_template(request.code, self._group, queue, DEFAULT_TOPIC_QUEUES)
        sys_flag, flag = request.sys_flag, request.flag
        if not self._signs:
            return template.build_frame(
                opaque, properties, request.pieces(), sys_flag=sys_flag, born_ms=born_ms, flag=flag, oneway=oneway
            )
        command = template.build_command(properties, request.body, sys_flag=sys_flag, born_ms=born_ms, flag=flag)
        command.opaque = opaque
        if oneway:
            command.flag |= ONEWAY_FLAG
        return encode_command(self._session.sign(command))

    def request(self, request: SendRequest, queue: Queue, deadline_ms: int) -> asyncio.Future[Command | SendResponse] | None:
        """Make one attempt at one queue, for a caller that sends many requests at once and handles failures itself.

        `build_receipt` reads the response. Return None when there is no open connection to the broker; `attempt` opens one.
        """
        connection = self._session.dialer.open_connection(self._session.routes.address(queue.broker_name) or "")
        if connection is None:
            return None
        opaque = connection.next_opaque() | self._send_bit
        return connection.request_frame(opaque, self._build_frame(request, queue, opaque), deadline_ms)

    async def send_oneway(self, request: SendRequest, deadline_ms: int, choose: QueueChooser | None = None) -> None:
        """Write a request to a connection once. No response comes."""
        queues = await self.find_queues(request.topic, deadline_ms)
        now_ms = self._session.now_ms()
        queue = choose(queues) if choose is not None else self.round_robin(request.topic).next(queues, now_ms=now_ms)
        address = self._session.routes.address(queue.broker_name)
        if address is None:
            raise _no_master(queue)
        connection = self._session.dialer.open_connection(address) or await self._session.connection(address, deadline_ms)
        while connection.is_full or connection.unwritten_bytes > self._session.dialer.limits.unwritten_high_bytes:
            await asyncio.sleep(0.001)  # without acknowledgements, only the socket's backlog slows a sender down
            self._remaining_ms(deadline_ms, request.topic)
        connection.send(self._build_frame(request, queue, connection.next_opaque(), oneway=True))

    def _remaining_ms(self, deadline_ms: int, topic: str) -> int:
        remaining_ms = deadline_ms - self._session.now_ms()
        if remaining_ms <= 0:
            raise TimedOutError(
                f"The message to topic '{topic}' was not sent: the timeout passed before the first attempt. "
                "Pass a longer timeout_ms."
            )
        return remaining_ms


def _no_master(queue: Queue) -> UnreachableError:
    return UnreachableError(
        f"The nameservers list no address of the master of broker '{queue.broker_name}', which has {queue}. "
        "Check that the broker runs and is registered."
    )


class _SendFailures:
    """The failed attempts of one send."""

    __slots__ = ("_attempts", "last_broker", "retries", "topic", "unsafe")

    def __init__(self, topic: str, retries: int) -> None:
        self.topic = topic
        self._attempts: list[Attempt] = []
        self.retries = RetryPolicy(retries)
        self.last_broker = ""
        self.unsafe: Receipt | None = None  # of a broker that stored the message with a late flush or replica

    def record_unsafe(self, receipt: Receipt) -> int:
        """Note a receipt that is not safe, and return the pause before the next attempt: none."""
        self.unsafe = receipt
        self.retries.used += 1
        self.last_broker = receipt.queue.broker_name
        return 0

    def expire(self, failed: Attempt) -> NoReturn:
        """Note an attempt that could not be made before the deadline, and raise."""
        self._attempts.append(failed)
        raise SendTimedOutError(self.topic, self._attempts) from failed.error

    def record(self, failed: Attempt, now_ms: int, deadline_ms: int, is_alone: bool) -> int | None:
        """Note a failed attempt, and return the pause before the next one.

        When no attempt is left, return None if a broker has stored the message, and raise otherwise.
        """
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
