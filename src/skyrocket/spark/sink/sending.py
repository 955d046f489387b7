"""A task's requests on their way: several at a time, bounded in number and bytes, each tried until a broker has it.

Requests for one queue that are ordered wait for one another; all others do not. The first failure ends the task.
"""

from __future__ import annotations

import asyncio

from skyrocket.client.errors import BrokerError, ClientError
from skyrocket.client.producer.delivery import Delivery, DeliverySettings
from skyrocket.client.queues import Queue
from skyrocket.client.session.in_flight_limit import InFlightLimit
from skyrocket.client.session.session import Session
from skyrocket.spark.errors import RefusedError, SparkSourceError, UnreachableClusterError
from skyrocket.spark.options.sink_options import SinkOptions
from skyrocket.spark.sink.packing import Request
from skyrocket.spark.sink.retry_until import until_answered

IN_FLIGHT_BYTES_MAX = 16 * 1024 * 1024  # of one task
_SHOWN = 600


class Sending:
    def __init__(self, session: Session, options: SinkOptions) -> None:
        self._session = session
        self._options = options
        self.delivery = delivery_of(session, options)
        self._in_flight = InFlightLimit(options.in_flight_max, IN_FLIGHT_BYTES_MAX)
        self._tasks: set[asyncio.Task[None]] = set()
        self._last: dict[Queue, asyncio.Task[None]] = {}
        self._failed: SparkSourceError | None = None

    async def queues(self, topic: str) -> tuple[Queue, ...]:
        """Those of a topic on the wire that take messages."""
        return await queues_of(self._session, self._options, self.delivery, topic)

    async def send(self, request: Request) -> None:
        """Returns as soon as it is under way; it waits while too much is."""
        await self._in_flight.acquire(request.outgoing.size_bytes)
        if self._failed is not None:
            raise self._failed
        before = self._last.get(request.queue) if request.is_ordered and request.queue is not None else None
        task = asyncio.get_running_loop().create_task(self._sent(request, before))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if request.is_ordered and request.queue is not None:
            self._last[request.queue] = task

    async def finish(self) -> None:
        """Until all are acknowledged; raises what went wrong."""
        while self._tasks and self._failed is None:
            await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        if self._failed is not None:
            for task in self._tasks:
                task.cancel()
            raise self._failed

    async def _sent(self, request: Request, before: asyncio.Task[None] | None) -> None:
        outgoing, queue = request.outgoing, request.queue
        try:
            if before is not None and not before.done():
                await asyncio.wait([before])
            if self._failed is None:
                await self.delivery.attempt(outgoing, self.deadline_ms(), None if queue is None else (lambda _: queue))
        except ClientError as error:
            self._failed = self._failed or send_error(outgoing.topic, error)
        finally:
            self._in_flight.release(outgoing.size_bytes)

    def deadline_ms(self) -> int:
        return self._session.now_ms() + self._options.cluster.retry_ms


def delivery_of(session: Session, options: SinkOptions) -> Delivery:
    settings = DeliverySettings(retries=options.retries, attempt_timeout_ms=options.send_ms)
    return Delivery(session, options.wire(options.group), settings)


async def queues_of(session: Session, options: SinkOptions, delivery: Delivery, topic: str) -> tuple[Queue, ...]:
    """Those of a topic on the wire that take messages."""
    what = f"Rows cannot be sent to topic '{topic}'"
    return await until_answered(
        session, options.cluster, what, lambda: delivery.find_queues(topic, session.now_ms() + options.cluster.request_ms)
    )


def send_error(topic: str, error: ClientError) -> SparkSourceError:
    kind = RefusedError if isinstance(error, BrokerError) else UnreachableClusterError
    return kind(f"Rows could not be sent to topic '{topic}': {str(error)[:_SHOWN]}")
