"""The pull consumer: the caller polls for messages and controls the position in each queue.

    async with PullConsumer("127.0.0.1:9876", group="audit") as consumer:
        queues = await consumer.queues("orders")
        await consumer.assign(queues)
        await consumer.seek(queues[0], 1_000)
        messages = await consumer.poll()
        await consumer.commit()

`subscribe` shares the queues of topics with the other members of the group. `assign` reads the given queues, even
if other consumers read them, too. In both cases messages are fetched ahead in the background.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Iterable, Mapping
from types import TracebackType
from typing import Final, Self, Unpack

from skyrocket.client.consumer.assigned_queue import AssignedQueue
from skyrocket.client.consumer.assigned_queues import AssignedQueues
from skyrocket.client.consumer.limits import ConsumerLimits
from skyrocket.client.consumer.offsets.offset_commit import BrokerOffsetStore
from skyrocket.client.consumer.offsets.queue_offsets import QueueOffsets
from skyrocket.client.consumer.offsets.start_position import Start, parse_start, to_epoch_ms
from skyrocket.client.consumer.rebalancing import AssignmentChange, Rebalancer, assignment_change
from skyrocket.client.consumer.strategies import Averagely, Strategy
from skyrocket.client.consumer.subscription import Subscription, TopicSelection, make_subscription, parse_topics
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
LIMITS: Final = ConsumerLimits(all_messages_max=10_000, pull_hold_ms=20_000)
"""The default limits, where Java's lite pull consumer differs from its push consumer."""


class PullConsumerOptions(ClientKeywords, total=False):
    """The keyword arguments of `PullConsumer`, which defines their defaults."""

    options: ClientOptions | None  # what all clients share: nameservers, TLS, credentials, limits
    group: str  # members of a group share the queues and the committed offsets
    start: Start  # where the group starts in a queue without a committed offset
    auto_commit: bool  # a poll acknowledges what the last poll returned; if False, only `commit` does
    strategy: Strategy | None  # how the group divides the queues; None: Averagely
    consumer_limits: ConsumerLimits | None  # cache bounds and periods; None: `LIMITS`


