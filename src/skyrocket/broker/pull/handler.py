"""Pulls: 11 and 361. A response is a header and byte ranges of the log. A pull that finds nothing waits in the
`LongPollingTable`.

What a pull finds, and its response:

    messages                                SUCCESS, and the records
    the end of the queue                    PULL_NOT_FOUND, after waiting
    only messages that its filter rejects   PULL_RETRY_IMMEDIATELY, and the next offset
    an offset outside the queue             PULL_OFFSET_MOVED, and the next offset
    a queue without messages                PULL_NOT_FOUND at offset 0, PULL_OFFSET_MOVED elsewhere

A slave may have fewer messages than its master. So it never moves a consumer to another offset, as Apache's does not by default:
it answers PULL_RETRY_IMMEDIATELY, and the consumer asks the master. While the master is away, such a pull waits like one at the
end of its queue. (Apache's slave answers it at once, and its consumers ask again at once.)
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from skyrocket.broker.context import BrokerContext
from skyrocket.broker.limits import LARGE_RESPONSE_BYTES_MAX, LARGE_RESPONSE_MESSAGES_MAX
from skyrocket.broker.pull.checks import PullChecks, PullTerms
from skyrocket.broker.pull.cold_pulls import ColdPulls
from skyrocket.broker.pull.filters import MessageFilter
from skyrocket.broker.pull.long_polling import LongPollingTable, WaitingPull
from skyrocket.broker.pull.read_split import ReadSplit
from skyrocket.broker.pull.responses import binary_pull_response, pull_response
from skyrocket.broker.settings import BrokerSettings
from skyrocket.net.connection import Connection, Sendable
from skyrocket.net.router import Router
from skyrocket.protocol.command import Command
from skyrocket.protocol.frame import Serialization
from skyrocket.protocol.headers import PullMessageRequestHeader
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from skyrocket.protocol.sysflag import PULL_COMMIT_OFFSET, PULL_SUSPEND
from skyrocket.store.cold_reads import NotInMemoryError
from skyrocket.store.errors import StoreError
from skyrocket.store.queues.consume_queue import ConsumeQueue
from skyrocket.store.read.queue_run import PullRun, RunQuery
from skyrocket.store.read.reading import to_pull_run
from skyrocket.supervised_task import failure_of

log = logging.getLogger(__name__)

RECHECK_MS = 5_000  # between two checks of all waiting pulls, in case a wake-up was lost
PULLS_PER_SLICE = 256  # that are read and answered before the loop serves other connections
HOLD_MAX_MS = 600_000  # the longest time-out that a client may ask for


class _Outcome(NamedTuple):
    code: ResponseCode
    remark: str
    next_offset: int
    least: int
    most: int
    pieces: list[bytes] | list[memoryview]  # the records
    size_bytes: int = 0
    behind_bytes: int | None = None  # in the log behind the last message that was read


@dataclass(slots=True)
class _Pull:
    """A pull that passed its checks."""

    command: Command
    header: PullMessageRequestHeader
    connection: Connection
    terms: PullTerms
    arrived_ms: int  # when its bytes were read


def response_limits(header: PullMessageRequestHeader, settings: BrokerSettings) -> tuple[int, int]:
    """Return how many messages, and how many bytes of them, the response to a pull may contain.

    A client that names the size it can take (`responseBytesMax`) gets large responses. Apache's clients get Apache's limits.
    """
    messages_max, bytes_max = settings.pull_messages_max, settings.pull_bytes_max
    if header.response_bytes_max is not None:
        messages_max = max(messages_max, LARGE_RESPONSE_MESSAGES_MAX)
        bytes_max = max(bytes_max, min(header.response_bytes_max, LARGE_RESPONSE_BYTES_MAX))
    return messages_max, min(header.max_msg_bytes or bytes_max, bytes_max)


class PullHandler:
    def __init__(self, context: BrokerContext, checks: PullChecks, cold_pulls: ColdPulls, read_split: ReadSplit) -> None:
        self._store = context.store
        self._read_split = read_split
        self._known_master = context.known_master
        self._checks = checks
        self._groups = context.groups
        self._clients = context.clients
        self._offsets = context.offsets
        self._settings = context.settings
        self._now_ms = context.now_ms
        self._counters = context.counters
        self._slow_consumers = context.slow_consumers
        self._router = context.router
        self._cold_pulls = cold_pulls
        self._waiting: LongPollingTable[_Pull] = LongPollingTable()
        self._taken: deque[WaitingPull[_Pull]] = deque()  # to be answered in the next slices
        self._shared: dict[RunQuery, PullRun] | None = None  # what was read for pulls that are answered together
        self._to_recheck: list[WaitingPull[_Pull]] = []
        self._last_recheck_ms = context.now_ms()

    def register(self, router: Router) -> None:
        router.add(RequestCode.PULL_MESSAGE, self.handle)
        router.add(RequestCode.LITE_PULL_MESSAGE, self.handle)

    @property
    def waiting(self) -> int:
        return len(self._waiting) + len(self._taken)

    # --- a pull arrives

    def handle(self, command: Command, connection: Connection) -> Sendable | Coroutine[Any, Any, Sendable | None] | None:
        """Answer or park a pull. Where its messages are not in memory, return a coroutine that does so."""
        header = command.header(PullMessageRequestHeader)
        pull = self._begin(command, header, connection)
        read = partial(self._read_queue, pull, header.queue_offset)
        try:
            outcome = self._reset(header) or self._cold_pulls.read_now(read)
        except NotInMemoryError:
            return self._handle_cold(pull, read)
        return self._hold_or_answer(pull, outcome)

    def handle_decoded(self, command: Command, header: PullMessageRequestHeader, connection: Connection) -> None:
        """Answer or park a pull of the fast path, which has found no reset of its offset.

        Raise an error when it is refused. Raise NotInMemoryError when `handle` must handle it, from its beginning.
        """
        pull = self._begin(command, header, connection)
        outcome = self._cold_pulls.read_now(partial(self._read_queue, pull, header.queue_offset))
        answer = self._hold_or_answer(pull, outcome)
        if answer is not None:
            connection.send(answer)

    def _begin(self, command: Command, header: PullMessageRequestHeader, connection: Connection) -> _Pull:
        """Check a pull, and take note of its offsets."""
        pull = _Pull(command, header, connection, self._checks.check(header), connection.last_read_ms)
        if header.sys_flag & PULL_COMMIT_OFFSET:
            self._offsets.commit(header.consumer_group, header.topic, header.queue_id, header.commit_offset)
        self._offsets.set_pull_offset(header.consumer_group, header.topic, header.queue_id, header.queue_offset)
        return pull

    async def _handle_cold(self, pull: _Pull, read: Callable[[], _Outcome]) -> Sendable | None:
        return self._hold_or_answer(pull, await self._cold_pulls.read(read))

    def _hold_or_answer(self, pull: _Pull, outcome: _Outcome) -> Sendable | None:
        if outcome.code == ResponseCode.PULL_NOT_FOUND and self._hold(pull, outcome):
            return None
        return self._answer(pull, outcome)

    def _reset(self, header: PullMessageRequestHeader) -> _Outcome | None:
        """Answer with the offset that an administrator reset the group to, whatever offset the pull names."""
        offset = self._offsets.take_reset(header.consumer_group, header.topic, header.queue_id)
        if offset is None:
            return None
        least, most = self._bounds(header)
        return _Outcome(ResponseCode.PULL_OFFSET_MOVED, "OFFSET_RESET", offset, least, most, [])

    def _bounds(self, header: PullMessageRequestHeader) -> tuple[int, int]:
        queue = self._store.queues.get(header.topic, header.queue_id)
        return (0, 0) if queue is None else (queue.min_offset, queue.max_offset)

    def _hold(self, pull: _Pull, outcome: _Outcome) -> bool:
        """Let a pull wait for messages; return False when it must be answered now."""
        header = pull.header
        if not header.sys_flag & PULL_SUSPEND or pull.command.is_oneway:
            return False
        settings = self._settings()
        hold_ms = min(header.suspend_timeout_millis, HOLD_MAX_MS) if settings.long_polling else settings.short_polling_ms
        return self._waiting.park(
            WaitingPull(pull, pull.connection, header.topic, header.queue_id, outcome.next_offset, self._now_ms() + hold_ms)
        )

    # --- waiting pulls

    def on_queue_growth(self, grown: Sequence[tuple[str, int]]) -> None:
        """Answer the pulls that wait for new messages of these queues."""
        for topic, queue_id in self._waiting.of_queues(grown):
            queue = self._store.queues.get(topic, queue_id)
            ready = None if queue is None else self._waiting.take_ready(topic, queue_id, queue.max_offset)
            if ready:
                self._finish_ready(ready)

    def check_time(self, now_ms: int) -> None:
        """Answer the pulls whose time is up, and check the others every RECHECK_MS, a slice of them at each call."""
        self._finish_expired(now_ms)
        if not self._to_recheck and now_ms - self._last_recheck_ms >= RECHECK_MS:
            self._last_recheck_ms = now_ms
            self._to_recheck = self._waiting.waiting_pulls()
        for _ in range(min(PULLS_PER_SLICE, len(self._to_recheck))):
            waiting = self._to_recheck.pop()
            if self._waiting.take(waiting):
                self._finish(waiting, may_park=True)

    def _finish_expired(self, now_ms: int) -> None:
        expired = self._waiting.take_expired(now_ms, PULLS_PER_SLICE)
        for waiting in expired:
            self._finish(waiting, may_park=False)
        if len(expired) == PULLS_PER_SLICE:
            asyncio.get_running_loop().call_soon(self._finish_expired, now_ms)

    def close(self) -> None:
        self._cold_pulls.close()

    def drop_connection(self, connection: Connection) -> None:
        self._waiting.drop_connection(connection)

    def _finish_ready(self, pulls: list[WaitingPull[_Pull]]) -> None:
        """Answer pulls whose queue has grown: the first ones now, the others in slices, with other work in between."""
        self._finish_together(pulls[:PULLS_PER_SLICE])
        if len(pulls) > PULLS_PER_SLICE:
            is_under_way = bool(self._taken)
            self._taken.extend(pulls[PULLS_PER_SLICE:])
            if not is_under_way:
                asyncio.get_running_loop().call_soon(self._finish_slice)

    def _finish_slice(self) -> None:
        self._finish_together([self._taken.popleft() for _ in range(min(PULLS_PER_SLICE, len(self._taken)))])
        if self._taken:
            asyncio.get_running_loop().call_soon(self._finish_slice)

    def _finish_together(self, pulls: list[WaitingPull[_Pull]]) -> None:
        """Answer pulls, or park them again. Those that wait for the same messages, as if broadcast, share what is read."""
        self._shared = {} if len(pulls) > 1 else None
        for waiting in pulls:
            self._finish(waiting, may_park=True)
        self._shared = None

    def _finish(self, waiting: WaitingPull[_Pull], *, may_park: bool) -> None:
        """Answer a pull that was taken from the table, or park it again. If it cannot be read, answer with the reason.

        The other pulls go on, and so does the flush that woke them.
        """
        error = failure_of(self._answer_or_park, waiting, may_park)
        if error is None:
            return
        if not isinstance(error, StoreError):
            log.error("A pull of queue %d of topic '%s' failed.", waiting.queue_id, waiting.topic, exc_info=error)
        self._router.refuse(waiting.request.connection, waiting.request.command, error)

    def _answer_or_park(self, waiting: WaitingPull[_Pull], may_park: bool) -> None:
        pull, outcome = waiting.request, self._retry(waiting)
        is_nothing = outcome.code in (ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY)
        if may_park and is_nothing and outcome.next_offset >= outcome.most:  # otherwise the client pulls again, from there on
            waiting.scanned_to = outcome.next_offset
            if self._waiting.park(waiting):
                return
        pull.connection.send(self._answer(pull, outcome, is_long_polling=True))

    def _retry(self, waiting: WaitingPull[_Pull]) -> _Outcome:
        """Read again for a waiting pull. It has waited at the end of its queue, so its messages are new and still in memory.

        A group that was stopped meanwhile gets no messages. When the group's subscription changed, the pull restarts at its first
        offset, because messages that the old filter skipped may pass the new one.
        """
        pull = waiting.request
        header = pull.header
        group = self._groups.for_consumer(header.consumer_group)
        if group is not None and not group.consume_enable:
            code, (least, most) = ResponseCode.NO_PERMISSION, self._bounds(header)
            return _Outcome(code, "GROUP_STOPPED", header.queue_offset, least, most, [])
        asked_for = pull.terms.subscription
        if asked_for is not None:
            now = self._clients.subscription(header.consumer_group, header.topic)
            if now is not None and now is not asked_for:
                least, most = self._bounds(header)
                return _Outcome(ResponseCode.PULL_RETRY_IMMEDIATELY, "SUBSCRIPTION_CHANGED", header.queue_offset, least, most, [])
        return self._read_queue(pull, waiting.scanned_to)

    # --- reading

    def _read_queue(self, pull: _Pull, offset: int) -> _Outcome:
        header = pull.header
        queue = self._store.queues.get(header.topic, header.queue_id)
        if queue is None or queue.max_offset == 0:
            if offset:
                return self._correct(offset, 0, "NO_MESSAGE_IN_QUEUE", 0, 0)
            return _Outcome(ResponseCode.PULL_NOT_FOUND, "NO_MESSAGE_IN_QUEUE", 0, 0, 0, [])
        least, most = queue.min_offset, queue.max_offset
        if offset < least:
            return self._correct(offset, least, "OFFSET_TOO_SMALL", least, most)
        if offset == most:
            self._slow_consumers.clear_lag(header.consumer_group, header.topic, header.queue_id)
            return _Outcome(ResponseCode.PULL_NOT_FOUND, "OFFSET_OVERFLOW_ONE", offset, least, most, [])
        if offset > most:
            return self._correct(offset, most, "OFFSET_OVERFLOW_BADLY", least, most)
        settings = self._settings()
        messages_max, bytes_max = response_limits(header, settings)
        count = max(1, min(header.max_msg_nums, messages_max))
        began_ms = self._now_ms()
        run = RunQuery(header.topic, header.queue_id, offset, count, bytes_max, pull.terms.message_filter.codes)
        found = self._read(queue, run, pull.terms.message_filter)
        if found.messages:
            self.count_read(header, found.messages, found.size_bytes, found.last_place, self._now_ms() - began_ms)
            behind = self._store.horizon.appended - found.last_place
            return _Outcome(ResponseCode.SUCCESS, "FOUND", found.next_offset, least, most, found.pieces, found.size_bytes, behind)
        code, behind_last = ResponseCode.PULL_RETRY_IMMEDIATELY, self.behind_bytes(queue, found.next_offset - 1)
        return _Outcome(code, "NO_MATCHED_MESSAGE", found.next_offset, least, most, [], 0, behind_last)

    def behind_bytes(self, queue: ConsumeQueue, offset: int) -> int | None:
        """Return how far the message at an offset lies behind the end of the log; None when nobody needs to know."""
        entry = queue.entry(offset) if self._read_split.is_on else None
        return None if entry is None else self._store.horizon.appended - entry.physical_offset

    def _correct(self, offset: int, correct: int, remark: str, least: int, most: int) -> _Outcome:
        """Answer a pull of an offset that the queue does not have. `correct` is the offset to continue at."""
        if not self._settings().role.is_slave:
            return _Outcome(ResponseCode.PULL_OFFSET_MOVED, remark, correct, least, most, [])
        is_master_there = self._known_master.address is not None
        code = ResponseCode.PULL_RETRY_IMMEDIATELY if is_master_there else ResponseCode.PULL_NOT_FOUND
        return _Outcome(code, remark, offset, least, most, [])

    def _read(self, queue: ConsumeQueue, run: RunQuery, message_filter: MessageFilter) -> PullRun:
        reading = self._store.reading
        if message_filter.sql is None:
            shared = None if self._shared is None else self._shared.get(run)
            if shared is not None:
                return shared
            found = reading.read_pull(queue, run)
            if self._shared is not None:
                self._shared[run] = found
            return found
        topic, queue_id, offset, count, bytes_max, _ = run
        passes, looked_at_max = message_filter.sql.passes, message_filter.sql.messages_per_read_max
        return to_pull_run(reading.messages(topic, queue_id, offset, count, bytes_max, None, passes, looked_at_max))

    def count_read(
        self, header: PullMessageRequestHeader, messages: int, size_bytes: int, last_place: int, took_ms: int, pulls: int = 1
    ) -> None:
        """Count the messages that pulls of one queue found."""
        group, topic = header.consumer_group, header.topic
        self._counters.count_get(group, topic, messages, size_bytes, took_ms, pulls)
        self._slow_consumers.record_lag(group, topic, header.queue_id, self._store.horizon.appended - last_place)

    def _answer(self, pull: _Pull, outcome: _Outcome, *, is_long_polling: bool = False) -> Sendable:
        observer = self._router.responses
        if observer is not None:
            observer.record_response(pull.command.code, outcome.code, pull.arrived_ms, is_long_polling=is_long_polling)
        command, offsets = pull.command, (outcome.next_offset, outcome.least, outcome.most)
        suggested = self._read_split.suggest(pull.terms.group, outcome.behind_bytes)
        encode = pull_response if command.serialization is Serialization.JSON else binary_pull_response
        remark, sys_flag = outcome.remark.encode(), pull.terms.topic_sys_flag
        return [
            encode(command.opaque, outcome.code, offsets, suggested, sys_flag, remark, outcome.size_bytes),
            *outcome.pieces,
        ]
