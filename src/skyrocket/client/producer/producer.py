"""The producer.

async with Producer("127.0.0.1:9876", group="signup") as producer:
    receipt = await producer.send(Message("user-registered", b"...", tag="web", keys=["u-42"]))
"""

from __future__ import annotations

import asyncio
import binascii
import secrets
import ssl
import time
from base64 import urlsafe_b64decode
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, TypedDict

import msgspec

from skyrocket.client.errors import (
    ClientClosedError,
    InvalidMessageError,
    OverloadedError,
    ReplyError,
    RequestTimedOutError,
    UnreachableError,
)
from skyrocket.client.limits import ClientLimits
from skyrocket.client.message import Message, check_size, properties_text
from skyrocket.client.options import Nameservers, client_options
from skyrocket.client.producer.batcher import Batching, BatchKey
from skyrocket.client.producer.broker_latency import STEPS, LatencyTable
from skyrocket.client.producer.compression import OVER_BYTES_DEFAULT, Compression
from skyrocket.client.producer.delivery import Chooser, Delivery, DeliverySettings
from skyrocket.client.producer.fast_path import Express, Lanes
from skyrocket.client.producer.queue_selection import QueueSelector, by_hash
from skyrocket.client.producer.request_frames import SEND_CODE, Outgoing, batch_of, batch_of_parts
from skyrocket.client.producer.send_scope import Sending
from skyrocket.client.producer.sequence import Sequences
from skyrocket.client.queues import Queue
from skyrocket.client.receipt import Receipt
from skyrocket.client.received import Received
from skyrocket.client.session.identity import new_id_factory
from skyrocket.client.session.members import Member
from skyrocket.client.session.names import check_group, check_topic
from skyrocket.client.session.namespaces import with_namespace, without_namespace
from skyrocket.client.session.session import Session
from skyrocket.net.router import Handler
from skyrocket.protocol.headers import RecallMessageRequestHeader, RecallMessageResponseHeader
from skyrocket.protocol.limits import BODY_BYTES_MAX
from skyrocket.protocol.message import properties as p
from skyrocket.protocol.message.compression import LEVEL_DEFAULT
from skyrocket.protocol.message.message_id import UniqueIdFactory
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.system_names import REPLY_SUFFIX, RETRY_PREFIX

if TYPE_CHECKING:
    from skyrocket.client.helpers.tracing import Tracing
    from skyrocket.client.session.credentials import Credentials

GROUP_DEFAULT: Final = "PYTHON_PRODUCER"
MESSAGE_TYPE: Final = "MSG_TYPE"
_BATCH_BYTES = 256 * 1024
_BATCH_MESSAGES = 1_000

ReceiptCallback = Callable[["asyncio.Future[Receipt]"], object]
"""Called with the finished future: `future.result()` is the receipt, or raises what went wrong."""


class ProducerOptions(TypedDict, total=False):
    """What a producer is made with beside its nameservers; `Producer` tells the defaults."""

    group: str  # its members answer for one another's transactions
    timeout_ms: int  # of a whole send: route, connection, every attempt
    retries: int  # attempts beyond the first, at another broker where there is one
    attempt_timeout_ms: int | None  # of one attempt, where others may follow
    retry_unsafe: bool  # try elsewhere when a broker stored it, but a flush or its replica was late
    avoid_slow_brokers: bool | Sequence[tuple[int, int]]  # leave slow and failing ones alone: Apache's sendLatencyFaultEnable;
    # True: for as long as `latency.STEPS` says; or steps of your own, (latency_ms, pause_ms) each, such as SHORT_STEPS
    compression: str | None  # of bodies of compress_over_bytes and more: zlib, lz4, zstd or None
    compress_over_bytes: int
    compression_level: int  # 1, quick, to 9, small
    body_bytes_max: int  # larger bodies are refused here
    linger_ms: float | None  # how long a message may wait for others to share its request with; None: it does not
    batch_bytes_max: int  # of one such request, roughly
    batch_messages_max: int
    stamp: bool  # put producer id and a number per queue on each message, for the loss audit
    tracing: Tracing | None  # spans of OpenTelemetry
    namespace: str  # put before topics and groups, `shop%orders`, as Apache's clients do
    address_server: str  # http://host:8080/rocketmq/nsaddr, to be asked for nameservers
    tls: ssl.SSLContext | bool  # True: one that checks certificates and names
    credentials: Credentials | None  # requests are signed with them
    instance: str  # clients with different ones share no connection
    limits: ClientLimits | None  # every bound and period


