"""The queues that are assigned to a consumer: starts, pulls and commits them, and revokes them without losing messages."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable

from skyrocket.client.consumer.assigned_queue import AssignedQueue
from skyrocket.client.consumer.limits import ConsumerLimits
from skyrocket.client.consumer.locks import QueueLock
from skyrocket.client.consumer.offsets.offset_commit import OffsetStore
from skyrocket.client.consumer.offsets.queue_offsets import QueueOffsets
from skyrocket.client.consumer.offsets.start_position import StartOffset, StartPosition
from skyrocket.client.consumer.pull.puller import Puller
from skyrocket.client.consumer.subscription import Subscription
from skyrocket.client.errors import ClientError
from skyrocket.client.queues import Queue
from skyrocket.client.session.session import Session
from skyrocket.protocol.system_names import RETRY_PREFIX

log = logging.getLogger(__name__)

_CLOCK_SKEW_MS = 5_000  # how far a broker's clock, which stamps messages, may be behind this machine's
_RESTART_IDLE_MS = 5_000  # how long the restart of an orderly queue waits for the handler of the old messages


class AssignedQueues:
    """The queues that are assigned to a consumer, and the pull loop of each."""

    def __init__(
        self,
        session: Session,
        group: str,
        offset_store: OffsetStore,
        limits: ConsumerLimits,
        start: StartPosition,
        *,
        orderly: bool = False,
        commits_with_pulls: bool = True,
        on_messages: Callable[[AssignedQueue], None],
        is_paused: Callable[[AssignedQueue], bool],
    ) -> None:
        """`commits_with_pulls`: pulls carry the offset to commit. `on_messages` is called when a queue has new messages."""
        self._session = session
        self._group = group
        self._offset_store = offset_store
        self._limits = limits
        shared_bounds = (limits.topic_messages_max, limits.topic_bytes_max, limits.all_messages_max, limits.all_bytes_max)
        self._has_shared_bounds = any(bound is not None for bound in shared_bounds)
        self._start = start
        self._orderly = orderly
        self._commits_with_pulls = commits_with_pulls
        self._on_messages = on_messages
        self._is_paused = is_paused
        self._offsets = QueueOffsets(session, group)
        self._tasks: set[asyncio.Task[None]] = set()
        self._commit_lock = asyncio.Lock()  # held while offsets are written
        self.by_queue: dict[Queue, AssignedQueue] = {}

    # --- assign

    async def assign(
        self,
        queue: Queue,
        subscription: Subscription,
        lock: QueueLock | None = None,
        *,
        commit_start: bool = True,
        since_ms: int | None = None,
    ) -> bool:
        """Find the offset to start at, and start pulling.

        Returns False, with a log line, if the offset cannot be fetched now. Without `commit_start`, a start offset that the group
        never committed is committed only once consumption has moved past it. `since_ms`: the queue was found later than the
        topic's first queues, for which this member has looked since that time.
        """
        try:
            start = self._start.start_offset(is_retry=queue.topic.startswith(RETRY_PREFIX))
            # The end comes before the committed offset: otherwise a message that is stored between the two would be skipped.
            end = await self._offsets.max_offset(queue) if start is StartOffset.MAX and since_ms is None else None
            committed = await self._offset_store.read(queue)
            offset = committed if committed is not None else end
            if offset is None:
                offset = await self._fetch_start_offset(queue, start, since_ms)
        except ClientError as error:
            log.warning("The start offset of %s could not be fetched; the next rebalance tries again: %s", queue, error)
            return False
        self._start_queue(queue, subscription, offset, lock, committed if commit_start or committed is not None else offset)
        return True

    async def _fetch_start_offset(self, queue: Queue, start: StartOffset, since_ms: int | None) -> int:
        """Fetch the offset at which the group starts in a queue without a committed offset.

        In a queue that was found later, "the end" is the end at `since_ms`: a queue or broker that is added, or comes back, has
        messages that were sent while the group was waiting for them.
        """
        if start is StartOffset.MIN:
            return 0
        at_ms = self._start.at_ms if start is StartOffset.TIMESTAMP else (since_ms or 0) - _CLOCK_SKEW_MS
        return await self._offsets.offset_at(queue, at_ms)

    def _start_queue(
        self,
        queue: Queue,
        subscription: Subscription,
        offset: int,
        lock: QueueLock | None = None,
        committed_offset: int | None = None,
    ) -> None:
        assigned = AssignedQueue(
            queue,
            subscription,
            offset,
            self._session.now_ms(),
            self._limits,
            orderly=self._orderly,
            lock=lock,
            committed_offset=committed_offset,
        )
        self.by_queue[queue] = assigned
        puller = Puller(
            self._session,
            self._group,
            assigned,
            on_messages=self._on_messages,
            on_offset_moved=self._restart_soon,
            is_paused=self._is_paused,
            commits_with_pulls=self._commits_with_pulls,
        )
        self._divide_limits()
        assigned.pull_task = self._start_task(puller.run())

    def _divide_limits(self) -> None:
        """Divide the cache bounds of topics, and of all queues, among the queues that are assigned now."""
        if self._has_shared_bounds:
            queues_of_topic = Counter(queue.topic for queue in self.by_queue)
            for queue, assigned in self.by_queue.items():
                assigned.process_queue.limits = self._limits.divide(queues_of_topic[queue.topic], len(self.by_queue))

    def _start_task(self, job: object) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(job)  # type: ignore[arg-type]
        self._tasks.add(task)
        task.add_done_callback(self._on_task_end)
        return task

    def _on_task_end(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("The pull loop of a queue failed. The queue restarts within seconds.", exc_info=task.exception())

    # --- move

    def _restart_soon(self, assigned: AssignedQueue, offset: int) -> None:
        log.warning(
            "The broker has no offset %d in %s. Pulling continues at offset %d.",
            assigned.process_queue.next_offset,
            assigned.queue,
            offset,
        )
        assigned.process_queue.drop()  # now: until the task runs, the housekeeping would restart the queue at its old offset
        assigned.restart_offset = offset
        self._start_task(self.restart(assigned, offset))

    async def restart(self, assigned: AssignedQueue, offset: int) -> None:
        """Drop what is cached and pull again from `offset`. Results of handlers that still run do not count.

        From now on `offset` is also what is committed, even if the queue is revoked before it can restart.
        """
        assigned.process_queue.drop()
        assigned.restart_offset = offset
        assigned.wake()
        if self._orderly:
            await assigned.wait_until_idle(_RESTART_IDLE_MS)
        async with self._commit_lock:  # a commit under way has the offset from before, and must not follow that of the first pull
            if self.by_queue.get(assigned.queue) is assigned:
                self._stop_pulling(assigned)
                self._start_queue(assigned.queue, assigned.subscription, offset, assigned.process_queue.lock)

    def _stop_pulling(self, assigned: AssignedQueue) -> None:
        assigned.wake()
        if assigned.pull_task is not None and assigned.pull_task is not asyncio.current_task():
            assigned.pull_task.cancel()

    # --- commit

    async def commit(self, queues: Iterable[Queue] | None = None, *, timeout_ms: int | None = None) -> None:
        """Commit the offsets that have moved since the last commit: of these queues, or of all.

        A broker has `timeout_ms` to answer; None: as long as for any request.
        """
        async with self._commit_lock:
            by_queue = self.by_queue
            chosen = by_queue.values() if queues is None else [by_queue[queue] for queue in queues if queue in by_queue]
            offsets = [(each, each.offset_to_commit) for each in chosen]
            moved = {each: offset for each, offset in offsets if offset is not None and offset != each.committed_offset}
            if moved:
                offsets_by_queue = {each.queue: offset for each, offset in moved.items()}
                written = set(await self._offset_store.write(offsets_by_queue, timeout_ms=timeout_ms))
                for each, offset in moved.items():
                    if each.queue in written:
                        each.committed_offset = offset

    # --- revoke

    async def revoke(self, queues: Iterable[Queue]) -> list[Queue]:
        """Stop pulling queues, commit their offsets and remove them. Returns the removed queues.

        An orderly queue stays while a handler works on it and its lock is held.
        """
        leaving = [self.by_queue[queue] for queue in queues if queue in self.by_queue]
        for assigned in leaving:
            assigned.is_leaving = True  # housekeeping does not restart it while the commit waits for a broker that is away
            assigned.process_queue.stop()
            self._stop_pulling(assigned)
        if self._orderly and leaving:
            await asyncio.gather(*(assigned.wait_until_idle(self._limits.orderly_revoke_ms) for assigned in leaving))
            for assigned in leaving:
                assigned.is_leaving = not assigned.batches_in_progress or _has_lost_lock(assigned, self._session.now_ms())
            leaving = [assigned for assigned in leaving if assigned.is_leaving]
        try:
            await self.commit([assigned.queue for assigned in leaving])
        finally:
            for assigned in leaving:
                assigned.is_leaving = False
        for assigned in leaving:
            assigned.process_queue.drop()
            restarted = self.by_queue.pop(assigned.queue, None)  # the same queue, unless it restarted during the commit
            if restarted is not None:
                restarted.process_queue.drop()
                self._stop_pulling(restarted)
        self._divide_limits()
        return [assigned.queue for assigned in leaving]

    def remove(self, assigned: AssignedQueue) -> None:
        """Remove a queue at once, without a commit: another member consumes it already."""
        assigned.process_queue.drop()
        self._stop_pulling(assigned)
        if self.by_queue.get(assigned.queue) is assigned:
            del self.by_queue[assigned.queue]
        self._divide_limits()

    async def stop_pulling(self) -> None:
        """Stop all pull loops for a shutdown. Handlers may still finish."""
        for assigned in self.by_queue.values():
            assigned.process_queue.stop()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def wake(self) -> None:
        """Make all pull loops look again."""
        for assigned in self.by_queue.values():
            assigned.wake()


def _has_lost_lock(assigned: AssignedQueue, now_ms: int) -> bool:
    lock = assigned.process_queue.lock
    return lock is not None and not lock.is_held(now_ms)
