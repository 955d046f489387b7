"""The client without await: the same names, for threads. At home in Flask, Celery, a script or a notebook.

    with Producer("127.0.0.1:9876", group="signup") as producer:
        receipt = producer.send(Message("user-registered", b"..."))

One background thread for each process runs the event loop in which the clients of this module live; any number of threads may
call them. A client starts with its first use. After a fork the child's clients begin anew, with a loop and connections of their
own; the parent's go on as if nothing had happened.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import os
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar, Unpack

from skyrocket.client import admin as aio_admin
from skyrocket.client.admin import sync_admin
from skyrocket.client.consumer import consumer as aio_consumer
from skyrocket.client.consumer import pull_consumer as aio_pull_consumer
from skyrocket.client.consumer.handlers import Handle, RetryLater, Verdict
from skyrocket.client.consumer.offsets.start_position import Start
from skyrocket.client.consumer.options import ConsumerOptions
from skyrocket.client.consumer.pull_consumer import POLL_MESSAGES, PullConsumerOptions
from skyrocket.client.consumer.subscription import Expression, Topics, sql
from skyrocket.client.errors import ClientClosedError, ClientError
from skyrocket.client.message import Message
from skyrocket.client.options import Nameservers
from skyrocket.client.producer import producer as aio
from skyrocket.client.producer import transactions as aio_transactions
from skyrocket.client.producer.producer import ProducerOptions
from skyrocket.client.producer.queue_selection import QueueSelector
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
H = TypeVar("H", bound=Handle)
_CLOSE_S_MAX = 5.0  # at the end of the process


class BackgroundLoop:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="skyrocket-client", daemon=True)
        self._thread.start()

    def submit(self, job: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        if threading.current_thread() is self._thread:
            job.close()
            raise ClientError("A callback cannot wait for the loop that calls it: hand the work to another thread.")
        return asyncio.run_coroutine_threadsafe(job, self._loop)

    def call(self, function: Callable[[], object]) -> None:
        """In the loop, soon, for what does not wait."""
        self._loop.call_soon_threadsafe(function)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_CLOSE_S_MAX)
        if not self._thread.is_alive():
            self._loop.close()


_lock = threading.Lock()
_background: BackgroundLoop | None = None
_clients: list[Facade[Any]] = []  # started, to be closed at the end of the process


def _loop() -> BackgroundLoop:
    global _background  # noqa: PLW0603
    with _lock:
        if _background is None:
            _background = BackgroundLoop()
        return _background


def run(job: Coroutine[Any, Any, T]) -> T:
    """Until it is done; who is interrupted meanwhile takes it back."""
    future = _loop().submit(job)
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


def _forked() -> None:
    """In the child there is no such thread, and the lock may have been held by one that is not here either."""
    global _lock, _background  # noqa: PLW0603
    _lock = threading.Lock()
    _background = None
    _clients.clear()


def _end() -> None:
    """What was taken is sent, also when nobody said close."""
    for client in _clients[:]:  # each takes itself out
        client.close()
    if _background is not None:
        _background.stop()


os.register_at_fork(after_in_child=_forked)
atexit.register(_end)


class Facade(Generic[C]):
    """Around one asyncio client, which is made anew in each process that uses it."""

    def __init__(self, make: Callable[[], C]) -> None:
        make()  # wrong options are told here and now
        self._make = make
        self._client: C | None = None
        self._process = 0
        self._closed = False
        self._starting = threading.Lock()

    def _started(self) -> C:
        client = self._client
        if client is not None and self._process == os.getpid():
            return client
        if self._process not in (0, os.getpid()):
            self._starting = threading.Lock()  # a thread of the parent may have held it
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
        """Not needed: the first use starts it."""
        self._started()

    def close(self) -> None:
        self._closed = True
        client, self._client = self._client, None
        if client is not None and self._process == os.getpid():
            _clients.remove(self)
            run(client.close())

    def __enter__(self) -> Self:
        self._started()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


class _Producing(Facade[P]):
    """Everything that producers do."""

    def __init__(self, make: Callable[[], P]) -> None:
        super().__init__(make)
        self._soon: set[concurrent.futures.Future[Receipt]] = set()  # given to send_soon in this process, and not answered yet
        self._soon_process = 0

    def send(
        self,
        message: Message,
        *,
        queue: Queue | None = None,
        selector: QueueSelector | None = None,
        timeout_ms: int | None = None,
    ) -> Receipt:
        return run(self._started().send(message, queue=queue, selector=selector, timeout_ms=timeout_ms))

    def send_soon(
        self,
        message: Message,
        callback: Callable[[concurrent.futures.Future[Receipt]], object] | None = None,
        *,
        queue: Queue | None = None,
        selector: QueueSelector | None = None,
        timeout_ms: int | None = None,
    ) -> concurrent.futures.Future[Receipt]:
        """A future of the receipt. `callback` is called with it in the client's thread, and must not wait there."""
        job = self._started().send(message, queue=queue, selector=selector, timeout_ms=timeout_ms)
        future = _loop().submit(job)
        if self._soon_process != os.getpid():
            self._soon, self._soon_process = set(), os.getpid()  # the parent's are not ours to wait for
        self._soon.add(future)
        future.add_done_callback(self._soon.discard)
        if callback is not None:
            future.add_done_callback(callback)
        return future

    def send_oneway(self, message: Message, *, queue: Queue | None = None, selector: QueueSelector | None = None) -> str:
        return run(self._started().send_oneway(message, queue=queue, selector=selector))

    def send_batch(self, messages: Sequence[Message], *, queue: Queue | None = None, timeout_ms: int | None = None) -> Receipt:
        return run(self._started().send_batch(messages, queue=queue, timeout_ms=timeout_ms))

    def queues(self, topic: str) -> list[Queue]:
        return run(self._started().queues(topic))

    def recall(self, topic: str, recall_handle: str) -> str:
        return run(self._started().recall(topic, recall_handle))

    def request(
        self,
        message: Message,
        *,
        timeout_ms: int | None = None,
        queue: Queue | None = None,
        selector: QueueSelector | None = None,
    ) -> Received:
        return run(self._started().request(message, timeout_ms=timeout_ms, queue=queue, selector=selector))

    def reply_to(self, request: Received, body: bytes, *, timeout_ms: int | None = None) -> Receipt:
        return run(self._started().reply_to(request, body, timeout_ms=timeout_ms))

    def flush(self) -> None:
        """Until everything that was given to `send_soon`, or lingers, has been answered or has failed."""
        run(self._started().flush())
        while self._soon_process == os.getpid() and (soon := list(self._soon)):
            concurrent.futures.wait(soon)
            run(self._started().flush())

    def close(self) -> None:
        if self._client is not None and self._process == os.getpid():
            self.flush()
        super().close()

    @property
    def client_id(self) -> str:
        return self._started().client_id


