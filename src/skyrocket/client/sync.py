"""The client without await, for threads: the names of `skyrocket.client`. Use it in Flask, Celery, a script or a notebook.

    with Producer("127.0.0.1:9876", group="signup") as producer:
        receipt = producer.send(Message("user-registered", b"..."))

One background thread in each process runs the event loop of these clients; any number of threads may call them. A client starts
on first use. After a fork, a client used in the child starts again there, with a loop and connections of its own; the parent's
client is not affected.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import os
import queue as queue_module
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar, Unpack

from skyrocket.client import admin as aio_admin
from skyrocket.client.admin import sync_admin
from skyrocket.client.consumer import consumer as aio_consumer
from skyrocket.client.consumer import pull_consumer as aio_pull_consumer
from skyrocket.client.consumer.dispatch.load_shedding import Skipped
from skyrocket.client.consumer.handlers import HandlerFunction, RetryLater, Verdict
from skyrocket.client.consumer.offsets.start_position import Start
from skyrocket.client.consumer.options import ConsumerOptions
from skyrocket.client.consumer.pull_consumer import POLL_MESSAGES, PullConsumerOptions
from skyrocket.client.consumer.stop_signals import handle_stop_signals
from skyrocket.client.consumer.subscription import Expression, TopicSelection, sql
from skyrocket.client.errors import ClientClosedError, ClientError
from skyrocket.client.message import Message
from skyrocket.client.options import Nameservers
from skyrocket.client.producer import producer as aio
from skyrocket.client.producer import transactions as aio_transactions
from skyrocket.client.producer.options import ProducerOptions
from skyrocket.client.producer.queue_selection import QueueSelector
from skyrocket.client.producer.sequence import StampCounts
from skyrocket.client.producer.transactions import Check, Execute, Outcome, TransactionReceipt
from skyrocket.client.queues import Queue
from skyrocket.client.receipt import Receipt
from skyrocket.client.received import Received

__all__ = [
    "Admin",
    "BackgroundLoop",
    "Consumer",
    "Facade",
    "Message",
    "Outcome",
    "Producer",
    "PullConsumer",
    "Receipt",
    "Received",
    "RetryLater",
    "TransactionProducer",
    "Verdict",
    "run",
    "sql",
]

T = TypeVar("T")


class Startable(Protocol):
    async def start(self) -> None: ...

    async def close(self) -> None: ...


C = TypeVar("C", bound=Startable)
P = TypeVar("P", bound=aio.Producer)
H = TypeVar("H", bound=HandlerFunction)
_STOP_S_MAX = 5.0  # how long the end of the process waits for the background thread


class BackgroundLoop:
    """An event loop in its own thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="skyrocket-client", daemon=True)
        self._thread.start()

    def submit(self, job: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Run a coroutine in the loop. Raise ClientError when called from the loop's own thread, which would wait for itself."""
        if threading.current_thread() is self._thread:
            job.close()
            raise ClientError(
                "A callback of the client cannot call the client: it would wait for its own thread. Use another thread."
            )
        return asyncio.run_coroutine_threadsafe(job, self._loop)

    def call(self, function: Callable[[], object]) -> None:
        """Call a function in the loop soon, without waiting for it."""
        self._loop.call_soon_threadsafe(function)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_STOP_S_MAX)
        if not self._thread.is_alive():
            self._loop.close()


_lock = threading.Lock()
_background: BackgroundLoop | None = None
_clients: list[Facade[Any]] = []  # started clients, which the end of the process closes


def _loop() -> BackgroundLoop:
    global _background  # noqa: PLW0603
    with _lock:
        if _background is None:
            _background = BackgroundLoop()
        return _background


