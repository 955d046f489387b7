"""The producer: sends messages to the queues of a topic.

async with Producer("127.0.0.1:9876", group="signup") as producer:
    receipt = await producer.send(Message("user-registered", b"...", tag="web", keys=["u-42"]))
"""

from __future__ import annotations

import asyncio
import binascii
import secrets
from base64 import urlsafe_b64decode
from collections.abc import Callable, Coroutine, Mapping, Sequence
from itertools import count
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, Unpack

from skyrocket.client.errors import InvalidMessageError, OverloadedError, UnreachableError
from skyrocket.client.message import Message, check_size, require_message
from skyrocket.client.options import ClientKeywords, ClientOptions, Nameservers, resolve_options
from skyrocket.client.producer.batched_path import BatchedPath
from skyrocket.client.producer.broker_latency import STEPS, LatencyTable
from skyrocket.client.producer.compression import OVER_BYTES_DEFAULT, Compression
from skyrocket.client.producer.delivery import Delivery, DeliverySettings
from skyrocket.client.producer.fast_path import FastPath, SendRoutes
from skyrocket.client.producer.general_path import GeneralPath
from skyrocket.client.producer.interceptors import ProducerInterceptor, intercept_sends
from skyrocket.client.producer.options import BATCH_BYTES_MAX, BATCH_MESSAGES_MAX, GROUP_DEFAULT
from skyrocket.client.producer.queue_selection import QueueSelector
from skyrocket.client.producer.request_reply import RequestReply
from skyrocket.client.producer.send_strategy import (
    NotStarted,
    OpenScope,
    ScopedPath,
    SendScope,
    SendStrategy,
    TryEnqueue,
    not_started,
)
from skyrocket.client.producer.sequence import SequenceStamps, StampCounts
from skyrocket.client.producer.trace.dispatcher import TraceDispatcher
from skyrocket.client.producer.trace.send_trace import SendTrace
from skyrocket.client.queues import Queue
from skyrocket.client.receipt import Receipt
from skyrocket.client.received import Received
from skyrocket.client.session.identity import new_id_factory
from skyrocket.client.session.members import SessionMember
from skyrocket.client.session.names import check_group, check_topic
from skyrocket.client.session.namespaces import with_namespace, without_namespace
from skyrocket.client.session.session import Session
from skyrocket.net.router import Handler
from skyrocket.protocol.headers import RecallMessageRequestHeader, RecallMessageResponseHeader
from skyrocket.protocol.limits import BODY_BYTES_MAX
from skyrocket.protocol.message.compression import LEVEL_DEFAULT
from skyrocket.protocol.message.properties import MESSAGE_REGION
from skyrocket.protocol.message.trace import TracedKind
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.system_names import RETRY_PREFIX, TRACE_GROUP_PREFIX, TRACE_TOPIC

if TYPE_CHECKING:
    from skyrocket.client.helpers.tracing import Tracing

TRACE_TIMEOUT_MS: Final = 5_000  # of a send to the trace topic
TRACED_GROUP_MAX: Final = 64  # characters of a group's name in that of its trace's group
_trace_numbers = count(1)

ReceiptCallback = Callable[["asyncio.Future[Receipt]"], object]
"""Called with the finished future: `future.result()` returns the receipt or raises the error."""


