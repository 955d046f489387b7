"""Sends the requests of a task, at least once: many at a time, limited by count and bytes, each retried until a broker has it.

Ordered requests to one queue wait for one another; all others are concurrent. The first failure ends the task.
"""

from __future__ import annotations

import asyncio

from skyrocket.client.errors import BrokerError, ClientError
from skyrocket.client.producer.delivery import Delivery, DeliverySettings
from skyrocket.client.queues import Queue
from skyrocket.client.session.in_flight_limit import InFlightLimit
from skyrocket.client.session.session import Session
from skyrocket.spark.errors import RequestRefusedError, SparkSourceError, UnreachableClusterError
from skyrocket.spark.options.sink_options import SinkOptions
from skyrocket.spark.sink.packing import SinkRequest
from skyrocket.spark.sink.retry_until import retry_until_answered

IN_FLIGHT_BYTES_MAX = 16 * 1024 * 1024  # of one task
_ERROR_CHARACTERS_MAX = 600


class RequestSender:
    def __init__(self, session: Session, options: SinkOptions) -> None:
        self._session = session
        self._options = options
        self._delivery = make_delivery(session, options)
        self._in_flight = InFlightLimit(options.in_flight_max, IN_FLIGHT_BYTES_MAX)
        self._tasks: set[asyncio.Task[None]] = set()
        self._last: dict[Queue, asyncio.Task[None]] = {}
        self._failed: SparkSourceError | None = None

    async def queues(self, topic: str) -> tuple[Queue, ...]:
        """Return the writable queues of a topic, whose name includes the namespace."""
        return await find_queues(self._session, self._options, self._delivery, topic)

    async def send(self, request: SinkRequest) -> None:
        """Start sending a request. Wait first while too many requests are in flight."""
        await self._in_flight.acquire(request.outgoing.size_bytes)
        if self._failed is not None:
            raise self._failed
        before = self._last.get(request.queue) if request.is_ordered and request.queue is not None else None
        task = asyncio.get_running_loop().create_task(self._deliver(request, before))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if request.is_ordered and request.queue is not None:
            self._last[request.queue] = task

    async def finish(self) -> None:
        """Wait until all requests are acknowledged. Raise the first failure."""
        while self._tasks and self._failed is None:
            await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        if self._failed is not None:
            for task in self._tasks:
                task.cancel()
            raise self._failed

    async def _deliver(self, request: SinkRequest, before: asyncio.Task[None] | None) -> None:
        outgoing, queue = request.outgoing, request.queue
        try:
            if before is not None and not before.done():
                await asyncio.wait([before])
            if self._failed is None:
                await self._delivery.attempt(outgoing, self._deadline_ms(), None if queue is None else (lambda _: queue))
        except ClientError as error:
            self._failed = self._failed or send_error(outgoing.topic, error)
        finally:
            self._in_flight.release(outgoing.size_bytes)

    def _deadline_ms(self) -> int:
        return self._session.now_ms() + self._options.cluster.retry_ms


def make_delivery(session: Session, options: SinkOptions) -> Delivery:
    settings = DeliverySettings(retries=options.retries, attempt_timeout_ms=options.send_ms)
    return Delivery(session, options.wire(options.group), settings)


async def find_queues(session: Session, options: SinkOptions, delivery: Delivery, topic: str) -> tuple[Queue, ...]:
    """Return the writable queues of a topic, whose name includes the namespace."""
    what = f"Rows cannot be sent to topic '{topic}'"
    return await retry_until_answered(
        session, options.cluster, what, lambda: delivery.find_queues(topic, session.now_ms() + options.cluster.request_ms)
    )


def send_error(topic: str, error: ClientError) -> SparkSourceError:
    kind = RequestRefusedError if isinstance(error, BrokerError) else UnreachableClusterError
    return kind(f"Rows could not be sent to topic '{topic}': {str(error)[:_ERROR_CHARACTERS_MAX]}")
