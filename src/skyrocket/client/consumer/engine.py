"""A consumer at work: its membership, its queues, and the periods in which things are done. `Consumer` is its face."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path

from skyrocket.client.consumer.assigned_queue import HeldQueue
from skyrocket.client.consumer.assigned_queues import Holdings
from skyrocket.client.consumer.broker_requests import ConsumerAnswers
from skyrocket.client.consumer.dispatch.completion import Settling
from skyrocket.client.consumer.dispatch.dispatcher import Dispatching
from skyrocket.client.consumer.dispatch.handler_runner import Calling
from skyrocket.client.consumer.dispatch.redelivery import SendingBack
from skyrocket.client.consumer.handlers import Handler
from skyrocket.client.consumer.limits import ConsumerLimits
from skyrocket.client.consumer.locks import QueueLease, QueueLocks
from skyrocket.client.consumer.offsets.offset_files import OffsetFile, default_folder
from skyrocket.client.consumer.offsets.offset_store import BrokerOffsets, FileOffsets, OffsetStore
from skyrocket.client.consumer.offsets.queue_offsets import QueueOffsets
from skyrocket.client.consumer.offsets.start_position import StartPosition
from skyrocket.client.consumer.rebalancing import Change, Rebalancing
from skyrocket.client.consumer.strategies import Strategy
from skyrocket.client.consumer.subscription import SQL92, Subscription, subscription
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

_CLOSE_MS = 3_000  # for the last words to the brokers


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumingSettings:
    group: str  # on the wire
    start: StartPosition
    concurrency: int
    orderly: bool
    auto_commit: bool
    broadcasting: bool
    offsets_folder: Path | None
    retries_max: int | None
    strategy: Strategy
    limits: ConsumerLimits


def _offset_store(session: Session, settings: ConsumingSettings) -> OffsetStore:
    """Who broadcasts reads every queue by himself, and keeps his offsets himself."""
    if settings.broadcasting:
        return FileOffsets(OffsetFile(settings.offsets_folder or default_folder(), session.client_id, settings.group))
    return BrokerOffsets(QueueOffsets(session, settings.group))


class Consuming:
    def __init__(
        self,
        session: Session,
        settings: ConsumingSettings,
        subscriptions: MutableMapping[str, Subscription],
        handlers: Mapping[str, Handler],
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
            subscriptions[topic] = subscription(topic, EVERY_TAG, next(iter(subscriptions.values())).version)
        self.sending_back = SendingBack(session, group, settings.retries_max)
        self.settling = Settling(
            self.sending_back,
            limits,
            session.now_ms,
            broadcasting=settings.broadcasting,
            retries_max=settings.retries_max,
            again=self._arrived,
        )
        self.calling = Calling(handlers, pool, by_hand=not settings.auto_commit) if handlers else None

        def paused(held: HeldQueue) -> bool:
            return is_paused(held.queue.topic)

        self.dispatching = Dispatching(
            self.settling,
            self.calling,
            session.now_ms,
            concurrency=settings.concurrency if handlers else 1,
            batch=max((known.batch for known in handlers.values()), default=0),
            is_paused=paused,
        )
        self.holdings = Holdings(
            session,
            group,
            _offset_store(session, settings),
            limits,
            settings.start,
            orderly=settings.orderly,
            commits=not settings.broadcasting,
            arrived=self._arrived,
            is_paused=paused,
        )
        self.locks = QueueLocks(session, group) if settings.orderly and not settings.broadcasting else None
        self._rebalancing = Rebalancing(
            session,
            group,
            subscriptions,
            None if settings.broadcasting else settings.strategy,
            limits,
            held=lambda: list(self.holdings.queues),
            apply=self._apply,
        )
        self._changing = asyncio.Lock()  # of who changes what is held
        self._tasks: list[asyncio.Future[None]] = []
        self._is_joined = False
        self.member = SessionMember(
            group=group,
            consumer_data=self.consumer_data,
            topics=lambda: list(self.subscriptions),
            handlers=ConsumerAnswers(self).handlers(),
            route_changed=self._route_changed,
            connected=lambda _: self.holdings.wake(),
        )

    def consumer_data(self) -> ConsumerData:
        return ConsumerData(
            group_name=self.settings.group,
            consume_type=ConsumeType.CONSUME_PASSIVELY,
            message_model=MessageModel.BROADCASTING if self.settings.broadcasting else MessageModel.CLUSTERING,
            consume_from_where=self.settings.start.where,
            subscription_data_set=[wanted.as_body() for wanted in self.subscriptions.values()],
        )

    # --- begin

    async def start(self) -> None:
        """NoNameserverError when none answers; BrokerError when a broker refuses us or an expression."""
        for topic in list(self.subscriptions):
            await self.session.route(topic)
        await self._check_expressions()
        self.session.join(self.member)
        self._is_joined = True
        await self.session.send_heartbeats()
        limits = self.settings.limits
        for topic in list(self.subscriptions):
            await self._balance_first(topic)
        self._every(limits.commit_ms, self.commit)
        self._every(limits.tick_ms, self._tick)
        if self.locks is not None:
            self._every(limits.lock_renew_ms, self.renew_locks)
        self._start_task(self._rebalancing.run())

    async def _balance_first(self, topic: str) -> None:
        """What a broker refuses is told now; what cannot be reached is left to later."""
        try:
            await self._rebalancing.balance_topic(topic)
        except BrokerError as error:
            if error.code == ResponseCode.NO_PERMISSION:
                raise
            log.warning("The queues of topic '%s' could not be shared out: %s", topic, error)
        except ClientError as error:
            log.warning("The queues of topic '%s' could not be shared out: %s", topic, error)

    async def _check_expressions(self) -> None:
        """Brokers compile SQL92 expressions; what they say to them is better heard now than in their logs."""
        for wanted in self.subscriptions.values():
            route = self.session.routes.route(wanted.topic)
            if wanted.kind != SQL92 or route is None:
                continue
            body = CheckClientRequestBody(
                client_id=self.session.client_id, group=self.settings.group, subscription_data=wanted.as_body()
            )
            for broker in route.brokers:
                address = self.session.routes.any_address(broker)
                if address is None:
                    continue
                try:
                    await self.session.request_ok(address, RequestCode.CHECK_CLIENT_CONFIG, body=encode(body))
                except UnreachableError as error:
                    log.warning("Whether %s takes the expression of topic '%s' is not known: %s", broker, wanted.topic, error)

    def _every(self, period_ms: int, job: Callable[[], Awaitable[None]]) -> None:
        async def again() -> None:
            while True:
                await asyncio.sleep(period_ms / 1000)
                try:
                    await job()
                except ClientError as error:
                    log.warning("%s", error)

        self._start_task(again())

    # --- queues come and go

    def _arrived(self, held: HeldQueue) -> None:
        self.dispatching.arrived(held)

    def rebalance_soon(self) -> None:
        self._rebalancing.soon()

    def _route_changed(self, topic: str) -> None:
        if topic in self.subscriptions:
            self._rebalancing.soon()

    def subscribed(self) -> None:
        """What is wanted has changed: tell the brokers, and look what is ours. Queues wanted otherwise are begun anew."""
        for held in list(self.holdings.queues.values()):
            wanted = self.subscriptions.get(held.queue.topic)
            if wanted is not None and wanted != held.subscription:
                held.subscription = wanted
                self._start_task(self.holdings.begin_anew(held, held.state.commit_offset))
        self._start_task(self.session.send_heartbeats())
        self._rebalancing.soon()

    def _start_task(self, job: Awaitable[None]) -> None:
        task = asyncio.ensure_future(job)
        self._tasks.append(task)
        task.add_done_callback(self._task_ended)

    def _task_ended(self, task: asyncio.Future[None]) -> None:
        self._tasks.remove(task)
        if not task.cancelled() and task.exception() is not None:
            log.error(
                "Group '%s' is not served as it should be: this is an error of ours.",
                self.settings.group,
                exc_info=task.exception(),
            )

    async def _apply(self, change: Change) -> bool:
        """Whether all of it could be done."""
        async with self._changing:
            complete = await self._let_go(change.lost)
            won = change.won
            leases: dict[Queue, QueueLease] = {}
            if self.locks is not None and won:
                asked_ms = self.session.now_ms()
                locked, _ = await self.locks.lock(won)
                complete &= len(locked) == len(won)
                won = [queue for queue in won if queue in locked]
                for queue in won:
                    leases[queue] = QueueLease(self.settings.limits)
                    leases[queue].granted(asked_ms)
            wanted = [(queue, self.subscriptions.get(queue.topic)) for queue in won]
            begun = await asyncio.gather(
                *(self.holdings.hold(queue, known, leases.get(queue)) for queue, known in wanted if known is not None)
            )
            return complete and all(begun)

    async def _let_go(self, lost: list[Queue]) -> bool:
        for hand in self.dispatching.hands:
            self.settling.note_done(hand)
        gone = await self.holdings.let_go(lost)
        if self.locks is not None and gone:
            await self.locks.unlock(gone)
        return len(gone) == len(lost)

    async def renew_locks(self) -> None:
        """A lock that another has by now ends the queue here at once: what is cached may be with the other already."""
        assert self.locks is not None
        async with self._changing:  # a queue that is let go of meanwhile would be locked for nobody
            held = {queue: each for queue, each in self.holdings.queues.items() if each.state.lease is not None}
            asked_ms = self.session.now_ms()
            locked, refused = await self.locks.lock(held)
        for queue in locked:
            lease = held[queue].state.lease
            assert lease is not None
            lease.granted(asked_ms)
            held[queue].wake()
        for queue in refused:
            lease = held[queue].state.lease
            assert lease is not None
            if lease.refused():
                log.warning("The lock of %s is another's now: it is given up here.", queue)
                self.holdings.forget(held[queue])
        if refused:
            self._rebalancing.soon()

    async def reset(self, offsets: Mapping[Queue, int]) -> None:
        """An administrator wants these queues to go on elsewhere."""
        async with self._changing:
            for queue, offset in offsets.items():
                held = self.holdings.queues.get(queue)
                if held is not None:
                    log.warning(
                        "%s goes on at %d, as an administrator wants; it was at %d.", queue, offset, held.state.commit_offset
                    )
                    await self.holdings.begin_anew(held, offset)
            await self.holdings.commit(offsets)

    # --- now and then

    async def commit(self) -> None:
        for hand in self.dispatching.hands:
            self.settling.note_done(hand)
        await self.holdings.commit()

    async def _tick(self) -> None:
        now_ms = self.session.now_ms()
        held = list(self.holdings.queues.values())
        self.dispatching.tick(held)
        for each in held:
            if not self.settings.orderly and not self.settings.broadcasting:
                await self.settling.overdue(each)
            if each.state.is_pull_expired(now_ms) or (each.puller is not None and each.puller.done() and not each.state.dropped):
                log.error("%s is not pulled any more; it is begun anew.", each.queue)
                await self.holdings.begin_anew(each, each.state.commit_offset)

    def resumed(self) -> None:
        self.holdings.wake()
        for held in self.holdings.queues.values():
            if held.state.waiting:
                self.dispatching.arrived(held)

    def own_queues(self) -> list[Queue]:
        return [queue for queue in self.holdings.queues if not queue.topic.startswith(RETRY_PREFIX)]

    # --- end

    async def close(self, most_ms: int) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.holdings.stop_pulling()
        self.dispatching.close()
        self.dispatching.acknowledge_own()
        if not await self.dispatching.drain(most_ms):
            for hand in self.dispatching.hands:
                self.settling.note_done(hand)
            left = await self.dispatching.abandon()
            log.error("%d handlers did not end in %d ms; their messages come again.", left, most_ms)
        try:
            async with asyncio.timeout(_CLOSE_MS / 1000):
                await self.holdings.commit()
                if self.locks is not None:
                    await self.locks.unlock(list(self.holdings.queues))
        except TimeoutError:
            log.warning("Not all offsets could be committed in the end; some messages come again.")
        for held in self.holdings.queues.values():
            held.state.drop()
        if self._is_joined:
            await self.session.leave(self.member)