class Producer:
    """Sends messages. Start it with `async with`, or with `start` and `close`; use it in one event loop.

    A timeout covers the whole send with all its attempts. After SendFailedError and TimedOutError, check `outcome_is_unknown`:
    when only the acknowledgement was lost, a broker may have stored the message, and sending it again may store it twice.
    """

    def __init__(
        self,
        nameservers: Nameservers = None,
        *,
        options: ClientOptions | None = None,
        group: str = GROUP_DEFAULT,
        timeout_ms: int = 3_000,
        retries: int = 2,
        attempt_timeout_ms: int | None = None,
        retry_unsafe: bool = False,
        avoid_slow_brokers: bool | Sequence[tuple[int, int]] = False,
        compression: str | None = "zlib",
        compress_over_bytes: int = OVER_BYTES_DEFAULT,
        compression_level: int = LEVEL_DEFAULT,
        body_bytes_max: int = BODY_BYTES_MAX,
        linger_ms: float | None = None,
        batch_bytes_max: int = BATCH_BYTES_MAX,
        batch_messages_max: int = BATCH_MESSAGES_MAX,
        stamp: bool = False,
        interceptors: Sequence[ProducerInterceptor] = (),
        trace: bool | str = False,
        tracing: Tracing | None = None,
        **keywords: Unpack[ClientKeywords],
    ) -> None:
        """`ProducerOptions` explains the options, and `ClientOptions` those that `keywords` set."""
        self._options = resolve_options(options, nameservers, keywords)
        self.group = check_group(group)
        self.timeout_ms = timeout_ms
        self._settings = DeliverySettings(
            retries=retries, attempt_timeout_ms=attempt_timeout_ms, retry_unsafe=retry_unsafe, reads_region=bool(trace)
        )
        steps = STEPS if avoid_slow_brokers is True else avoid_slow_brokers
        self._latency = None if steps is False else LatencyTable(steps)
        self._compression = Compression(compression, compress_over_bytes, compression_level)
        self._body_bytes_max = body_bytes_max
        self._linger_ms = linger_ms
        self._batch_bytes_max = batch_bytes_max
        self._batch_messages_max = batch_messages_max
        self._stamps = SequenceStamps(secrets.token_hex(8)) if stamp else None
        self._trace = SendTrace(make_trace_dispatcher(self._options, group, trace, "PRODUCE"), group) if trace else None
        self._has_scope = tracing is not None or self._trace is not None or bool(interceptors)
        inner: OpenScope = tracing.sending if tracing else SendScope
        around = self._trace.around if self._trace is not None else None
        self._open_scope = intercept_sends(interceptors, around(inner) if around else inner)
        self._open_half_scope = intercept_sends(interceptors, around(inner, TracedKind.HALF) if around else inner)
        self._session: Session | None = None
        self._general: GeneralPath | None = None
        self._request_reply: RequestReply | None = None
        self._strategy: SendStrategy = NotStarted()
        self._try_enqueue: TryEnqueue | None = None  # the strategy's, one attribute nearer
        self._tasks: set[asyncio.Task[Receipt]] = set()  # of send_soon
        self._member = SessionMember(group=with_namespace(self._options.namespace, group), handlers=self._handlers())

    # --- start and close

    async def start(self) -> None:
        """Connect to the session and choose the send strategy. Does nothing when the producer is running."""
        if self._session is not None:
            return
        session = await Session.acquire(self._options)
        if self._trace is not None:
            await self._trace.dispatcher.start()
        session.join(self._member)
        self._session = session
        delivery = Delivery(session, self._member.group, self._settings, self._latency, self._stamps)
        self._general = GeneralPath(
            delivery,
            new_id_factory(session.address),
            self._compression,
            namespace=self._options.namespace,
            timeout_ms=self.timeout_ms,
            body_bytes_max=self._body_bytes_max,
        )
        self._request_reply = RequestReply(session, self._general, self._open_scope)
        self._strategy = self._choose_strategy(session, self._general)
        self._try_enqueue = self._strategy.try_enqueue

    def _choose_strategy(self, session: Session, general: GeneralPath) -> SendStrategy:
        """Choose how `send` works until the producer closes, from options that do not change."""
        strategy: SendStrategy = general
        if self._linger_ms is not None:
            strategy = BatchedPath(
                general,
                session.in_flight,
                linger_ms=self._linger_ms,
                bytes_max=self._batch_bytes_max,
                messages_max=self._batch_messages_max,
            )
        elif general.delivery.allows_fast_path and not self._options.namespace and not self._has_scope:
            open_connection, round_robin = session.dialer.open_connection, general.delivery.round_robin
            routes = SendRoutes(self._member.group, session.routes, open_connection, round_robin)
            plain_bytes_max = min(self._body_bytes_max, self._compression.plain_bytes_max)
            strategy = FastPath(general, routes, session.in_flight, session.back_pressure, plain_bytes_max)
        return ScopedPath(strategy, self._open_scope) if self._has_scope else strategy

    async def close(self) -> None:
        """Finish all sends that have begun, unregister from the brokers, and release the session."""
        if self._session is None:
            return
        await self.flush()
        session, self._session, self._general, self._request_reply = self._session, None, None, None
        self._strategy.close()
        self._strategy, self._try_enqueue = NotStarted(), None
        if self._trace is not None:
            await self._trace.dispatcher.close()
        await session.leave(self._member)
        await session.release()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    async def flush(self) -> None:
        """Wait until every message of `send_soon`, and every message in a batch, has been acknowledged or has failed."""
        await self._strategy.drain()
        while self._tasks:
            await asyncio.wait(self._tasks)

    @property
    def client_id(self) -> str:
        """The id under which brokers know this client."""
        return self._open_session().client_id

    @property
    def stamped(self) -> StampCounts | None:
        """The producer's id and the last sequence number of each queue. None without `stamp`."""
        if self._stamps is None:
            return None
        namespace, counts = self._options.namespace, self._stamps.counts
        last = {queue._replace(topic=without_namespace(namespace, queue.topic)): number for queue, number in counts.items()}
        return StampCounts(self._stamps.producer_id, last)

    def _open_session(self) -> Session:
        if self._session is None:
            raise not_started()
        return self._session

    def _open_general(self) -> GeneralPath:
        if self._general is None:
            raise not_started()
        return self._general

    def _handlers(self) -> Mapping[int, Handler]:
        """Return the handlers of requests that brokers send to this producer's group."""
        return {}

    # --- sending

    def send(
        self,
        message: Message,
        *,
        queue: Queue | None = None,
        selector: QueueSelector | None = None,
        timeout_ms: int | None = None,
    ) -> Coroutine[Any, Any, Receipt]:
        """Send a message and wait for the broker's acknowledgement: `receipt = await producer.send(message)`.

        The topic's queues take turns, unless `queue`, `selector` or the message's sharding key determines the queue.
        """
        if message.__class__ is not Message:
            require_message(message, "send")
        return self._strategy.send(message, queue, selector, timeout_ms)

    def send_soon(
        self,
        message: Message,
        callback: ReceiptCallback | None = None,
        *,
        queue: Queue | None = None,
        selector: QueueSelector | None = None,
        timeout_ms: int | None = None,
    ) -> asyncio.Future[Receipt]:
        """Send a message without waiting: return a future of the receipt. `callback` is called with the finished future.

        At most `limits.in_flight_max` messages are in flight at a time. OverloadedError is raised when `limits.soon_max` messages
        wait: a loop that sends without end must await at times.
        """
        if message.__class__ is not Message:
            require_message(message, "send_soon")
        if self._try_enqueue is not None and queue is None and selector is None and timeout_ms is None:
            future = self._try_enqueue(message)
            if future is not None:  # the message is in a batch, so no task has to wait for it
                return future if callback is None else _add_callback(future, callback)
        if len(self._tasks) >= self._options.limits.soon_max:
            raise OverloadedError(
                f"{len(self._tasks)} messages of send_soon wait to be sent; this one was not accepted. "
                "Await some of the futures, or raise ClientLimits.soon_max."
            )
        task = asyncio.get_running_loop().create_task(self._strategy.send(message, queue, selector, timeout_ms))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task if callback is None else _add_callback(task, callback)

    async def send_oneway(self, message: Message, *, queue: Queue | None = None, selector: QueueSelector | None = None) -> str:
        """Write a message to a connection once and return its id. The broker sends no acknowledgement."""
        require_message(message, "send_oneway")
        general = self._open_general()
        with self._open_scope([message]) as scope:
            request = general.build_request(scope.message)
            choose = general.choose_queue(scope.message, queue, selector)
            await general.delivery.send_oneway(request, general.deadline_ms(), choose)
        return request.message_id

    async def send_batch(
        self, messages: Sequence[Message], *, queue: Queue | None = None, timeout_ms: int | None = None
    ) -> Receipt:
        """Send all messages or none, in one request, to one queue, in this order.

        The receipt has all ids, and the queue offset of the first message.
        """
        if isinstance(messages, Message):
            raise InvalidMessageError("send_batch takes a list of messages, not one Message. Send a single message with send.")
        if not messages:
            raise InvalidMessageError("A batch needs at least one message; this one is empty.")
        first = messages[0]
        for message in messages:
            require_message(message, "send_batch")
            check_size(message, self._body_bytes_max)
            if message.topic != first.topic:
                raise InvalidMessageError(
                    f"All messages of a batch must have one topic; this batch has '{first.topic}' and '{message.topic}'."
                )
            if message.is_delayed:
                raise InvalidMessageError("A batch cannot contain a delayed message. Send delayed messages with send.")
            if message.wait_until_stored != first.wait_until_stored:
                raise InvalidMessageError("All messages of a batch must have the same wait_until_stored.")
        if first.topic.startswith(RETRY_PREFIX):
            raise InvalidMessageError(f"Topic '{first.topic}' is a retry topic, which accepts no batches.")
        general = self._open_general()
        with self._open_scope(messages) as scope:
            request = general.build_batch_request(scope.messages)
            return scope.acknowledge(await general.deliver(request, scope.message, queue, None, timeout_ms))

    async def queues(self, topic: str) -> list[Queue]:
        """Return the queues that accept messages for a topic."""
        general = self._open_general()
        return [general.user_queue(queue) for queue in await general.find_queues(check_topic(topic))]

    async def recall(self, topic: str, recall_handle: str) -> str:
        """Cancel a timed message before its delivery and return its id. The handle is in the message's receipt."""
        session, general = self._open_session(), self._open_general()
        wire_topic = general.wire_topic(check_topic(topic))
        try:
            _, _, broker, _, _ = urlsafe_b64decode(recall_handle).decode().split(" ")
        except (binascii.Error, ValueError) as error:
            raise InvalidMessageError(
                f"{recall_handle!r} is not a recall handle. Pass the recall_handle of a timed message's receipt."
            ) from error
        await general.find_queues(topic)
        address = session.routes.address(broker)
        if address is None:
            raise UnreachableError(f"Topic '{topic}' has no broker named {broker}, which the recall handle refers to.")
        header = RecallMessageRequestHeader(
            producer_group=self._member.group, topic=wire_topic, recall_handle=recall_handle, rpc_broker_name=broker
        )
        response = await session.request_ok(address, RequestCode.RECALL_MESSAGE, header, timeout_ms=self.timeout_ms)
        message_id = response.header(RecallMessageResponseHeader).msg_id
        if self._trace is not None:
            self._trace.add_recall(topic, message_id, response.fields.get(MESSAGE_REGION, ""))
        return message_id

    # --- request and reply

    async def request(
        self,
        message: Message,
        *,
        timeout_ms: int | None = None,
        queue: Queue | None = None,
        selector: QueueSelector | None = None,
    ) -> Received:
        """Send a message and wait for the reply that a consumer sends with `reply_to`. The timeout covers both directions."""
        if self._request_reply is None:
            raise not_started()
        require_message(message, "request")
        return await self._request_reply.request(message, queue, selector, timeout_ms)

    async def reply_to(self, request: Received, body: bytes, *, timeout_ms: int | None = None) -> Receipt:
        """Reply to a request. Raise ReplyError when the message is not a request, SendFailedError when its sender is gone."""
        if self._request_reply is None:
            raise not_started()
        return await self._request_reply.reply_to(request, body, timeout_ms)


def make_trace_dispatcher(options: ClientOptions, group: str, trace: bool | str, role: str) -> TraceDispatcher:
    """Build the dispatcher that sends the message trace of a group, with a producer of its own. The trace topic has no namespace.

    `trace` is the topic; True: RocketMQ's own. `role` is PRODUCE or CONSUME.
    """
    topic = TRACE_TOPIC if trace is True else check_topic(str(trace))
    trace_group = f"{TRACE_GROUP_PREFIX}-{group[:TRACED_GROUP_MAX]}-{role}-{next(_trace_numbers)}"
    sender = Producer(options=resolve_options(options, None, {"namespace": ""}), group=trace_group, timeout_ms=TRACE_TIMEOUT_MS)
    return TraceDispatcher(topic, sender)


def _add_callback(future: asyncio.Future[Receipt], callback: ReceiptCallback) -> asyncio.Future[Receipt]:
    """Call `callback` when the future is done. The callback counts as having retrieved the error."""
    future.add_done_callback(callback)
    future.add_done_callback(_retrieve_error)
    return future


def _retrieve_error(future: asyncio.Future[Receipt]) -> None:
    if not future.cancelled():
        future.exception()
