"""The queues that a consumer holds: begun at the right offset, pulled, committed, and let go of so that nothing is lost."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable

from skyrocket.client.consumer.assigned_queue import HeldQueue
from skyrocket.client.consumer.limits import ConsumerLimits
from skyrocket.client.consumer.locks import QueueLease
from skyrocket.client.consumer.offsets.offset_store import OffsetStore
from skyrocket.client.consumer.offsets.queue_offsets import QueueOffsets
from skyrocket.client.consumer.offsets.start_position import Place, StartPosition
from skyrocket.client.consumer.pull.puller import Pulling
from skyrocket.client.consumer.subscription import Subscription
from skyrocket.client.errors import ClientError
from skyrocket.client.queues import Queue
from skyrocket.client.session.session import Session
from skyrocket.protocol.system_names import RETRY_PREFIX

log = logging.getLogger(__name__)

_IDLE_MS = 5_000  # how long a queue that begins anew waits for handlers of its old messages, where order matters


class Holdings:
    def __init__(
        self,
        session: Session,
        group: str,
        store: OffsetStore,
        limits: ConsumerLimits,
        start: StartPosition,
        *,
        orderly: bool = False,
        commits: bool = True,
        arrived: Callable[[HeldQueue], None],
        is_paused: Callable[[HeldQueue], bool],
    ) -> None:
        """`commits`: the group's offsets are the brokers'. `arrived` is told of queues with messages to give out."""
        self._session = session
        self._group = group
        self._store = store
        self._limits = limits
        together = (limits.topic_messages_max, limits.topic_bytes_max, limits.all_messages_max, limits.all_bytes_max)
        self._is_shared = any(bound is not None for bound in together)
        self._start = start
        self._orderly = orderly
        self._commits = commits
        self._arrived = arrived
        self._is_paused = is_paused
        self._offsets = QueueOffsets(session, group)
        self._tasks: set[asyncio.Task[None]] = set()
        self.queues: dict[Queue, HeldQueue] = {}

    # --- to have

    async def hold(self, queue: Queue, subscription: Subscription, lease: QueueLease | None = None, *, keep: bool = True) -> bool:
        """Find where to begin, and begin. Not now when that cannot be found out, which is logged. Without `keep` a beginning
        that nobody has committed stays so until something moves."""
        try:
            kept = await self._store.read(queue)
            offset = await self._beginning(queue) if kept is None else kept
        except ClientError as error:
            log.warning("Where to begin in %s is not known yet: %s", queue, error)
            return False
        self.begin(queue, subscription, offset, lease, kept if keep or kept is not None else offset)
        return True

    async def _beginning(self, queue: Queue) -> int:
        place = self._start.place(is_retry=queue.topic.startswith(RETRY_PREFIX))
        if place is Place.END:
            return await self._offsets.last(queue)
        if place is Place.MOMENT:
            return await self._offsets.at(queue, self._start.at_ms)
        return 0

    def begin(
        self,
        queue: Queue,
        subscription: Subscription,
        offset: int,
        lease: QueueLease | None = None,
        kept: int | None = None,
    ) -> HeldQueue:
        now_ms = self._session.now_ms()
        held = HeldQueue(queue, subscription, offset, now_ms, self._limits, orderly=self._orderly, lease=lease, kept=kept)
        self.queues[queue] = held
        pulling = Pulling(
            self._session,
            self._group,
            held,
            arrived=self._arrived,
            moved=self._moved,
            is_paused=self._is_paused,
            commits=self._commits,
        )
        self._share_out()
        held.puller = self._run(pulling.run())
        return held

    def _share_out(self) -> None:
        """What all queues together may cache, among those that are held now."""
        if self._is_shared:
            of_topic = Counter(queue.topic for queue in self.queues)
            for queue, held in self.queues.items():
                held.state.limits = self._limits.shared_by(of_topic[queue.topic], len(self.queues))

    def _run(self, job: object) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(job)  # type: ignore[arg-type]
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("The pulling of a queue ended; it is begun anew with a later rebalance.", exc_info=task.exception())

    # --- to move

    def _moved(self, held: HeldQueue, offset: int) -> None:
        log.warning("%s goes on at %d: its broker has nothing at %d.", held.queue, offset, held.state.next_offset)
        self._run(self.begin_anew(held, offset))

    async def begin_anew(self, held: HeldQueue, offset: int) -> None:
        """From this offset, forgetting what is cached. What is with handlers does not count any more."""
        held.state.drop()
        held.wake()
        if self._orderly:
            await held.idle(_IDLE_MS)
        if self.queues.get(held.queue) is held:
            self._stop(held)
            self.begin(held.queue, held.subscription, offset, held.state.lease)

    def _stop(self, held: HeldQueue) -> None:
        held.wake()
        if held.puller is not None and held.puller is not asyncio.current_task():
            held.puller.cancel()

    # --- to keep

    async def commit(self, queues: Iterable[Queue] | None = None) -> None:
        """Offsets that have moved since they were kept last, of all queues or of these."""
        chosen = self.queues.values() if queues is None else [self.queues[queue] for queue in queues if queue in self.queues]
        moved = {held: held.state.commit_offset for held in chosen if held.state.commit_offset != held.kept}
        if moved:
            done = set(await self._store.write({held.queue: offset for held, offset in moved.items()}))
            for held, offset in moved.items():
                if held.queue in done:
                    held.kept = offset

    # --- to let go

    async def let_go(self, gone: Iterable[Queue]) -> list[Queue]:
        """Stop pulling, commit, forget. An orderly queue stays while a handler is at work: those that are gone."""
        leaving = [self.queues[queue] for queue in gone if queue in self.queues]
        for held in leaving:
            held.state.stop()
            self._stop(held)
        if self._orderly and leaving:
            await asyncio.gather(*(held.idle(self._limits.when_orderly_leaves_ms) for held in leaving))
            leaving = [held for held in leaving if not held.hands or _is_lost(held, self._session.now_ms())]
        await self.commit([held.queue for held in leaving])
        for held in leaving:
            held.state.drop()
            if self.queues.get(held.queue) is held:
                del self.queues[held.queue]
        self._share_out()
        return [held.queue for held in leaving]

    def forget(self, held: HeldQueue) -> None:
        """At once, without a commit: it is another's already."""
        held.state.drop()
        self._stop(held)
        if self.queues.get(held.queue) is held:
            del self.queues[held.queue]
        self._share_out()

    async def stop_pulling(self) -> None:
        """For a shutdown: what is with handlers may still finish."""
        for held in self.queues.values():
            held.state.stop()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def wake(self) -> None:
        for held in self.queues.values():
            held.wake()


def _is_lost(held: HeldQueue, now_ms: int) -> bool:
    return held.state.lease is not None and not held.state.lease.is_held(now_ms)