class Producer(_Producing[aio.Producer]):
    """`skyrocket.client.Producer` without await."""

    def __init__(self, nameservers: Nameservers = None, **options: Unpack[ProducerOptions]) -> None:
        super().__init__(lambda: aio.Producer(nameservers, **options))


class TransactionProducer(_Producing[aio_transactions.TransactionProducer]):
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
        return run(self._started().transaction(message, execute, queue=queue, selector=selector, timeout_ms=timeout_ms))


class Consumer(Facade[aio_consumer.Consumer]):
    """`skyrocket.client.Consumer` without await: a `for` loop, or handlers, of which plain functions run in threads.

    A loop acknowledges a message when it asks for the next, and when `with` is left without an exception.
    """

    def __init__(self, nameservers: Nameservers = None, **options: Unpack[ConsumerOptions]) -> None:
        self._registered: list[tuple[str, Expression | None, int, Handle]] = []

        def make() -> aio_consumer.Consumer:
            consumer = aio_consumer.Consumer(nameservers, **options)
            for topic, expression, batch, handle in self._registered:
                consumer.on(topic, expression, batch=batch)(handle)
            return consumer

        super().__init__(make)
        self._stopped = threading.Event()

    def on(self, topic: str = "", expression: Expression | None = None, *, batch: int = 0) -> Callable[[H], H]:
        def register(handle: H) -> H:
            self._registered.append((topic, expression, batch, handle))
            try:
                self._make()  # what is wrong with it is told here
            except ClientError:
                self._registered.pop()
                raise
            return handle

        return register

    def run(self) -> None:
        """With handlers: start, and go on until `stop` or `close` is called, or this thread is interrupted."""
        self._stopped.clear()
        with self:
            self._stopped.wait()

    def stop(self) -> None:
        self._stopped.set()

    def close(self) -> None:
        self._stopped.set()
        super().close()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        client = self._client
        if client is not None and self._process == os.getpid():
            run(client.lay_down(error))
        self.close()

    def __iter__(self) -> Iterator[Received]:
        """Messages come from the client's thread many at a time, so that a loop here does not wait for it with each."""
        client, taker = self._started(), threading.get_ident()
        while (hand := run(client.next_hand(taker))) is not None:
            while (message := hand.next()) is not None:
                hand.current = message
                yield message
                hand.done.append(message)
            hand.current = None

    def messages(self, most: int = 32) -> list[Received]:
        return run(self._started().messages(most))

    def send_back(self, message: Received, delay_level: int = 0) -> None:
        run(self._started().send_back(message, delay_level))

    def pause(self, *topics: str) -> None:
        _loop().call(lambda: self._started().pause(*topics))

    def resume(self, *topics: str) -> None:
        _loop().call(lambda: self._started().resume(*topics))

    def commit(self) -> None:
        run(self._started().commit())

    @property
    def queues(self) -> list[Queue]:
        return self._started().queues

    @property
    def client_id(self) -> str:
        return self._started().client_id


