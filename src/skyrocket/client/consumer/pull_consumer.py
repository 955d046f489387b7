"""The pull consumer: for who wants to ask for messages, and to say from where.

    async with PullConsumer("127.0.0.1:9876", group="audit") as consumer:
        queues = await consumer.queues("orders")
        await consumer.assign(queues)
        await consumer.seek(queues[0], 1_000)
        messages = await consumer.poll()
        await consumer.commit()

`subscribe` shares the topics' queues with the other members of the group; `assign` takes those that it is given, whoever else
reads them. Messages are fetched ahead in the background either way.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Iterable, Mapping
from types import TracebackType
from typing import Self, Unpack

from skyrocket.client.consumer.assigned_queue import HeldQueue
from skyrocket.client.consumer.assigned_queues import Holdings
from skyrocket.client.consumer.limits import ConsumerLimits
from skyrocket.client.consumer.offsets.offset_store import BrokerOffsets
from skyrocket.client.consumer.offsets.queue_offsets import QueueOffsets
from skyrocket.client.consumer.offsets.start_position import Start, moment_ms, start_position
from skyrocket.client.consumer.rebalancing import Change, Rebalancing, change
from skyrocket.client.consumer.strategies import Averagely, Strategy
from skyrocket.client.consumer.subscription import Subscription, Topics, subscription, topics_wanted
from skyrocket.client.errors import ClientClosedError, ClientError, ConfigurationError, NoRouteError
from skyrocket.client.options import ClientKeywords, ClientOptions, Nameservers, resolve_options
from skyrocket.client.queues import Queue
from skyrocket.client.received import Received
from skyrocket.client.session.members import SessionMember
from skyrocket.client.session.names import check_group
from skyrocket.client.session.namespaces import with_namespace, without_namespace
from skyrocket.client.session.session import Session
from skyrocket.net.connection import Connection
from skyrocket.net.router import Answer
from skyrocket.protocol.bodies import ConsumerData, ConsumeType, MessageModel
from skyrocket.protocol.command import Command
from skyrocket.protocol.message.tags import EVERY_TAG
from skyrocket.protocol.requests import RequestCode

log = logging.getLogger(__name__)

POLL_MESSAGES = 500
CACHED_MESSAGES = 10_000  # of all queues together, fetched ahead: as Java's, unless limits say otherwise


class PullConsumerOptions(ClientKeywords, total=False):
    """The keyword arguments of `PullConsumer`, which defines their defaults."""

    options: ClientOptions | None  # what all clients share: nameservers, TLS, credentials, limits
    group: str  # its members share the queues, and its offsets are kept together
    start: Start  # where a group begins in a queue that it was never in
    auto_commit: bool  # what a poll gave is done when the next one comes; False: when `commit` says so
    strategy: Strategy | None  # who of the group gets which queue; None: averagely
    consumer_limits: ConsumerLimits | None  # what may be cached, and every period


class PullConsumer:
    """Start it with `async with`, or with `start` and `close`; use it in one event loop."""

    def __init__(
        self,
        nameservers: Nameservers = None,
        *,
        options: ClientOptions | None = None,
        group: str,
        start: Start = "last",
        auto_commit: bool = True,
        strategy: Strategy | None = None,
        consumer_limits: ConsumerLimits | None = None,
        **keywords: Unpack[ClientKeywords],
    ) -> None:
        """`PullConsumerOptions` explains the options, and `ClientOptions` those that `keywords` set."""
        self._options = resolve_options(options, nameservers, keywords)
        self.group = check_group(group)
        self._wire_group = with_namespace(self._options.namespace, group)
        self._start_at = start_position(start)
        self._auto_commit = auto_commit
        self._strategy = strategy or Averagely()
        self._limits = consumer_limits or ConsumerLimits(all_messages_max=CACHED_MESSAGES)
        self._subscriptions: dict[str, Subscription] = {}
        self._paused: set[Queue] = set()
        self._polled: list[tuple[HeldQueue, list[Received]]] = []  # given, and not done yet
        self._line: deque[HeldQueue] = deque()  # with messages to give
        self._arrival: asyncio.Event | None = None
        self._session: Session | None = None
        self._holdings: Holdings | None = None
        self._offsets: QueueOffsets | None = None
        self._rebalancing: Rebalancing | None = None
        self._member: SessionMember | None = None
        self._tasks: list[asyncio.Task[None]] = []

    # --- life

    async def start(self) -> None:
        if self._session is not None:
            return
        session = await Session.acquire(self._options, consumer_group=self._wire_group)
        self._session = session
        self._arrival = asyncio.Event()
        self._offsets = QueueOffsets(session, self._wire_group)
        self._holdings = Holdings(
            session,
            self._wire_group,
            BrokerOffsets(self._offsets),
            self._limits,
            self._start_at,
            commits=self._auto_commit,
            arrived=self._arrived,
            is_paused=lambda held: held.queue in self._paused,
        )
        if self._auto_commit:
            self._tasks.append(asyncio.get_running_loop().create_task(self._commit_again_and_again(self._holdings)))

    async def close(self) -> None:
        session, holdings = self._session, self._holdings
        if session is None or holdings is None:
            return
        self._session = self._holdings = None
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        await holdings.stop_pulling()
        if self._auto_commit:
            await holdings.commit()
        if self._member is not None:
            await session.leave(self._member)
            self._member = None
        if self._arrival is not None:
            self._arrival.set()
        await session.release(consumer_group=self._wire_group)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is None and self._auto_commit:
            self._finish_polled()  # left in order: what was polled is done
        await self.close()

    async def _commit_again_and_again(self, holdings: Holdings) -> None:
        while True:
            await asyncio.sleep(self._limits.commit_ms / 1000)
            await holdings.commit()

    # --- which queues

    async def queues(self, topic: str) -> list[Queue]:
        """All of a topic. NoRouteError when nobody knows it."""
        route = await self._opened()[0].route(self._wire(topic))
        if route is None or route.is_borrowed:
            raise NoRouteError(f"The nameservers know no topic '{topic}'.", topic)
        return [self._users(queue) for queue in route.to_read]

    async def assign(self, queues: Iterable[Queue], expression: str = EVERY_TAG) -> None:
        """Read these and no others, from where the group is. It does not become a member of the group."""
        session, holdings = self._opened()
        if self._rebalancing is not None:
            raise ConfigurationError("A consumer that subscribes is given its queues by its group; it cannot be assigned any.")
        wanted = {self._on_wire(queue) for queue in queues}
        for topic in {queue.topic for queue in wanted}:
            if await session.route(topic) is None:
                raise NoRouteError(f"The nameservers know no topic '{topic}'.", topic)
            self._subscriptions[topic] = subscription(topic, expression, _now_ms())
        if not await self._apply(change(holdings.queues, wanted)):
            raise ClientError("Where the group is in some of these queues could not be found out; the log says why.")

    async def subscribe(self, topics: Topics) -> None:
        """Share these topics' queues with the group; the first share is taken when this returns, where brokers are there."""
        session, holdings = self._opened()
        for topic, expression in topics_wanted(topics).items():
            wire = self._wire(topic)
            self._subscriptions[wire] = subscription(wire, expression, _now_ms())
        if self._rebalancing is None:
            self._rebalancing = Rebalancing(
                session,
                self._wire_group,
                self._subscriptions,
                self._strategy,
                self._limits,
                held=lambda: list(holdings.queues),
                apply=self._apply,
            )
            self._member = self._as_member(self._rebalancing)
            session.join(self._member)
            for topic in self._subscriptions:
                await session.route(topic)
            await session.send_heartbeats()
            await self._rebalancing.balance()
            self._tasks.append(asyncio.get_running_loop().create_task(self._rebalancing.run()))
        else:
            await session.send_heartbeats()
            self._rebalancing.soon()

    def _as_member(self, rebalancing: Rebalancing) -> SessionMember:
        def changed(_command: Command, _connection: Connection) -> Answer:
            rebalancing.soon()
            return None

        def data() -> ConsumerData:
            return ConsumerData(
                group_name=self._wire_group,
                consume_type=ConsumeType.CONSUME_ACTIVELY,
                message_model=MessageModel.CLUSTERING,
                consume_from_where=self._start_at.where,
                subscription_data_set=[wanted.as_body() for wanted in self._subscriptions.values()],
            )

        return SessionMember(
            group=self._wire_group,
            consumer_data=data,
            topics=lambda: list(self._subscriptions),
            handlers={RequestCode.NOTIFY_CONSUMER_IDS_CHANGED: changed},
            route_changed=lambda topic: rebalancing.soon() if topic in self._subscriptions else None,
            connected=lambda _: self._opened()[1].wake(),
        )

    @property
    def assignment(self) -> list[Queue]:
        return [self._users(queue) for queue in self._opened()[1].queues]

    async def _apply(self, difference: Change) -> bool:
        _, holdings = self._opened()
        if self._auto_commit:
            await holdings.let_go(difference.lost)
        else:
            for queue in difference.lost:
                holdings.forget(holdings.queues[queue])
        won = [(queue, self._subscriptions.get(queue.topic)) for queue in difference.won]
        return all(
            await asyncio.gather(
                *(holdings.hold(queue, known, keep=self._auto_commit) for queue, known in won if known is not None)
            )
        )

    def pause(self, queues: Iterable[Queue]) -> None:
        """Give nothing of these, and fetch nothing, until `resume`."""
        self._paused.update(map(self._on_wire, queues))

    def resume(self, queues: Iterable[Queue]) -> None:
        _, holdings = self._opened()
        for queue in map(self._on_wire, queues):
            self._paused.discard(queue)
            held = holdings.queues.get(queue)
            if held is not None:
                held.wake()
                self._arrived(held)

    # --- messages

    async def poll(self, timeout_ms: int = 1_000, most: int = POLL_MESSAGES) -> list[Received]:
        """The next messages, at most so many; none when there are none in this time."""
        self._opened()
        assert self._arrival is not None
        if self._auto_commit:
            self._finish_polled()
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout_ms / 1000
        while not (messages := self._take(most)):
            left_s = until - loop.time()
            if left_s <= 0:
                return []
            self._arrival.clear()
            try:
                async with asyncio.timeout(left_s):
                    await self._arrival.wait()
            except TimeoutError:
                return []
            self._opened()
        return messages

    async def __aiter__(self) -> AsyncIterator[Received]:
        while self._session is not None:
            for message in await self.poll():
                yield message

    def _arrived(self, held: HeldQueue) -> None:
        if not held.is_in_line and held.state.waiting:
            held.is_in_line = True
            self._line.append(held)
        assert self._arrival is not None
        self._arrival.set()

    def _take(self, most: int) -> list[Received]:
        _, holdings = self._opened()
        found: list[Received] = []
        for _ in range(len(self._line)):
            held = self._line.popleft()
            held.is_in_line = False
            if held.queue in self._paused or holdings.queues.get(held.queue) is not held:
                continue
            messages = held.state.take(most - len(found), 0)
            if messages:
                self._polled.append((held, messages))
                found += messages
            if held.state.waiting:
                held.is_in_line = True
                self._line.append(held)
            if len(found) >= most:
                break
        return found

    def _finish_polled(self) -> None:
        polled, self._polled = self._polled, []
        for held, messages in polled:
            held.state.finish(messages)
            held.wake()

    # --- offsets

    async def seek(self, queue: Queue, offset: int) -> None:
        """The next message of this queue is the one at `offset`, which is also what is committed next."""
        _, holdings = self._opened()
        held = holdings.queues.get(self._on_wire(queue))
        if held is None:
            raise ConfigurationError(f"It has not got {queue}, so it cannot seek there: assign it first.")
        self._polled = [(other, messages) for other, messages in self._polled if other is not held]
        await holdings.begin_anew(held, offset)

    async def seek_to_begin(self, queue: Queue) -> None:
        await self.seek(queue, await self.begin_offset(queue))

    async def seek_to_end(self, queue: Queue) -> None:
        await self.seek(queue, await self.end_offset(queue))

    async def seek_to_time(self, queue: Queue, moment: Start) -> None:
        await self.seek(queue, await self.offset_for_time(queue, moment))

    async def commit(self, offsets: Mapping[Queue, int] | None = None) -> None:
        """Everything that was polled is done, and the brokers know when this returns; or these offsets, as they are."""
        _, holdings = self._opened()
        assert self._offsets is not None
        if offsets is not None:
            for queue, offset in offsets.items():
                await self._offsets.commit(self._on_wire(queue), offset)
            return
        self._finish_polled()
        for held in holdings.queues.values():
            offset = held.state.commit_offset
            if offset != held.kept:
                await self._offsets.commit(held.queue, offset)
                held.kept = offset

    async def committed(self, queue: Queue) -> int | None:
        """The group's offset that the broker has; None when it has none."""
        return await self._asking().committed(self._on_wire(queue))

    def position(self, queue: Queue) -> int:
        """The offset of the first message of this queue that was not polled yet."""
        held = self._opened()[1].queues.get(self._on_wire(queue))
        if held is None:
            raise ConfigurationError(f"It has not got {queue}.")
        return held.state.first_waiting_offset

    async def begin_offset(self, queue: Queue) -> int:
        return await self._asking().first(self._on_wire(queue))

    async def end_offset(self, queue: Queue) -> int:
        """One past the last message."""
        return await self._asking().last(self._on_wire(queue))

    async def offset_for_time(self, queue: Queue, moment: Start) -> int:
        """Of the first message since then: a datetime, or milliseconds since 1970."""
        return await self._asking().at(self._on_wire(queue), moment_ms(moment))

    # ---

    def _opened(self) -> tuple[Session, Holdings]:
        if self._session is None or self._holdings is None:
            raise ClientClosedError("The consumer is closed, or was not started: use `async with`.")
        return self._session, self._holdings

    def _asking(self) -> QueueOffsets:
        self._opened()
        assert self._offsets is not None
        return self._offsets

    def _wire(self, topic: str) -> str:
        return with_namespace(self._options.namespace, topic)

    def _on_wire(self, queue: Queue) -> Queue:
        return queue._replace(topic=self._wire(queue.topic))

    def _users(self, queue: Queue) -> Queue:
        return queue._replace(topic=without_namespace(self._options.namespace, queue.topic))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
