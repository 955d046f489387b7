"""The engine of a consumer: connects pulling, dispatching, rebalancing and offset commits, and runs their periodic tasks.

`Consumer` is the public class around it.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path

from skyrocket.client.consumer.assigned_queue import AssignedQueue
from skyrocket.client.consumer.assigned_queues import AssignedQueues
from skyrocket.client.consumer.broker_requests import ConsumerRequestHandlers
from skyrocket.client.consumer.dispatch.completion import Completion
from skyrocket.client.consumer.dispatch.dispatcher import Dispatcher
from skyrocket.client.consumer.dispatch.handler_runner import HandlerRunner
from skyrocket.client.consumer.dispatch.load_shedding import LoadShedding
from skyrocket.client.consumer.dispatch.rate_limit import RateLimit
from skyrocket.client.consumer.dispatch.redelivery import Redelivery
from skyrocket.client.consumer.handlers import MessageHandler
from skyrocket.client.consumer.limits import ConsumerLimits
from skyrocket.client.consumer.locks import LockRequests, QueueLock
from skyrocket.client.consumer.offsets.offset_commit import BrokerOffsetStore, FileOffsetStore, OffsetStore
from skyrocket.client.consumer.offsets.offset_file import OffsetFile, default_folder
from skyrocket.client.consumer.offsets.queue_offsets import QueueOffsets
from skyrocket.client.consumer.offsets.start_position import StartPosition
from skyrocket.client.consumer.rebalancing import AssignmentChange, Rebalancer
from skyrocket.client.consumer.strategies import Strategy
from skyrocket.client.consumer.subscription import SQL92, Subscription, make_subscription
from skyrocket.client.errors import BrokerError, ClientError, UnreachableError
from skyrocket.client.queues import Queue
from skyrocket.client.session.members import SessionMember
from skyrocket.client.session.session import Session
from skyrocket.protocol.bodies import CheckClientRequestBody, ConsumerData, ConsumeType, MessageModel
from skyrocket.protocol.fastjson.codec import encode
from skyrocket.protocol.message.tags import EVERY_TAG
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from skyrocket.protocol.system_names import RETRY_PREFIX, retry_topic

log = logging.getLogger(__name__)

_LAST_COMMIT_MS = 3_000  # at least, for the last commit and the unlocking of a shutdown


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """The options of a consumer, parsed."""

    group: str  # as on the wire
    start: StartPosition
    concurrency: int
    orderly: bool
    auto_commit: bool
    broadcasting: bool
    offsets_folder: Path | None
    retries_max: int | None
    strategy: Strategy
    limits: ConsumerLimits
    shedding: LoadShedding | None = None
    rate_limit: RateLimit | None = None


def _make_offset_store(session: Session, settings: EngineSettings) -> OffsetStore:
    if settings.broadcasting:
        return FileOffsetStore(OffsetFile(settings.offsets_folder or default_folder(), session.client_id, settings.group))
    return BrokerOffsetStore(QueueOffsets(session, settings.group))


class ConsumerEngine:
    """One running member of a consumer group."""

    def __init__(
        self,
        session: Session,
        settings: EngineSettings,
        subscriptions: MutableMapping[str, Subscription],
        handlers: Mapping[str, MessageHandler],
        pool: concurrent.futures.Executor | None,
        *,
        is_paused: Callable[[str], bool],
    ) -> None:
        self.session = session
        self.settings = settings
        self.subscriptions = subscriptions
        limits, group = settings.limits, settings.group
        topic = retry_topic(group)
        if not settings.broadcasting and topic not in subscriptions:
            subscriptions[topic] = make_subscription(topic, EVERY_TAG, next(iter(subscriptions.values())).version)
        self.redelivery = Redelivery(session, group, settings.retries_max)
        self.completion = Completion(
            self.redelivery,
            limits,
            session.now_ms,
            broadcasting=settings.broadcasting,
            retries_max=settings.retries_max,
            on_ready=self._add_ready,
        )
        self.runner = HandlerRunner(handlers, pool, manual_commit=not settings.auto_commit) if handlers else None

        def is_queue_paused(assigned: AssignedQueue) -> bool:
            return is_paused(assigned.queue.topic)

        self.dispatcher = Dispatcher(
            self.completion,
            self.runner,
            session.now_ms,
            concurrency=settings.concurrency if handlers else 1,
            handler_batch_max=max((handler.batch for handler in handlers.values()), default=0),
            is_paused=is_queue_paused,
            shedding=settings.shedding,
            rate_limit=settings.rate_limit,
        )
        self.assigned = AssignedQueues(
            session,
            group,
            _make_offset_store(session, settings),
            limits,
            settings.start,
            orderly=settings.orderly,
            commits_with_pulls=not settings.broadcasting,
            on_messages=self._add_ready,
            is_paused=is_queue_paused,
        )
        self.locks = LockRequests(session, group) if settings.orderly and not settings.broadcasting else None
        self._rebalancer = Rebalancer(
            session,
            group,
            subscriptions,
            None if settings.broadcasting else settings.strategy,
            limits,
            assigned=lambda: list(self.assigned.by_queue),
            apply=self._apply_change,
        )
        self._assignment_lock = asyncio.Lock()  # held while the assignment changes
        self._tasks: list[asyncio.Future[None]] = []
        self._is_joined = False
        self.member = SessionMember(
            group=group,
            consumer_data=self.consumer_data,
            topics=lambda: list(self.subscriptions),
            handlers=ConsumerRequestHandlers(self).handlers(),
            on_route_changed=self._on_route_change,
            on_connected=lambda _: self.assigned.wake(),
        )

    def consumer_data(self) -> ConsumerData:
        """Return what heartbeats say about this member."""
        return ConsumerData(
            group_name=self.settings.group,
            consume_type=ConsumeType.CONSUME_PASSIVELY,
            message_model=MessageModel.BROADCASTING if self.settings.broadcasting else MessageModel.CLUSTERING,
            consume_from_where=self.settings.start.where,
            subscription_data_set=[subscription.as_body() for subscription in self.subscriptions.values()],
        )

    # --- start

    async def start(self) -> None:
        """Join the group and assign the first queues.

        Raises NoNameserverError if no nameserver answers, and BrokerError if a broker refuses the client or an expression.
        """
        for topic in list(self.subscriptions):
            await self.session.route(topic)
        await self._check_expressions()
        self.session.join(self.member)
        self._is_joined = True
        await self.session.send_heartbeats()
        limits = self.settings.limits
        for topic in list(self.subscriptions):
            await self._rebalance_first(topic)
        self._run_every(limits.commit_ms, self.commit)
        self._run_every(limits.tick_ms, self._tick)
        if self.locks is not None:
            self._run_every(limits.lock_renew_ms, self.renew_locks)
        self._start_task(self._rebalancer.run())

    async def _rebalance_first(self, topic: str) -> None:
        """Rebalance a topic at the start. Raises only if a broker denies permission; other failures are retried later."""
        try:
            await self._rebalancer.rebalance_topic(topic)
        except BrokerError as error:
            if error.code == ResponseCode.NO_PERMISSION:
                raise
            log.warning("Topic '%s' could not be rebalanced: %s", topic, error)
        except ClientError as error:
            log.warning("Topic '%s' could not be rebalanced: %s", topic, error)

    async def _check_expressions(self) -> None:
        """Have the brokers compile the SQL92 expressions, so that an error is raised here and not only logged there."""
        for subscription in self.subscriptions.values():
            route = self.session.routes.route(subscription.topic)
            if subscription.kind != SQL92 or route is None:
                continue
            body = CheckClientRequestBody(
                client_id=self.session.client_id, group=self.settings.group, subscription_data=subscription.as_body()
            )
            for broker in route.brokers:
                address = self.session.routes.any_address(broker)
                if address is None:
                    continue
                try:
                    await self.session.request_ok(address, RequestCode.CHECK_CLIENT_CONFIG, body=encode(body))
                except UnreachableError as error:
                    log.warning("%s could not check the expression of topic '%s': %s", broker, subscription.topic, error)

    def _run_every(self, period_ms: int, job: Callable[[], Awaitable[None]]) -> None:
        async def repeat() -> None:
            while True:
                await asyncio.sleep(period_ms / 1000)
                try:
                    await job()
                except ClientError as error:
                    log.warning("%s", error)

        self._start_task(repeat())

    # --- assignment

    def _add_ready(self, assigned: AssignedQueue) -> None:
        self.dispatcher.add_ready(assigned)

    def rebalance_soon(self) -> None:
        self._rebalancer.rebalance_soon()

    def _on_route_change(self, topic: str) -> None:
        if topic in self.subscriptions:
            self._rebalancer.rebalance_soon()

    def apply_subscriptions(self) -> None:
        """Apply changed subscriptions: restart the queues that they concern, send a heartbeat and rebalance."""
        for assigned in list(self.assigned.by_queue.values()):
            subscription = self.subscriptions.get(assigned.queue.topic)
            if subscription is not None and subscription != assigned.subscription:
                assigned.subscription = subscription
                self._start_task(self.assigned.restart(assigned, assigned.process_queue.commit_offset))
        self._start_task(self.session.send_heartbeats())
        self._rebalancer.rebalance_soon()

    def _start_task(self, job: Awaitable[None]) -> None:
        task = asyncio.ensure_future(job)
        self._tasks.append(task)
        task.add_done_callback(self._on_task_end)

    def _on_task_end(self, task: asyncio.Future[None]) -> None:
        self._tasks.remove(task)
        if not task.cancelled() and task.exception() is not None:
            log.error(
                "A background task of group '%s' failed. This is a bug in the client.",
                self.settings.group,
                exc_info=task.exception(),
            )

    async def _apply_change(self, change: AssignmentChange) -> bool:
        """Revoke and assign queues. Returns whether all of it was possible."""
        async with self._assignment_lock:
            is_complete = await self._revoke(change.revoked)
            queues = change.assigned
            locks: dict[Queue, QueueLock] = {}
            if self.locks is not None and queues:
                requested_ms = self.session.now_ms()
                locked, _ = await self.locks.lock(queues)
                is_complete &= len(locked) == len(queues)
                queues = [queue for queue in queues if queue in locked]
                for queue in queues:
                    locks[queue] = QueueLock(self.settings.limits)
                    locks[queue].grant(requested_ms)
            subscriptions = [(queue, self.subscriptions.get(queue.topic)) for queue in queues]
            assigned = await asyncio.gather(
                *(
                    self.assigned.assign(queue, subscription, locks.get(queue), since_ms=change.since_ms)
                    for queue, subscription in subscriptions
                    if subscription is not None
                )
            )
            return is_complete and all(assigned)

    async def _revoke(self, queues: list[Queue]) -> bool:
        self._finish_done()
        revoked = await self.assigned.revoke(queues)
        if self.locks is not None and revoked:
            await self.locks.unlock(revoked)
        return len(revoked) == len(queues)

    async def renew_locks(self) -> None:
        """Renew the locks on all queues. Removes a queue that another client has locked, as it may be consumed there."""
        assert self.locks is not None
        async with self._assignment_lock:  # otherwise a queue that is revoked meanwhile would be locked again
            queues = {queue: each for queue, each in self.assigned.by_queue.items() if each.process_queue.lock is not None}
            requested_ms = self.session.now_ms()
            locked, refused = await self.locks.lock(queues)
        for queue in locked:
            lock = queues[queue].process_queue.lock
            assert lock is not None
            lock.grant(requested_ms)
            queues[queue].wake()
        for queue in refused:
            lock = queues[queue].process_queue.lock
            assert lock is not None
            if lock.revoke():
                log.warning("Another client has locked %s. The queue is removed here.", queue)
                self.assigned.remove(queues[queue])
        if refused:
            self._rebalancer.rebalance_soon()

    async def reset_offsets(self, offsets: Mapping[Queue, int]) -> None:
        """Continue at other offsets, as an administrator requested."""
        async with self._assignment_lock:
            for queue, offset in offsets.items():
                assigned = self.assigned.by_queue.get(queue)
                if assigned is not None:
                    log.warning(
                        "An administrator reset %s from offset %d to %d.", queue, assigned.process_queue.commit_offset, offset
                    )
                    await self.assigned.restart(assigned, offset)
            await self.assigned.commit(offsets)

    # --- periodic tasks

    async def commit(self) -> None:
        """Commit the offsets of all queues."""
        self._finish_done()
        await self.assigned.commit()

    def _finish_done(self) -> None:
        for batch in self.dispatcher.batches:
            self.completion.finish_done(batch)

    async def _tick(self) -> None:
        now_ms = self.session.now_ms()
        queues = list(self.assigned.by_queue.values())
        self.dispatcher.tick(queues)
        for assigned in queues:
            process_queue, pull_task = assigned.process_queue, assigned.pull_task
            if assigned.is_leaving:
                continue
            if not self.settings.orderly and not self.settings.broadcasting:
                await self.completion.send_back_overdue(assigned)
            if process_queue.is_pull_expired(now_ms) or (
                pull_task is not None and pull_task.done() and not process_queue.dropped
            ):
                log.error("Pulling %s has stopped. The queue restarts.", assigned.queue)
                await self.assigned.restart(assigned, process_queue.commit_offset)

    def resume(self) -> None:
        """Pull and dispatch again after a pause."""
        self.assigned.wake()
        for assigned in self.assigned.by_queue.values():
            if assigned.process_queue.waiting:
                self.dispatcher.add_ready(assigned)

    def queues(self) -> list[Queue]:
        """Return the assigned queues, without those of the retry topic."""
        return [queue for queue in self.assigned.by_queue if not queue.topic.startswith(RETRY_PREFIX)]

    # --- end

    async def close(self, most_ms: int) -> None:
        """Stop pulling, wait for handlers for at most `most_ms`, commit, and leave the group.

        A broker that is slow gets what the handlers have left of `most_ms` for the last commit: without it, messages that are
        handled would be delivered again.
        """
        until_ms = self.session.now_ms() + most_ms
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.assigned.stop_pulling()
        self.dispatcher.close()
        self.dispatcher.acknowledge_owned()
        if not await self.dispatcher.drain(most_ms):
            self._finish_done()
            left = await self.dispatcher.abandon()
            log.error("%d handlers did not end within %d ms. Their messages are delivered again.", left, most_ms)
        commit_ms = max(_LAST_COMMIT_MS, until_ms - self.session.now_ms())
        try:
            async with asyncio.timeout(commit_ms / 1000):
                await self.assigned.commit(timeout_ms=commit_ms)
                if self.locks is not None:
                    await self.locks.unlock(list(self.assigned.by_queue))
        except TimeoutError:
            log.warning("The last offsets could not be committed within %d ms. Some messages are delivered again.", commit_ms)
        for assigned in self.assigned.by_queue.values():
            assigned.process_queue.drop()
        if self._is_joined:
            await self.session.leave(self.member)