class PullConsumer:
    """A consumer that the caller polls. Start it with `async with`, or with `start` and `close`; use it in one event loop."""

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
        self._start_at = parse_start(start)
        self._auto_commit = auto_commit
        self._strategy = strategy or Averagely()
        self._limits = consumer_limits or LIMITS
        self._subscriptions: dict[str, Subscription] = {}
        self._paused: set[Queue] = set()
        self._polled: list[tuple[AssignedQueue, list[Received]]] = []  # returned by poll, and not finished
        self._ready: deque[AssignedQueue] = deque()  # queues with messages to return
        self._messages_arrived: asyncio.Event | None = None
        self._session: Session | None = None
        self._assigned: AssignedQueues | None = None
        self._offsets: QueueOffsets | None = None
        self._rebalancer: Rebalancer | None = None
        self._member: SessionMember | None = None
        self._tasks: list[asyncio.Task[None]] = []

    # --- start and close

    async def start(self) -> None:
        """Start the client. `assign` or `subscribe` then chooses the queues."""
        if self._session is not None:
            return
        session = await Session.acquire(self._options, consumer_group=self._wire_group)
        self._session = session
        self._messages_arrived = asyncio.Event()
        self._offsets = QueueOffsets(session, self._wire_group)
        self._assigned = AssignedQueues(
            session,
            self._wire_group,
            BrokerOffsetStore(self._offsets),
            self._limits,
            self._start_at,
            commits_with_pulls=self._auto_commit,
            on_messages=self._add_ready,
            is_paused=lambda assigned: assigned.queue in self._paused,
        )
        if self._auto_commit:
            self._tasks.append(asyncio.get_running_loop().create_task(self._commit_periodically(self._assigned)))

    async def close(self) -> None:
        """Stop fetching, commit offsets if `auto_commit` is set, and leave the group."""
        session, assigned = self._session, self._assigned
        if session is None or assigned is None:
            return
        self._session = self._assigned = None
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        await assigned.stop_pulling()
        if self._auto_commit:
            await assigned.commit()
        if self._member is not None:
            await session.leave(self._member)
            self._member = None
        if self._messages_arrived is not None:
            self._messages_arrived.set()
        await session.release(consumer_group=self._wire_group)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is None and self._auto_commit:
            self._finish_polled()
        await self.close()

    async def _commit_periodically(self, assigned: AssignedQueues) -> None:
        while True:
            await asyncio.sleep(self._limits.commit_ms / 1000)
            await assigned.commit()

    # --- assignment

    async def queues(self, topic: str) -> list[Queue]:
        """Return all queues of a topic. Raises NoRouteError if the topic does not exist."""
        route = await self._require_open()[0].route(self._wire_topic(topic))
        if route is None or route.is_borrowed:
            raise self._no_route(topic)
        return [self._to_user(queue) for queue in route.to_read]

    async def assign(self, queues: Iterable[Queue], expression: str = EVERY_TAG) -> None:
        """Read these queues and no others, from the group's offsets on. The consumer does not join the group."""
        session, assigned = self._require_open()
        if self._rebalancer is not None:
            raise ConfigurationError("`assign` cannot follow `subscribe`: the group assigns the queues. Use another consumer.")
        wire_queues = {self._to_wire(queue) for queue in queues}
        for topic in {queue.topic for queue in wire_queues}:
            if await session.route(topic) is None:
                raise self._no_route(topic)
            self._subscriptions[topic] = make_subscription(topic, expression, _now_ms())
        if not await self._apply_change(assignment_change(assigned.by_queue, wire_queues)):
            raise ClientError("The group's offsets could not be fetched for all of these queues. The log has the reasons.")

    async def subscribe(self, topics: TopicSelection) -> None:
        """Join the group and share the queues of these topics. Returns after the first rebalance, if brokers can be reached."""
        session, assigned = self._require_open()
        for topic, expression in parse_topics(topics).items():
            wire_topic = self._wire_topic(topic)
            self._subscriptions[wire_topic] = make_subscription(wire_topic, expression, _now_ms())
        if self._rebalancer is None:
            self._rebalancer = Rebalancer(
                session,
                self._wire_group,
                self._subscriptions,
                self._strategy,
                self._limits,
                assigned=lambda: list(assigned.by_queue),
                apply=self._apply_change,
            )
            self._member = self._make_member(self._rebalancer)
            session.join(self._member)
            for topic in self._subscriptions:
                await session.route(topic)
            await session.send_heartbeats()
            await self._rebalancer.rebalance()
            self._tasks.append(asyncio.get_running_loop().create_task(self._rebalancer.run()))
        else:
            await session.send_heartbeats()
            self._rebalancer.rebalance_soon()

    def _make_member(self, rebalancer: Rebalancer) -> SessionMember:
        def on_members_change(_command: Command, _connection: Connection) -> Answer:
            rebalancer.rebalance_soon()
            return None

        def consumer_data() -> ConsumerData:
            return ConsumerData(
                group_name=self._wire_group,
                consume_type=ConsumeType.CONSUME_ACTIVELY,
                message_model=MessageModel.CLUSTERING,
                consume_from_where=self._start_at.where,
                subscription_data_set=[subscription.as_body() for subscription in self._subscriptions.values()],
            )

        return SessionMember(
            group=self._wire_group,
            consumer_data=consumer_data,
            topics=lambda: list(self._subscriptions),
            handlers={RequestCode.NOTIFY_CONSUMER_IDS_CHANGED: on_members_change},
            on_route_changed=lambda topic: rebalancer.rebalance_soon() if topic in self._subscriptions else None,
            on_connected=lambda _: self._require_open()[1].wake(),
        )

    @property
    def assignment(self) -> list[Queue]:
        """The queues that are assigned now."""
        return [self._to_user(queue) for queue in self._require_open()[1].by_queue]

    async def _apply_change(self, change: AssignmentChange) -> bool:
        _, assigned = self._require_open()
        if self._auto_commit:
            await assigned.revoke(change.revoked)
        else:
            for queue in change.revoked:
                assigned.remove(assigned.by_queue[queue])
        subscriptions = [(queue, self._subscriptions.get(queue.topic)) for queue in change.assigned]
        return all(
            await asyncio.gather(
                *(
                    assigned.assign(queue, subscription, commit_start=self._auto_commit, since_ms=change.since_ms)
                    for queue, subscription in subscriptions
                    if subscription is not None
                )
            )
        )

    def pause(self, queues: Iterable[Queue]) -> None:
        """Return and fetch no messages of these queues until `resume`."""
        self._paused.update(map(self._to_wire, queues))

    def resume(self, queues: Iterable[Queue]) -> None:
        """End the pause of these queues."""
        _, assigned_queues = self._require_open()
        for queue in map(self._to_wire, queues):
            self._paused.discard(queue)
            assigned = assigned_queues.by_queue.get(queue)
            if assigned is not None:
                assigned.wake()
                self._add_ready(assigned)

    # --- messages

    async def poll(self, timeout_ms: int = 1_000, most: int = POLL_MESSAGES) -> list[Received]:
        """Wait for the next messages, at most `most`. Empty if none arrive within `timeout_ms`."""
        self._require_open()
        assert self._messages_arrived is not None
        if self._auto_commit:
            self._finish_polled()
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout_ms / 1000
        while not (messages := self._take(most)):
            left_s = until - loop.time()
            if left_s <= 0:
                return []
            self._messages_arrived.clear()
            try:
                async with asyncio.timeout(left_s):
                    await self._messages_arrived.wait()
            except TimeoutError:
                return []
            self._require_open()
        return messages

    async def __aiter__(self) -> AsyncIterator[Received]:
        while self._session is not None:
            for message in await self.poll():
                yield message

    def _add_ready(self, assigned: AssignedQueue) -> None:
        if not assigned.is_ready and assigned.process_queue.waiting:
            assigned.is_ready = True
            self._ready.append(assigned)
        assert self._messages_arrived is not None
        self._messages_arrived.set()

    def _take(self, most: int) -> list[Received]:
        _, assigned_queues = self._require_open()
        found: list[Received] = []
        for _ in range(len(self._ready)):
            assigned = self._ready.popleft()
            assigned.is_ready = False
            if assigned.queue in self._paused or assigned_queues.by_queue.get(assigned.queue) is not assigned:
                continue
            messages = assigned.process_queue.take(most - len(found), 0)
            if messages:
                self._polled.append((assigned, messages))
                found += messages
            if assigned.process_queue.waiting:
                assigned.is_ready = True
                self._ready.append(assigned)
            if len(found) >= most:
                break
        return found

    def _finish_polled(self) -> None:
        polled, self._polled = self._polled, []
        for assigned, messages in polled:
            assigned.process_queue.finish(messages)
            assigned.wake()

    # --- offsets

    async def seek(self, queue: Queue, offset: int) -> None:
        """Continue this queue at `offset`, which is also the next offset to be committed."""
        _, assigned_queues = self._require_open()
        assigned = self._require_assigned(queue)
        self._polled = [(other, messages) for other, messages in self._polled if other is not assigned]
        await assigned_queues.restart(assigned, offset)

    async def seek_to_begin(self, queue: Queue) -> None:
        """Continue at the first message of the queue."""
        await self.seek(queue, await self.begin_offset(queue))

    async def seek_to_end(self, queue: Queue) -> None:
        """Continue after the last message of the queue."""
        await self.seek(queue, await self.end_offset(queue))

    async def seek_to_time(self, queue: Queue, moment: Start) -> None:
        """Continue at the first message that was stored at this time or later."""
        await self.seek(queue, await self.offset_for_time(queue, moment))

    async def commit(self, offsets: Mapping[Queue, int] | None = None) -> None:
        """Acknowledge all polled messages, and return when the brokers have the offsets. Or commit the given offsets."""
        _, assigned_queues = self._require_open()
        assert self._offsets is not None
        if offsets is not None:
            for queue, offset in offsets.items():
                await self._offsets.commit(self._to_wire(queue), offset)
            return
        self._finish_polled()
        for assigned in list(assigned_queues.by_queue.values()):
            moved_to = assigned.offset_to_commit
            if moved_to is not None and moved_to != assigned.committed_offset:
                await self._offsets.commit(assigned.queue, moved_to)
                assigned.committed_offset = moved_to

    async def committed(self, queue: Queue) -> int | None:
        """Fetch the group's committed offset from the broker. None: there is none."""
        return await self._require_offsets().committed_offset(self._to_wire(queue))

    def position(self, queue: Queue) -> int:
        """Return the offset of the first message of this queue that no poll has returned yet."""
        return self._require_assigned(queue).process_queue.first_waiting_offset

    async def begin_offset(self, queue: Queue) -> int:
        """Fetch the offset of the first message."""
        return await self._require_offsets().min_offset(self._to_wire(queue))

    async def end_offset(self, queue: Queue) -> int:
        """Fetch the offset after the last message."""
        return await self._require_offsets().max_offset(self._to_wire(queue))

    async def offset_for_time(self, queue: Queue, moment: Start) -> int:
        """Fetch the offset of the first message stored at this time or later: a datetime, or milliseconds since 1970."""
        return await self._require_offsets().offset_at(self._to_wire(queue), to_epoch_ms(moment))

    # ---

    def _require_open(self) -> tuple[Session, AssignedQueues]:
        if self._session is None or self._assigned is None:
            raise ClientClosedError("The consumer is closed or was not started. Use `async with`.")
        return self._session, self._assigned

    def _no_route(self, topic: str) -> NoRouteError:
        nameservers = ";".join(self._require_open()[0].nameservers)
        return NoRouteError(
            f"Topic '{topic}' does not exist at {nameservers}. Create it with: skyrocket topic create {topic}", topic
        )

    def _require_assigned(self, queue: Queue) -> AssignedQueue:
        assigned = self._require_open()[1].by_queue.get(self._to_wire(queue))
        if assigned is None:
            raise ConfigurationError(f"This consumer has no assignment for {queue}. Call `assign` or `subscribe` first.")
        return assigned

    def _require_offsets(self) -> QueueOffsets:
        self._require_open()
        assert self._offsets is not None
        return self._offsets

    def _wire_topic(self, topic: str) -> str:
        return with_namespace(self._options.namespace, topic)

    def _to_wire(self, queue: Queue) -> Queue:
        return queue._replace(topic=self._wire_topic(queue.topic))

    def _to_user(self, queue: Queue) -> Queue:
        return queue._replace(topic=without_namespace(self._options.namespace, queue.topic))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
