"""The consumer: delivers the messages of a group's topics to a loop or to handlers.

    async with Consumer("127.0.0.1:9876", group="coupons", topics={"user-registered": "web || app"}, start="first") as consumer:
        async for message in consumer:
            ...

Or with handlers:

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
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar, Unpack

from skyrocket.client.consumer.dispatch.load_shedding import Skipped, make_shedding
from skyrocket.client.consumer.dispatch.rate_limit import RateLimit
from skyrocket.client.consumer.dispatch.work_batch import WorkBatch
from skyrocket.client.consumer.engine import ConsumerEngine, EngineSettings
from skyrocket.client.consumer.handlers import HandlerFailure, HandlerFunction, MessageHandler, RetryLater, make_handler
from skyrocket.client.consumer.interceptors import ConsumerInterceptor, intercept_handlers
from skyrocket.client.consumer.limits import ConsumerLimits
from skyrocket.client.consumer.offsets.start_position import Start, parse_start
from skyrocket.client.consumer.options import BROADCAST_INSTANCE, check_options
from skyrocket.client.consumer.stop_signals import handle_stop_signals
from skyrocket.client.consumer.strategies import Averagely, Strategy
from skyrocket.client.consumer.subscription import Expression, Subscription, TopicSelection, make_subscription, parse_topics
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
    from skyrocket.client.consumer.consume_trace import ConsumeTrace
    from skyrocket.client.helpers.tracing import Tracing

log = logging.getLogger(__name__)

H = TypeVar("H", bound=HandlerFunction)


class Consumer:
    """A member of a consumer group. Start it with `async with`, `run`, or `start` and `close`; use it in one event loop.

    A loop acknowledges a message when it asks for the next one, and when the `async with` block ends without an exception. If
    the block ends with an exception, the current message is sent back and delivered again later. Delivery is at least once.
    """

    def __init__(
        self,
        nameservers: Nameservers = None,
        *,
        options: ClientOptions | None = None,
        group: str,
        topics: TopicSelection | None = None,
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
        skip_when_behind: int | None = None,
        skip_older_than: timedelta | int | None = None,
        rate_limit: float | None = None,
        interceptors: Sequence[ConsumerInterceptor] = (),
        trace: bool | str = False,
        tracing: Tracing | None = None,
        **keywords: Unpack[ClientKeywords],
    ) -> None:
        """`ConsumerOptions` explains the options, and `ClientOptions` those that `keywords` set."""
        self._options = resolve_options(options, nameservers, keywords)
        if broadcasting and not self._options.instance:
            self._options = resolve_options(self._options, None, {"instance": BROADCAST_INSTANCE})
        check_options(
            concurrency=concurrency,
            orderly=orderly,
            auto_commit=auto_commit,
            broadcasting=broadcasting,
            retries_max=retries_max,
        )
        self.group = check_group(group)
        self._settings = EngineSettings(
            group=with_namespace(self._options.namespace, group),
            start=parse_start(start),
            concurrency=concurrency,
            orderly=orderly,
            auto_commit=auto_commit,
            broadcasting=broadcasting,
            offsets_folder=None if offsets_folder is None else Path(offsets_folder),
            retries_max=retries_max,
            strategy=strategy or Averagely(),
            limits=consumer_limits or ConsumerLimits(),
            shedding=make_shedding(skip_when_behind, skip_older_than),
            rate_limit=None if rate_limit is None else RateLimit(rate_limit),
        )
        self._close_timeout_ms = close_timeout_ms
        self._tracing = tracing
        self._trace = _make_trace(self._options, group, trace) if trace else None
        self._interceptors = tuple(interceptors) if self._trace is None else (*interceptors, self._trace)
        self._handlers: dict[str, MessageHandler] = {}
        self._subscriptions: dict[str, Subscription] = {}
        for topic, expression in parse_topics(topics).items():
            self._subscribe(topic, expression)
        self._paused_topics: set[str] = set()
        self._is_paused = False
        self._engine: ConsumerEngine | None = None
        self._pool: concurrent.futures.ThreadPoolExecutor | None = None
        self._stop_requested: asyncio.Event | None = None

    # --- subscriptions and handlers

    def on(self, topic: str = "", expression: Expression | None = None, *, batch: int = 0) -> Callable[[H], H]:
        """Register a handler for a topic, or, without `topic`, for all topics that have none. Use it as a decorator.

        It also subscribes to the topic. With `batch` the handler gets lists of at most that many messages. Async functions run
        in the event loop, plain functions in threads.
        """
        if self._engine is not None:
            raise ConfigurationError("A handler must be registered before the consumer starts.")
        if topic and (expression is not None or topic not in self.topics):
            for name, parsed in parse_topics({topic: EVERY_TAG if expression is None else expression}).items():
                self._subscribe(name, parsed)

        def register(function: H) -> H:
            if topic in self._handlers:
                raise ConfigurationError(f"Topic '{topic}' has a handler already.")
            self._handlers[topic] = make_handler(function, batch)
            return function

        return register

    @property
    def topics(self) -> list[str]:
        """The subscribed topics, without the group's retry topic."""
        own = retry_topic(self._settings.group)
        return [without_namespace(self._options.namespace, topic) for topic in self._subscriptions if topic != own]

    def subscribe(self, topic: str, expression: Expression = EVERY_TAG) -> None:
        """Subscribe to a topic, or change the expression of a subscription. Also possible while the consumer runs."""
        for name, parsed in parse_topics({topic: expression}).items():
            self._subscribe(name, parsed)
        if self._engine is not None:
            self._engine.apply_subscriptions()

    def unsubscribe(self, topic: str) -> None:
        """Consume a topic no longer. Also possible while the consumer runs."""
        self._subscriptions.pop(with_namespace(self._options.namespace, topic), None)
        if self._engine is not None:
            self._engine.apply_subscriptions()

    def _subscribe(self, topic: str, expression: Expression) -> None:
        wire_topic = with_namespace(self._options.namespace, topic)
        self._subscriptions[wire_topic] = make_subscription(wire_topic, expression, time.time_ns() // 1_000_000)

    # --- start and close

    async def start(self) -> None:
        """Join the group. Returns when brokers have our heartbeat and the first queues are assigned, if they can be reached."""
        if self._engine is not None:
            return
        if not self._subscriptions:
            raise ConfigurationError(f"Group '{self.group}' subscribes to no topic. Pass `topics`, or register handlers.")
        for topic in self.topics if self._handlers and "" not in self._handlers else ():
            if topic not in self._handlers:
                raise ConfigurationError(f"Topic '{topic}' has no handler, but other topics have one. Register one with `on`.")
        if self._interceptors and not self._handlers:
            raise ConfigurationError(
                "Interceptors and `trace` are called around handlers, and this consumer has none. Register one with `on`."
            )
        pool = None
        if any(not handler.is_async for handler in self._handlers.values()):
            pool = self._pool = concurrent.futures.ThreadPoolExecutor(self._settings.concurrency, f"skyrocket-{self.group}")
        session = await Session.acquire(self._options, consumer_group=self._settings.group)
        handlers = self._handlers if self._tracing is None else self._tracing.handlers(self._handlers, self.group)
        if self._interceptors:
            handlers = intercept_handlers(handlers, self._interceptors)
        engine = ConsumerEngine(session, self._settings, self._subscriptions, handlers, pool, is_paused=self._is_topic_paused)
        self._engine = engine
        try:
            if self._trace is not None:
                await self._trace.dispatcher.start()
            await engine.start()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Wait for running handlers for at most `close_timeout_ms`, commit offsets, and leave the group."""
        engine, self._engine = self._engine, None
        if engine is None:
            return
        try:
            await engine.close(self._close_timeout_ms)
        finally:
            if self._pool is not None:
                self._pool.shutdown(wait=False, cancel_futures=True)
                self._pool = None
            if self._stop_requested is not None:
                self._stop_requested.set()
            if self._trace is not None:
                await self._trace.dispatcher.close()
            await engine.session.release(consumer_group=self._settings.group)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._engine is not None:
            await self.complete_current(error)
        await self.close()

    async def run(self, *, handle_signals: bool = True) -> None:
        """Start, and run the handlers until `stop` or `close` is called, a SIGTERM or Ctrl-C comes, or the task is cancelled.

        It ends as `close` does: no more pulls, running handlers finish within `close_timeout_ms`, offsets are committed, and the
        consumer leaves the group. A second signal ends the program at once. Signals for which the program has its own handler,
        and all with `handle_signals=False`, are left alone.
        """
        if not self._handlers:
            raise ConfigurationError("`run` needs handlers. Register one with `on`, or use `async for`.")
        self._stop_requested = stop_requested = asyncio.Event()
        loop = asyncio.get_running_loop()
        signals = handle_stop_signals(lambda: loop.call_soon_threadsafe(stop_requested.set))
        with signals if handle_signals else nullcontext():
            try:
                await self.start()
                await stop_requested.wait()
            finally:
                self._stop_requested = None
                await self.close()

    def stop(self) -> None:
        """End `run`."""
        if self._stop_requested is not None:
            self._stop_requested.set()

    # --- messages for the user's own loop

    async def __aiter__(self) -> AsyncIterator[Received]:
        dispatcher = self._require_engine().dispatcher
        self._require_no_handlers()
        dispatcher.acknowledge_owned()  # a new loop of this task asks for the next message
        while (batch := await dispatcher.next_batch()) is not None:
            done, pending, process_queue = batch.done.append, batch.pending, batch.assigned.process_queue
            try:
                while pending and not process_queue.dropped:  # runs in the event loop, so no other thread takes messages
                    if process_queue.lock is not None and not batch.may_continue():
                        break
                    message = batch.current = pending.popleft()
                    yield message
                    done(message)
                batch.current = None
            finally:
                dispatcher.release(batch)

    async def messages(self, most: int = 32) -> list[Received]:
        """Wait for the next messages: at least one, at most `most`. The next call acknowledges them.

        The list is empty once the consumer is closed.
        """
        self._require_no_handlers()
        return await self._require_engine().dispatcher.next_messages(most)

    async def send_back(self, message: Received, delay_level: int = 0) -> None:
        """Have a message delivered again later, without raising in the loop or handler, which still acknowledges it.

        Raises RetryLater if no broker accepts it.
        """
        if not await self._require_engine().redelivery.send_back(message, delay_level):
            raise RetryLater(f"Message {message.message_id} could not be sent back now.")

    async def complete_current(self, error: BaseException | None) -> None:
        """Complete the current messages of the user's loops when `async with` ends.

        They are done without an error, and sent back after an exception. When the task or process ends, they stay uncommitted.
        """
        engine = self._require_engine()
        for batch in list(engine.dispatcher.batches):
            messages = batch.take_current()
            if messages and isinstance(error, Exception):
                log.warning("Message %s is sent back: %r", messages[0].message_id, error)
                await engine.completion.redeliver(batch.assigned, HandlerFailure(messages, error))
            elif error is None:
                batch.done.extend(messages)
            engine.dispatcher.release(batch)

    async def next_batch(self, owner: object) -> WorkBatch | None:
        """Acknowledge the batches of a loop in another thread, `owner`, and wait for its next one. None: closed."""
        self._require_no_handlers()
        dispatcher = self._require_engine().dispatcher
        dispatcher.acknowledge_owned(owner)
        return await dispatcher.next_batch(owner)

    # --- control

    def pause(self, *topics: str) -> None:
        """Dispatch no messages of these topics, or of any without arguments, until `resume`. Running handlers finish."""
        self._paused_topics.update(topics)
        self._is_paused = self._is_paused or not topics

    def resume(self, *topics: str) -> None:
        """End the pause of these topics, or of all without arguments."""
        if topics:
            self._paused_topics.difference_update(topics)
        else:
            self._paused_topics.clear()
            self._is_paused = False
        if self._engine is not None:
            self._engine.resume()

    def _is_topic_paused(self, topic: str) -> bool:
        paused = self._paused_topics
        return self._is_paused or (bool(paused) and without_namespace(self._options.namespace, topic) in paused)

    @property
    def skipped(self) -> Mapping[str, Skipped]:
        """How many messages of each topic `skip_when_behind` and `skip_older_than` have skipped since the consumer was made."""
        shedding = self._settings.shedding
        return {} if shedding is None else dict(shedding.skipped)

    @property
    def queues(self) -> list[Queue]:
        """The queues that are assigned to this member now, without those of the retry topic."""
        return [self._to_user(queue) for queue in self._require_engine().queues()]

    @property
    def client_id(self) -> str:
        return self._require_engine().session.client_id

    async def commit(self) -> None:
        """Commit the offsets now. The consumer also commits every few seconds."""
        await self._require_engine().commit()

    def _to_user(self, queue: Queue) -> Queue:
        return queue._replace(topic=without_namespace(self._options.namespace, queue.topic))

    def _require_engine(self) -> ConsumerEngine:
        if self._engine is None:
            raise ClientClosedError("The consumer is closed or was not started. Use `async with`.")
        return self._engine

    def _require_no_handlers(self) -> None:
        if self._handlers:
            raise ConfigurationError(
                "A consumer with handlers delivers no messages to a loop. Remove the handlers, or use `run`."
            )


def _make_trace(options: ClientOptions, group: str, trace: bool | str) -> ConsumeTrace:
    from skyrocket.client.consumer.consume_trace import ConsumeTrace  # noqa: PLC0415 — only a consumer with traces
    from skyrocket.client.producer.producer import make_trace_dispatcher  # noqa: PLC0415 — needs a producer

    return ConsumeTrace(make_trace_dispatcher(options, group, trace, "CONSUME"), group)