class Producer:
    """Sends messages. Start it with `async with`, or with `start` and `close`; use it in one event loop.

    Time-outs are for the whole send, all attempts included. After SendFailedError and TimedOutError ask `outcome_is_unknown`: a
    message whose acknowledgement was lost may be stored nevertheless, so whoever sends it again may send it twice.
    """

    def __init__(
        self,
        nameservers: Nameservers = None,
        *,
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
        batch_bytes_max: int = _BATCH_BYTES,
        batch_messages_max: int = _BATCH_MESSAGES,
        stamp: bool = False,
        tracing: Tracing | None = None,
        namespace: str = "",
        address_server: str = "",
        tls: ssl.SSLContext | bool = False,
        credentials: Credentials | None = None,
        instance: str = "",
        limits: ClientLimits | None = None,
    ) -> None:
        """The options are explained at `ProducerOptions`."""
        self._options = client_options(
            nameservers,
            address_server=address_server,
            namespace=namespace,
            tls=tls,
            credentials=credentials,
            instance=instance,
            limits=limits,
        )
        self.group = check_group(group)
        self.timeout_ms = timeout_ms
        self._settings = DeliverySettings(retries=retries, attempt_timeout_ms=attempt_timeout_ms, retry_unsafe=retry_unsafe)
        steps = STEPS if avoid_slow_brokers is True else avoid_slow_brokers
        self._latency = None if steps is False else LatencyTable(steps)
        self._compression = Compression(compression, compress_over_bytes, compression_level)
        self._body_bytes_max = body_bytes_max
        self._batching: Batching | None = None
        self._collecting: Batching | None = None  # the same where messages need nothing but to be collected
        self._batching_limits = None if linger_ms is None else (linger_ms, batch_bytes_max, batch_messages_max)
        self._sequences = Sequences(secrets.token_hex(8)) if stamp else None
        self._tracing = tracing
        self._sending: Callable[[Sequence[Message]], AbstractContextManager[Sending]] = tracing.sending if tracing else Sending
        self._added: dict[str, str] | None = {p.INSTANCE_ID: namespace} if namespace else None
        self._is_plain = tracing is None and not namespace  # users' messages and receipts are those on the wire
        self._session: Session | None = None
        self._delivery: Delivery | None = None
        self._ids: UniqueIdFactory | None = None
        self._express: Express | None = None
        self._soon: set[asyncio.Task[Receipt]] = set()
        self._member = Member(group=with_namespace(namespace, group), handlers=self._handlers())
        self._requested: set[str] = set()  # topics whose brokers know us, so that they can push replies to us

    # --- life

    async def start(self) -> None:
        if self._session is not None:
            return
        session = await Session.acquire(self._options)
        session.join(self._member)
        self._session = session
        self._ids = new_id_factory(session.address)
        self._delivery = Delivery(session, self._member.group, self._settings, self._latency, self._sequences)
        if self._batching_limits is not None:
            self._batching = Batching(self._send_together, session.gate, *self._batching_limits, self._body_bytes_max)
            self._collecting = self._batching if self._is_plain else None
        elif self._delivery.is_ordinary and self._is_plain:
            lanes = Lanes(self._member.group, session.routes, session.dialer.open_connection, self._delivery.turns)
            self._express = Express(self._delivery, lanes, session.gate, self._ids, self._small_bytes_max())

    async def close(self) -> None:
        """What was taken is sent first. Then the brokers hear that we leave."""
        if self._session is None:
            return
        await self.flush()
        session, self._session, self._delivery, self._express = self._session, None, None, None
        if self._batching is not None:
            self._batching.close()
            self._batching = self._collecting = None
        await session.leave(self._member)
        await session.release()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    async def flush(self) -> None:
        """Until everything that was given to `send_soon`, or lingers, has been answered or has failed."""
        if self._batching is not None:
            await self._batching.drain()
        while self._soon:
            await asyncio.wait(self._soon)

    @property
    def client_id(self) -> str:
        return self._open_session().client_id

    def _open_session(self) -> Session:
        if self._session is None:
            raise ClientClosedError("The producer is closed, or was not started: use `async with`.")
        return self._session

    def _handlers(self) -> Mapping[int, Handler]:
        """What brokers may ask this producer's group."""
        return {}

    # --- sending

    async def send(
        self,
        message: Message,
        *,
        queue: Queue | None = None,
        selector: QueueSelector | None = None,
        timeout_ms: int | None = None,
    ) -> Receipt:
        """Until a broker has it. To each queue in turn, unless a sharding key, `queue` or `selector` say to which."""
        express = self._express
        if express is not None and queue is None and selector is None and (lane := express.lane(message)) is not None:
            return await express.send(lane, message, self.timeout_ms if timeout_ms is None else timeout_ms)
        collecting = self._collecting
        if collecting is not None and queue is None and selector is None and timeout_ms is None:
            future = collecting.try_add(message)
            if future is not None:
                return await future
        if self._tracing is not None:
            with self._sending([message]) as sending:
                return sending.acknowledged(self._told(await self._sent(sending.message, queue, selector, timeout_ms)))
        receipt = await self._sent(message, queue, selector, timeout_ms)
        return receipt if self._added is None else self._told(receipt)

    def _sent(
        self, message: Message, queue: Queue | None, selector: QueueSelector | None, timeout_ms: int | None
    ) -> Awaitable[Receipt]:
        """On its way: what is left is to wait, for an answer as a rule. A plain function, since each that is awaited costs."""
        delivery, batching, body = self._delivery or self._opened(), self._batching, message.body
        if batching is not None and selector is None and timeout_ms is None and batching.takes(message):
            return self._collected(batching, message, queue)
        if not self._compression.wants(body):
            outgoing = self._outgoing(message, body, 0, None)
        elif self._compression.is_slow(body):
            return self._sent_aside(message, queue, selector, timeout_ms)
        else:
            outgoing = self._prepared(message)
        is_open = queue is None and selector is None and not message.sharding_key
        choose = None if is_open else self._chooser(message, queue, selector)
        return delivery.deliver(outgoing, delivery.now_ms() + (self.timeout_ms if timeout_ms is None else timeout_ms), choose)

    async def _sent_aside(
        self, message: Message, queue: Queue | None, selector: QueueSelector | None, timeout_ms: int | None
    ) -> Receipt:
        """Compressing a large body takes milliseconds, in which the loop can do something else."""
        check_size(message, self._body_bytes_max)
        body, bits = await asyncio.to_thread(self._compression.pack, message.body)
        outgoing, choose = self._outgoing(message, body, bits, None), self._chooser(message, queue, selector)
        return await self._opened().deliver(outgoing, self._deadline_ms(timeout_ms), choose)

    def _small_bytes_max(self) -> int:
        """The largest body that is neither compressed nor refused."""
        compressed_bytes = self._compression.wanted_from_bytes
        return min(self._body_bytes_max, BODY_BYTES_MAX if compressed_bytes is None else compressed_bytes - 1)

    def _told(self, receipt: Receipt) -> Receipt:
        """With the queue's name as the user knows it."""
        return msgspec.structs.replace(receipt, queue=self._users(receipt.queue)) if self._options.namespace else receipt

    def send_soon(
        self,
        message: Message,
        callback: ReceiptCallback | None = None,
        *,
        queue: Queue | None = None,
        selector: QueueSelector | None = None,
        timeout_ms: int | None = None,
    ) -> asyncio.Future[Receipt]:
        """The same without waiting: a future of the receipt. `callback` is called with it when it is done.

        `limits.in_flight_max` of them are under way at a time. OverloadedError when `limits.soon_max` wait: a loop that sends
        without end has to await at times.
        """
        collecting = self._collecting
        if collecting is not None and queue is None and selector is None and timeout_ms is None:
            future = collecting.try_add(message)
            if future is not None:  # it is in a batch: no task is needed to wait for that
                return future if callback is None else _calling(future, callback)
        if len(self._soon) >= self._options.limits.soon_max:
            raise OverloadedError(f"{len(self._soon)} messages wait to be sent; this one was not taken.")
        task = asyncio.get_running_loop().create_task(self.send(message, queue=queue, selector=selector, timeout_ms=timeout_ms))
        self._soon.add(task)
        task.add_done_callback(self._soon.discard)
        return task if callback is None else _calling(task, callback)

    async def send_oneway(self, message: Message, *, queue: Queue | None = None, selector: QueueSelector | None = None) -> str:
        """Written to a connection once; no answer comes, and nothing tells whether it arrived. The message's id."""
        delivery = self._opened()
        with self._sending([message]) as sending:
            outgoing = self._prepared(sending.message)
            await delivery.oneway(outgoing, self._deadline_ms(None), self._chooser(message, queue, selector))
        return outgoing.message_id

    async def send_batch(
        self, messages: Sequence[Message], *, queue: Queue | None = None, timeout_ms: int | None = None
    ) -> Receipt:
        """All or none, in one request, to one queue, in this order. Its receipt names all ids, and the first one's offset."""
        if not messages:
            raise InvalidMessageError("A batch has no message.")
        first = messages[0]
        for message in messages:
            check_size(message, self._body_bytes_max)
            if message.topic != first.topic:
                raise InvalidMessageError(f"A batch has one topic; this one has '{first.topic}' and '{message.topic}'.")
            if message.is_delayed:
                raise InvalidMessageError("A delayed message cannot be in a batch.")
            if message.wait_until_stored != first.wait_until_stored:
                raise InvalidMessageError("The messages of a batch differ in wait_until_stored.")
        if first.topic.startswith(RETRY_PREFIX):
            raise InvalidMessageError("A retry topic takes no batches.")
        self._opened()
        with self._sending(messages) as sending:
            return sending.acknowledged(await self._deliver(self._batch(sending.messages), first, queue, None, timeout_ms))

    async def queues(self, topic: str) -> list[Queue]:
        """Those that a message to this topic may be sent to."""
        queues = await self._opened().queues(self._wire(check_topic(topic)), self._deadline_ms(None))
        return [self._users(queue) for queue in queues]

    async def recall(self, topic: str, recall_handle: str) -> str:
        """Take a timed message back before it is delivered; its id. The handle is in its receipt."""
        session, wire_topic = self._open_session(), self._wire(check_topic(topic))
        try:
            _, _, broker, _, _ = urlsafe_b64decode(recall_handle).decode().split(" ")
        except (binascii.Error, ValueError) as error:
            raise InvalidMessageError(f"{recall_handle!r} is not a handle from a receipt.") from error
        await self._opened().queues(wire_topic, self._deadline_ms(None))
        address = session.routes.address(broker)
        if address is None:
            raise UnreachableError(f"Topic '{topic}' has no broker called {broker}.")
        header = RecallMessageRequestHeader(
            producer_group=self._member.group, topic=wire_topic, recall_handle=recall_handle, rpc_broker_name=broker
        )
        answer = await session.ask_for(address, RequestCode.RECALL_MESSAGE, header, timeout_ms=self.timeout_ms)
        return answer.header(RecallMessageResponseHeader).msg_id

    # --- request and reply

    async def request(
        self,
        message: Message,
        *,
        timeout_ms: int | None = None,
        queue: Queue | None = None,
        selector: QueueSelector | None = None,
    ) -> Received:
        """Send it, and wait for the reply that some consumer gives with `reply_to`. The time is for both ways together."""
        session = self._open_session()
        limit_ms = self.timeout_ms if timeout_ms is None else timeout_ms
        deadline_ms = session.now_ms() + limit_ms
        await self._introduce(message.topic, deadline_ms)
        correlation_id = secrets.token_hex(16)
        asking = {p.CORRELATION_ID: correlation_id, p.REPLY_TO_CLIENT: session.client_id, p.TIME_TO_LIVE: str(limit_ms)}
        reply = session.replies.expect(correlation_id)
        try:
            with self._sending([message]) as sending:
                outgoing = self._prepared(sending.message, asking)
                choose = self._chooser(message, queue, selector)
                sending.acknowledged(await self._opened().deliver(outgoing, deadline_ms, choose))
            try:
                async with asyncio.timeout(max(0, deadline_ms - session.now_ms()) / 1000):
                    return await reply
            except TimeoutError as error:
                raise RequestTimedOutError(
                    f"A request to topic '{message.topic}' was sent, and not replied to in {limit_ms} ms."
                ) from error
        finally:
            session.replies.forget(correlation_id)

    async def _introduce(self, topic: str, deadline_ms: int) -> None:
        """A broker pushes a reply over the connection of the client that asked, which it knows from heartbeats."""
        if topic not in self._requested:
            await self._opened().queues(self._wire(topic), deadline_ms)
            await self._open_session().beat()
            if len(self._requested) >= self._options.limits.topics_max:
                self._requested.clear()  # they are introduced once more, which does no harm
            self._requested.add(topic)

    async def reply_to(self, request: Received, body: bytes, *, timeout_ms: int | None = None) -> Receipt:
        """Answer a request. ReplyError when the message is none; SendFailedError when its sender is gone."""
        cluster = request.properties.get(p.CLUSTER)
        correlation_id = request.properties.get(p.CORRELATION_ID)
        reply_to = request.properties.get(p.REPLY_TO_CLIENT)
        if not cluster or not correlation_id or not reply_to:
            raise ReplyError(f"Message {request.message_id} is no request: it does not say whom to reply to.")
        properties = {
            MESSAGE_TYPE: "reply",
            p.CORRELATION_ID: correlation_id,
            p.REPLY_TO_CLIENT: reply_to,
            p.TIME_TO_LIVE: request.properties.get(p.TIME_TO_LIVE, str(self.timeout_ms)),
        }
        message = Message(cluster + REPLY_SUFFIX, body)
        with self._sending([message]) as sending:
            outgoing = self._prepared(sending.message, properties)
            outgoing.code = RequestCode.SEND_REPLY_MESSAGE_V2
            return sending.acknowledged(await self._deliver(outgoing, message, None, None, timeout_ms))

    # --- the way of a message

    def _opened(self) -> Delivery:
        self._open_session()
        assert self._delivery is not None
        return self._delivery

    def _deadline_ms(self, timeout_ms: int | None) -> int:
        return self._open_session().now_ms() + (self.timeout_ms if timeout_ms is None else timeout_ms)

    def _wire(self, topic: str) -> str:
        namespace = self._options.namespace
        return with_namespace(namespace, topic) if namespace else topic

    def _users(self, queue: Queue) -> Queue:
        namespace = self._options.namespace
        return queue._replace(topic=without_namespace(namespace, queue.topic)) if namespace else queue

    def _prepared(self, message: Message, added: Mapping[str, str] | None = None, sys_flag: int = 0) -> Outgoing:
        body, bits = self._compression.pack(message.body)
        return self._outgoing(message, body, bits | sys_flag, added)

    def _outgoing(self, message: Message, body: bytes, sys_flag: int, added: Mapping[str, str] | None) -> Outgoing:
        if len(message.body) > self._body_bytes_max:
            check_size(message, self._body_bytes_max)
        assert self._ids is not None
        message_id, topic = self._ids.next(time.time_ns() // 1_000_000), message.topic
        if self._added is not None:
            added, topic = {**self._added, **(added or {})}, self._wire(topic)
        properties = properties_text(message, message_id, added)
        return Outgoing(topic, SEND_CODE, message_id, properties, body, sys_flag=sys_flag, flag=message.flag)

    def _batch(self, messages: Sequence[Message]) -> Outgoing:
        assert self._ids is not None
        now_ms, new_id = time.time_ns() // 1_000_000, self._ids.next
        return batch_of(self._wire(messages[0].topic), [(message, new_id(now_ms)) for message in messages], new_id(now_ms))

    async def _deliver(
        self,
        outgoing: Outgoing,
        message: Message,
        queue: Queue | None,
        selector: QueueSelector | None,
        timeout_ms: int | None,
    ) -> Receipt:
        choose = self._chooser(message, queue, selector)
        return self._told(await self._opened().deliver(outgoing, self._deadline_ms(timeout_ms), choose))

    def _chooser(self, message: Message, queue: Queue | None, selector: QueueSelector | None) -> Chooser | None:
        if queue is not None:
            chosen = queue._replace(topic=self._wire(message.topic))
            return lambda _: chosen
        if selector is not None:
            return lambda queues: selector([self._users(each) for each in queues], message)._replace(
                topic=self._wire(message.topic)
            )
        key = message.sharding_key
        return (lambda queues: by_hash(queues, key)) if key else None

    # --- batches that form by themselves

    async def _collected(self, batching: Batching, message: Message, queue: Queue | None) -> Receipt:
        check_size(message, self._body_bytes_max)
        if queue is None and message.sharding_key:
            queues = await self._opened().queues(self._wire(message.topic), self._deadline_ms(None))
            queue = self._users(by_hash(queues, message.sharding_key))
        return await (await batching.add(message, queue))

    async def _send_together(self, key: BatchKey, messages: list[Message], properties: list[str]) -> tuple[Receipt, list[str]]:
        delivery, ids, now_ms = self._opened(), self._ids, time.time_ns() // 1_000_000
        assert ids is not None
        if len(messages) == 1:
            outgoing = self._prepared(messages[0])
            own_ids = [outgoing.message_id]
        else:
            own_ids = ids.several(now_ms, len(messages))
            outgoing = batch_of_parts(self._wire(key.topic), messages, properties, own_ids, ids.next(now_ms))
        queue = key.queue
        choose = (lambda _: queue._replace(topic=outgoing.topic)) if queue is not None else None
        return await delivery.attempt(outgoing, self._deadline_ms(None), choose), own_ids


def _calling(future: asyncio.Future[Receipt], callback: ReceiptCallback) -> asyncio.Future[Receipt]:
    """With a callback that is told how it ended; an error counts as seen then."""
    future.add_done_callback(callback)
    future.add_done_callback(_looked_at)
    return future


def _looked_at(future: asyncio.Future[Receipt]) -> None:
    if not future.cancelled():
        future.exception()
