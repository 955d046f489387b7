"""The consumer: messages of a group's topics, for a loop or for handlers, as they come.

    async with Consumer("127.0.0.1:9876", group="coupons", topics={"user-registered": "web || app"}, start="first") as consumer:
        async for message in consumer:
            ...

or, with handlers:

    consumer = Consumer("127.0.0.1:9876", group="coupons")

    @consumer.on("user-registered", "web || app")
    async def grant(message): ...

    await consumer.run()
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar, Unpack

from skyrocket.client.consumer.dispatch.work_batch import Hand
from skyrocket.client.consumer.engine import Consuming, ConsumingSettings
from skyrocket.client.consumer.handlers import Failure, Handle, Handler, RetryLater, handler
from skyrocket.client.consumer.limits import ConsumerLimits
from skyrocket.client.consumer.offsets.start_position import Start, start_position
from skyrocket.client.consumer.options import BROADCASTER, check_options
from skyrocket.client.consumer.strategies import Averagely, Strategy
from skyrocket.client.consumer.subscription import Expression, Subscription, Topics, subscription, topics_wanted
from skyrocket.client.errors import ClientClosedError, ConfigurationError
from skyrocket.client.options import ClientKeywords, ClientOptions, Nameservers, resolve_options
from skyrocket.client.queues import Queue
from skyrocket.client.received import Received
from skyrocket.client.session.names import check_group
from skyrocket.client.session.namespaces import with_namespace, without_namespace
from skyrocket.client.session.session import Session
from skyrocket.protocol.message.tags import EVERY_TAG
from skyrocket.protocol.system_names import retry_topic

if TYPE_CHECKING:
    from skyrocket.client.helpers.tracing import Tracing

log = logging.getLogger(__name__)

H = TypeVar("H", bound=Handle)


class Consumer:
    """One member of a group. Start it with `async with`, with `run`, or with `start` and `close`; use it in one event loop.

    In a loop, a message is acknowledged when the next one is asked for, and when `async with` is left without an exception. When
    it is left by one, the message at hand is given back and comes again later. Delivery is at least once.
    """

    def __init__(
        self,
        nameservers: Nameservers = None,
        *,
        options: ClientOptions | None = None,
        group: str,
        topics: Topics | None = None,
        start: Start = "last",
        concurrency: int = 20,
        orderly: bool = False,
        auto_commit: bool = True,
        broadcasting: bool = False,
        offsets_folder: Path | str | None = None,
        retries_max: int | None = None,
        strategy: Strategy | None = None,
        close_timeout_ms: int = 30_000,
        consumer_limits: ConsumerLimits | None = None,
        tracing: Tracing | None = None,
        **keywords: Unpack[ClientKeywords],
    ) -> None:
        """`ConsumerOptions` explains the options, and `ClientOptions` those that `keywords` set."""
        self._options = resolve_options(options, nameservers, keywords)
        if broadcasting and not self._options.instance:
            self._options = resolve_options(self._options, None, {"instance": BROADCASTER})
        check_options(
            concurrency=concurrency,
            orderly=orderly,
            auto_commit=auto_commit,
            broadcasting=broadcasting,
            retries_max=retries_max,
        )
        self.group = check_group(group)
        self._settings = ConsumingSettings(
            group=with_namespace(self._options.namespace, group),
            start=start_position(start),
            concurrency=concurrency,
            orderly=orderly,
            auto_commit=auto_commit,
            broadcasting=broadcasting,
            offsets_folder=None if offsets_folder is None else Path(offsets_folder),
            retries_max=retries_max,
            strategy=strategy or Averagely(),
            limits=consumer_limits or ConsumerLimits(),
        )
        self._close_timeout_ms = close_timeout_ms
        self._tracing = tracing
        self._handlers: dict[str, Handler] = {}
        self._subscriptions: dict[str, Subscription] = {}
        for topic, expression in topics_wanted(topics).items():
            self._subscribe(topic, expression)
        self._paused: set[str] = set()
        self._is_paused = False
        self._consuming: Consuming | None = None
        self._pool: concurrent.futures.ThreadPoolExecutor | None = None
        self._stopped: asyncio.Event | None = None

    # --- what it wants

    def on(self, topic: str = "", expression: Expression | None = None, *, batch: int = 0) -> Callable[[H], H]:
        """Register a handler: of this topic, or without a topic of all that have none. It subscribes, too, where that was not
        done. With `batch` it gets lists of up to so many messages. Plain functions run in threads."""
        if self._consuming is not None:
            raise ConfigurationError("Handlers are registered before the consumer starts.")
        if topic and (expression is not None or topic not in self.topics):
            for name, wanted in topics_wanted({topic: EVERY_TAG if expression is None else expression}).items():
                self._subscribe(name, wanted)

        def register(handle: H) -> H:
            if topic in self._handlers:
                raise ConfigurationError(f"Topic '{topic}' has a handler already.")
            self._handlers[topic] = handler(handle, batch)
            return handle

        return register

    @property
    def topics(self) -> list[str]:
        """Those that were asked for; the group's retry topic is always among what is consumed, and not named here."""
        own = retry_topic(self._settings.group)
        return [without_namespace(self._options.namespace, topic) for topic in self._subscriptions if topic != own]

    def subscribe(self, topic: str, expression: Expression = EVERY_TAG) -> None:
        """One more topic, or something else of one, also while it runs."""
        for name, wanted in topics_wanted({topic: expression}).items():
            self._subscribe(name, wanted)
        if self._consuming is not None:
            self._consuming.subscribed()

    def unsubscribe(self, topic: str) -> None:
        self._subscriptions.pop(with_namespace(self._options.namespace, topic), None)
        if self._consuming is not None:
            self._consuming.subscribed()

    def _subscribe(self, topic: str, expression: Expression) -> None:
        wire = with_namespace(self._options.namespace, topic)
        self._subscriptions[wire] = subscription(wire, expression, time.time_ns() // 1_000_000)

    # --- life

    async def start(self) -> None:
        """Returns when the group's brokers know us and our first queues are being pulled, where they can be reached."""
        if self._consuming is not None:
            return
        if not self._subscriptions:
            raise ConfigurationError(f"Group '{self.group}' consumes no topic: name topics, or register handlers.")
        for topic in self.topics if self._handlers and "" not in self._handlers else ():
            if topic not in self._handlers:
                raise ConfigurationError(f"Topic '{topic}' has no handler, while others have.")
        pool = None
        if any(not known.is_async for known in self._handlers.values()):
            pool = self._pool = concurrent.futures.ThreadPoolExecutor(self._settings.concurrency, f"skyrocket-{self.group}")
        session = await Session.acquire(self._options, consumer_group=self._settings.group)
        handlers = self._handlers if self._tracing is None else self._tracing.handlers(self._handlers, self.group)
        consuming = Consuming(session, self._settings, self._subscriptions, handlers, pool, is_paused=self._is_topic_paused)
        self._consuming = consuming
        try:
            await consuming.start()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """What is with handlers is finished first, for at most `close_timeout_ms`. Then offsets are committed, and the group
        hears that we leave."""
        consuming, self._consuming = self._consuming, None
        if consuming is None:
            return
        try:
            await consuming.close(self._close_timeout_ms)
        finally:
            if self._pool is not None:
                self._pool.shutdown(wait=False, cancel_futures=True)
                self._pool = None
            if self._stopped is not None:
                self._stopped.set()
            await consuming.session.release(consumer_group=self._settings.group)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._consuming is not None:
            await self.lay_down(error)
        await self.close()

    async def run(self) -> None:
        """With handlers: start, and go on until cancelled, or until `stop` or `close` is called."""
        if not self._handlers:
            raise ConfigurationError("A consumer without handlers is not run: use `async for`.")
        self._stopped = asyncio.Event()
        try:
            await self.start()
            await self._stopped.wait()
        finally:
            self._stopped = None
            await self.close()

    def stop(self) -> None:
        """Ends `run`."""
        if self._stopped is not None:
            self._stopped.set()

    # --- messages for a loop

    async def __aiter__(self) -> AsyncIterator[Received]:
        dispatching = self._running().dispatching
        if self._handlers:
            raise ConfigurationError("A consumer with handlers has no messages for a loop.")
        dispatching.acknowledge_own()  # a new loop asks for the next
        while (hand := await dispatching.next_hand()) is not None:
            done, rest, state = hand.done.append, hand.rest, hand.held.state
            try:
                while rest and not state.dropped:  # in the loop, where no other thread takes anything
                    if state.lease is not None and not hand.may_go_on():
                        break
                    message = hand.current = rest.popleft()
                    yield message
                    done(message)
                hand.current = None
            finally:
                dispatching.laid_down(hand)

    async def messages(self, most: int = 32) -> list[Received]:
        """The next ones, at least one and at most so many, for one who handles batches: asking again acknowledges what was given
        before. None are given once the consumer is closed."""
        if self._handlers:
            raise ConfigurationError("A consumer with handlers has no messages for a loop.")
        return await self._running().dispatching.next_batch(most)

    async def send_back(self, message: Received, delay_level: int = 0) -> None:
        """Instead of raising: this one is to come again later. It is still acknowledged in its turn, as handled."""
        if not await self._running().sending_back.send_back(message, delay_level):
            raise RetryLater(f"Message {message.message_id} could not be given back now.")

    async def lay_down(self, error: BaseException | None) -> None:
        """The message at hand when `async with` was left: done, given back, or, when the task or process ends, as it was."""
        consuming = self._running()
        for hand in list(consuming.dispatching.hands):
            messages = hand.laid_down()
            if messages and isinstance(error, Exception):
                log.warning("Message %s is given back: %r", messages[0].message_id, error)
                await consuming.settling.give_back(hand.held, Failure(messages, error))
            elif error is None:
                hand.done.extend(messages)
            consuming.dispatching.laid_down(hand)

    async def next_hand(self, taker: object) -> Hand | None:
        """For a loop in another thread, `taker`: what it left before is done, and these are the next. None: it is closed."""
        if self._handlers:
            raise ConfigurationError("A consumer with handlers has no messages for a loop.")
        dispatching = self._running().dispatching
        dispatching.acknowledge_own(taker)
        return await dispatching.next_hand(taker)

    # --- while it runs

    def pause(self, *topics: str) -> None:
        """Take no messages from these topics, or from any, until `resume`. What handlers have they finish."""
        self._paused.update(topics)
        self._is_paused = self._is_paused or not topics

    def resume(self, *topics: str) -> None:
        """Without topics: everything."""
        if topics:
            self._paused.difference_update(topics)
        else:
            self._paused.clear()
            self._is_paused = False
        if self._consuming is not None:
            self._consuming.resumed()

    def _is_topic_paused(self, topic: str) -> bool:
        return self._is_paused or (bool(self._paused) and without_namespace(self._options.namespace, topic) in self._paused)

    @property
    def queues(self) -> list[Queue]:
        """Those that are ours at present, the retry topic's left out."""
        return [self._users(queue) for queue in self._running().own_queues()]

    @property
    def client_id(self) -> str:
        return self._running().session.client_id

    async def commit(self) -> None:
        """Tell the brokers now how far we are; it happens every few seconds anyway."""
        await self._running().commit()

    def _users(self, queue: Queue) -> Queue:
        return queue._replace(topic=without_namespace(self._options.namespace, queue.topic))

    def _running(self) -> Consuming:
        if self._consuming is None:
            raise ClientClosedError("The consumer is closed, or was not started: use `async with`.")
        return self._consuming