class PullConsumer(Facade[aio_pull_consumer.PullConsumer]):
    """`skyrocket.client.PullConsumer` without await."""

    def __init__(self, nameservers: Nameservers = None, **options: Unpack[PullConsumerOptions]) -> None:
        super().__init__(lambda: aio_pull_consumer.PullConsumer(nameservers, **options))

    def queues(self, topic: str) -> list[Queue]:
        return run(self._started().queues(topic))

    def assign(self, queues: Iterable[Queue], expression: str = "*") -> None:
        run(self._started().assign(queues, expression))

    def subscribe(self, topics: Topics) -> None:
        run(self._started().subscribe(topics))

    @property
    def assignment(self) -> list[Queue]:
        return self._started().assignment

    def pause(self, queues: Iterable[Queue]) -> None:
        _loop().call(lambda: self._started().pause(queues))

    def resume(self, queues: Iterable[Queue]) -> None:
        _loop().call(lambda: self._started().resume(queues))

    def poll(self, timeout_ms: int = 1_000, most: int = POLL_MESSAGES) -> list[Received]:
        return run(self._started().poll(timeout_ms, most))

    def __iter__(self) -> Iterator[Received]:
        while True:
            yield from self.poll()

    def seek(self, queue: Queue, offset: int) -> None:
        run(self._started().seek(queue, offset))

    def seek_to_begin(self, queue: Queue) -> None:
        run(self._started().seek_to_begin(queue))

    def seek_to_end(self, queue: Queue) -> None:
        run(self._started().seek_to_end(queue))

    def seek_to_time(self, queue: Queue, moment: Start) -> None:
        run(self._started().seek_to_time(queue, moment))

    def commit(self, offsets: Mapping[Queue, int] | None = None) -> None:
        run(self._started().commit(offsets))

    def committed(self, queue: Queue) -> int | None:
        return run(self._started().committed(queue))

    def position(self, queue: Queue) -> int:
        return self._started().position(queue)

    def begin_offset(self, queue: Queue) -> int:
        return run(self._started().begin_offset(queue))

    def end_offset(self, queue: Queue) -> int:
        return run(self._started().end_offset(queue))

    def offset_for_time(self, queue: Queue, moment: Start) -> int:
        return run(self._started().offset_for_time(queue, moment))


class Admin(Facade[aio_admin.Admin]):
    """`skyrocket.client.Admin` without await."""

    def __init__(self, nameservers: Nameservers = None, **options: Unpack[aio_admin.AdminOptions]) -> None:
        super().__init__(lambda: aio_admin.Admin(nameservers, **options))
        self.topics = sync_admin.Topics(lambda: self._started().topics, run)
        self.groups = sync_admin.Groups(lambda: self._started().groups, run)
        self.offsets = sync_admin.Offsets(lambda: self._started().offsets, run)
        self.messages = sync_admin.Messages(lambda: self._started().messages, run)
        self.cluster = sync_admin.Cluster(lambda: self._started().cluster, run)