def run(job: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in the background loop and return its result. An interrupt cancels it."""
    future = _loop().submit(job)
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


def _reset_after_fork() -> None:
    """Forget the background loop in a forked child: its thread does not exist there, and the lock may have been held."""
    global _lock, _background  # noqa: PLW0603
    _lock = threading.Lock()
    _background = None
    _clients.clear()


def _close_all() -> None:
    """Close all clients at the end of the process, so that accepted messages are sent."""
    for client in _clients[:]:  # close removes the client from the list
        client.close()
    if _background is not None:
        _background.stop()


os.register_at_fork(after_in_child=_reset_after_fork)
atexit.register(_close_all)


class Facade(Generic[C]):
    """A synchronous wrapper of one asyncio client. Each process that uses it gets an asyncio client of its own."""

    def __init__(self, make: Callable[[], C]) -> None:
        make()  # raise errors of options in the constructor
        self._make = make
        self._client: C | None = None
        self._process = 0
        self._closed = False
        self._starting = threading.Lock()

    def _start_client(self) -> C:
        """Return the asyncio client of this process, and start it on first use."""
        client = self._client
        if client is not None and self._process == os.getpid():
            return client
        if self._process not in (0, os.getpid()):
            self._starting = threading.Lock()  # a thread of the parent may have held the lock
        with self._starting:
            if self._closed:
                raise ClientClosedError("The client is closed.")
            if self._client is None or self._process != os.getpid():
                client = self._make()
                run(client.start())
                self._client, self._process = client, os.getpid()
                _clients.append(self)
            assert self._client is not None
            return self._client

    def start(self) -> None:
        """Start the client. Optional: the first use starts it."""
        self._start_client()

    def close(self) -> None:
        """Close the client."""
        self._closed = True
        client, self._client = self._client, None
        if client is not None and self._process == os.getpid():
            _clients.remove(self)
            run(client.close())

    def __enter__(self) -> Self:
        self._start_client()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


class _SyncProducer(Facade[P]):
    """The methods of both kinds of producer."""

    def __init__(self, make: Callable[[], P]) -> None:
        super().__init__(make)
        self._soon: set[concurrent.futures.Future[Receipt]] = set()  # unfinished futures of send_soon in this process
        self._soon_process = 0

    def send(
        self,
        message: Message,
        *,
        queue: Queue | None = None,
        selector: QueueSelector | None = None,
        timeout_ms: int | None = None,
    ) -> Receipt:
        return run(self._start_client().send(message, queue=queue, selector=selector, timeout_ms=timeout_ms))

    def send_soon(
        self,
        message: Message,
        callback: Callable[[concurrent.futures.Future[Receipt]], object] | None = None,
        *,
        queue: Queue | None = None,
        selector: QueueSelector | None = None,
        timeout_ms: int | None = None,
    ) -> concurrent.futures.Future[Receipt]:
        """Send a message without waiting: return a future of the receipt. `callback` is called with the finished future in the
        client's thread, and must not block."""
        job = self._start_client().send(message, queue=queue, selector=selector, timeout_ms=timeout_ms)
        future = _loop().submit(job)
        if self._soon_process != os.getpid():
            self._soon, self._soon_process = set(), os.getpid()  # those of the parent process finish there
        self._soon.add(future)
        future.add_done_callback(self._soon.discard)
        if callback is not None:
            future.add_done_callback(callback)
        return future

    def send_oneway(self, message: Message, *, queue: Queue | None = None, selector: QueueSelector | None = None) -> str:
        return run(self._start_client().send_oneway(message, queue=queue, selector=selector))

    def send_batch(self, messages: Sequence[Message], *, queue: Queue | None = None, timeout_ms: int | None = None) -> Receipt:
        return run(self._start_client().send_batch(messages, queue=queue, timeout_ms=timeout_ms))

    def queues(self, topic: str) -> list[Queue]:
        return run(self._start_client().queues(topic))

    def recall(self, topic: str, recall_handle: str) -> str:
        return run(self._start_client().recall(topic, recall_handle))

    def request(
        self,
        message: Message,
        *,
        timeout_ms: int | None = None,
        queue: Queue | None = None,
        selector: QueueSelector | None = None,
    ) -> Received:
        return run(self._start_client().request(message, timeout_ms=timeout_ms, queue=queue, selector=selector))

    def reply_to(self, request: Received, body: bytes, *, timeout_ms: int | None = None) -> Receipt:
        return run(self._start_client().reply_to(request, body, timeout_ms=timeout_ms))

    def flush(self) -> None:
        """Wait until every message of `send_soon`, and every message in a batch, has been acknowledged or has failed."""
        run(self._start_client().flush())
        while self._soon_process == os.getpid() and (soon := list(self._soon)):
            concurrent.futures.wait(soon)
            run(self._start_client().flush())

    def close(self) -> None:
        if self._client is not None and self._process == os.getpid():
            self.flush()
        super().close()

    @property
    def client_id(self) -> str:
        return self._start_client().client_id

    @property
    def stamped(self) -> StampCounts | None:
        return self._start_client().stamped


class Producer(_SyncProducer[aio.Producer]):
    """`skyrocket.client.Producer` without await."""

    def __init__(self, nameservers: Nameservers = None, **options: Unpack[ProducerOptions]) -> None:
        super().__init__(lambda: aio.Producer(nameservers, **options))


class TransactionProducer(_SyncProducer[aio_transactions.TransactionProducer]):
    """`skyrocket.client.TransactionProducer` without await. `check` and local transactions run in threads."""

    def __init__(self, nameservers: Nameservers = None, *, check: Check, **options: Unpack[ProducerOptions]) -> None:
        super().__init__(lambda: aio_transactions.TransactionProducer(nameservers, check=check, **options))

    def transaction(
        self,
        message: Message,
        execute: Execute,
        *,
        queue: Queue | None = None,
        selector: QueueSelector | None = None,
        timeout_ms: int | None = None,
    ) -> TransactionReceipt:
        return run(self._start_client().transaction(message, execute, queue=queue, selector=selector, timeout_ms=timeout_ms))


class Consumer(Facade[aio_consumer.Consumer]):
    """`skyrocket.client.Consumer` without await: a `for` loop, or handlers. Handlers that are plain functions run in threads.

    A loop acknowledges a message when it requests the next one, and when the `with` block ends without an exception.
    """

    def __init__(self, nameservers: Nameservers = None, **options: Unpack[ConsumerOptions]) -> None:
        self._registered: list[tuple[str, Expression | None, int, HandlerFunction]] = []

        def make() -> aio_consumer.Consumer:
            consumer = aio_consumer.Consumer(nameservers, **options)
            for topic, expression, batch, handle in self._registered:
                consumer.on(topic, expression, batch=batch)(handle)
            return consumer

        super().__init__(make)
        self._stops: queue_module.SimpleQueue[None] = queue_module.SimpleQueue()  # `put` is safe in a signal handler
        self._last_skipped: Mapping[str, Skipped] = {}  # of a consumer that was closed

    def on(self, topic: str = "", expression: Expression | None = None, *, batch: int = 0) -> Callable[[H], H]:
        """Register a handler for a topic. See `skyrocket.client.Consumer.on`."""

        def register(handle: H) -> H:
            self._registered.append((topic, expression, batch, handle))
            try:
                self._make()  # raise errors of the registration here
            except ClientError:
                self._registered.pop()
                raise
            return handle

        return register

    def run(self, *, handle_signals: bool = True) -> None:
        """Start the consumer with its handlers, and block until `stop` or `close` is called, or a SIGTERM or Ctrl-C comes.

        Signals reach the main thread only. See `skyrocket.client.Consumer.run`.
        """
        stops = self._stops = queue_module.SimpleQueue()
        signals = handle_stop_signals(lambda: stops.put(None))
        with signals if handle_signals else nullcontext(), self:
            stops.get()

    def stop(self) -> None:
        """End `run`."""
        self._stops.put(None)

    def close(self) -> None:
        self._stops.put(None)
        client = self._client
        super().close()
        if client is not None:
            self._last_skipped = client.skipped

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        client = self._client
        if client is not None and self._process == os.getpid():
            run(client.complete_current(error))
        self.close()

    def __iter__(self) -> Iterator[Received]:
        """Yield messages. They arrive from the client's thread in batches, so that the loop does not switch threads for each."""
        client, owner = self._start_client(), threading.get_ident()
        while (batch := run(client.next_batch(owner))) is not None:
            while (message := batch.take_next()) is not None:
                batch.current = message
                yield message
                batch.done.append(message)
            batch.current = None

    def messages(self, most: int = 32) -> list[Received]:
        return run(self._start_client().messages(most))

    def send_back(self, message: Received, delay_level: int = 0) -> None:
        run(self._start_client().send_back(message, delay_level))

    def pause(self, *topics: str) -> None:
        _loop().call(lambda: self._start_client().pause(*topics))

    def resume(self, *topics: str) -> None:
        _loop().call(lambda: self._start_client().resume(*topics))

    def commit(self) -> None:
        run(self._start_client().commit())

    @property
    def skipped(self) -> Mapping[str, Skipped]:
        """How many messages of each topic were skipped. See `skyrocket.client.Consumer.skipped`."""
        return self._last_skipped if self._client is None else self._client.skipped

    @property
    def queues(self) -> list[Queue]:
        return self._start_client().queues

    @property
    def client_id(self) -> str:
        return self._start_client().client_id


class PullConsumer(Facade[aio_pull_consumer.PullConsumer]):
    """`skyrocket.client.PullConsumer` without await."""

    def __init__(self, nameservers: Nameservers = None, **options: Unpack[PullConsumerOptions]) -> None:
        super().__init__(lambda: aio_pull_consumer.PullConsumer(nameservers, **options))

    def queues(self, topic: str) -> list[Queue]:
        return run(self._start_client().queues(topic))

    def assign(self, queues: Iterable[Queue], expression: str = "*") -> None:
        run(self._start_client().assign(queues, expression))

    def subscribe(self, topics: TopicSelection) -> None:
        run(self._start_client().subscribe(topics))

    @property
    def assignment(self) -> list[Queue]:
        return self._start_client().assignment

    def pause(self, queues: Iterable[Queue]) -> None:
        _loop().call(lambda: self._start_client().pause(queues))

    def resume(self, queues: Iterable[Queue]) -> None:
        _loop().call(lambda: self._start_client().resume(queues))

    def poll(self, timeout_ms: int = 1_000, most: int = POLL_MESSAGES) -> list[Received]:
        return run(self._start_client().poll(timeout_ms, most))

    def __iter__(self) -> Iterator[Received]:
        while True:
            yield from self.poll()

    def seek(self, queue: Queue, offset: int) -> None:
        run(self._start_client().seek(queue, offset))

    def seek_to_begin(self, queue: Queue) -> None:
        run(self._start_client().seek_to_begin(queue))

    def seek_to_end(self, queue: Queue) -> None:
        run(self._start_client().seek_to_end(queue))

    def seek_to_time(self, queue: Queue, moment: Start) -> None:
        run(self._start_client().seek_to_time(queue, moment))

    def commit(self, offsets: Mapping[Queue, int] | None = None) -> None:
        run(self._start_client().commit(offsets))

    def committed(self, queue: Queue) -> int | None:
        return run(self._start_client().committed(queue))

    def position(self, queue: Queue) -> int:
        return self._start_client().position(queue)

    def begin_offset(self, queue: Queue) -> int:
        return run(self._start_client().begin_offset(queue))

    def end_offset(self, queue: Queue) -> int:
        return run(self._start_client().end_offset(queue))

    def offset_for_time(self, queue: Queue, moment: Start) -> int:
        return run(self._start_client().offset_for_time(queue, moment))


class Admin(Facade[aio_admin.Admin]):
    """`skyrocket.client.Admin` without await."""

    def __init__(self, nameservers: Nameservers = None, **options: Unpack[aio_admin.AdminOptions]) -> None:
        super().__init__(lambda: aio_admin.Admin(nameservers, **options))
        self.topics = sync_admin.SyncTopicAdmin(lambda: self._start_client().topics, run)
        self.groups = sync_admin.SyncGroupAdmin(lambda: self._start_client().groups, run)
        self.offsets = sync_admin.SyncOffsetAdmin(lambda: self._start_client().offsets, run)
        self.messages = sync_admin.SyncMessageAdmin(lambda: self._start_client().messages, run)
        self.cluster = sync_admin.SyncClusterAdmin(lambda: self._start_client().cluster, run)
        self.access = sync_admin.SyncAccessAdmin(lambda: self._start_client().access, run)
