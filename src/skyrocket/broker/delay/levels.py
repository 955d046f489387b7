"""Delayed messages (property DELAY). They wait in SCHEDULE_TOPIC_XXXX, one queue a level, and move to their topic when due.

    producer ──DELAY=3──▶ SCHEDULE_TOPIC_XXXX, queue 2 ──10 s──▶ REAL_TOPIC, queue REAL_QID

`redirect` stores each delayed message in the schedule topic. `check` delivers messages that are due, in bounded turns, and
returns when to call it again. A delivered record keeps everything but its address, the properties of the redirect included, as
Apache's does.

All messages of a level wait equally long, so they are due in the order of their queue, and `DelayLevel` looks at the head of
the queue only. A queue entry holds the time of delivery. After the clock was set back, or the level was made shorter, that time
can be further away than the level's delay. In that case every message now in the queue waits for at most that delay.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

from skyrocket.broker.delay.level_progress import DelayLevelProgress
from skyrocket.broker.send.contributors import Contributor
from skyrocket.broker.send.internal_writer import InternalWriter
from skyrocket.broker.send.property_shapes import PropertyShapes
from skyrocket.broker.send.redirects import FastRedirect, RedirectAdditions, real_queue_properties
from skyrocket.net.connection import Connection
from skyrocket.net.outside_log import OutsideLog
from skyrocket.net.router import RefusedError, Router
from skyrocket.protocol.command import Command
from skyrocket.protocol.fastjson.codec import encode
from skyrocket.protocol.headers import SendMessageRequestHeaderV2
from skyrocket.protocol.message.properties import (
    DELAY_LEVEL,
    REAL_QUEUE_ID,
    REAL_TOPIC,
    TAGS,
    TIMER_DELAY_MS,
    TIMER_DELAY_SEC,
    TIMER_DELIVER_MS,
)
from skyrocket.protocol.message.record import PHYSICAL_OFFSET_AT, QUEUE_OFFSET_AT, Record
from skyrocket.protocol.message.tags import tags_code
from skyrocket.protocol.message.waiting_record import parse_waiting_records
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from skyrocket.protocol.sysflag import TRANSACTION_MASK
from skyrocket.protocol.system_names import HALF_TOPIC, SCHEDULE_TOPIC
from skyrocket.store.cold_reads import RepeatedReads
from skyrocket.store.errors import StoreError
from skyrocket.store.log.readdress import Address, ReaddressRequest
from skyrocket.store.message import UNQUEUED, index_keys
from skyrocket.store.message_store import MessageStore
from skyrocket.store.queues.consume_queue import ENTRY
from skyrocket.store.queues.consume_queues import is_directory_name

log = logging.getLogger(__name__)
outside = OutsideLog(log)

MESSAGES_PER_TURN: Final = 512
BYTES_PER_TURN: Final = 4 * 1024 * 1024
PACE_MS: Final = 20
"""How long to wait after a delivery, so that the next append takes more messages."""

_LEVEL = re.compile(r"[+-]?[0-9]{1,10}", re.ASCII)  # the numbers that Java parses
_LEVEL_MAX = 2**31 - 1


class DelayLevel:
    def __init__(self, level: int, delay_ms: int) -> None:
        self.level = level
        self.queue_id = level - 1
        self.next_ms: int | None = 0  # when to look next; None: when a message arrives
        self._delay_ms = delay_ms
        self._bounded_until = 0  # messages before this offset …
        self._bound_ms = 0  # … are due at this time at the latest

    def count_due(self, times_ms: Sequence[int], offset: int, most: int, now_ms: int) -> int:
        """Count the messages from `offset` on that are due. `times_ms` are their entries' times; the queue ends at `most`."""
        due = self._count_due_head(times_ms, offset, most, now_ms)
        if due == len(times_ms):
            self.next_ms = now_ms if offset + due < most else None
        return due

    def _count_due_head(self, times_ms: Sequence[int], offset: int, most: int, now_ms: int) -> int:
        if not times_ms or max(times_ms) <= now_ms:
            return len(times_ms)
        for at, time_ms in enumerate(times_ms):
            due_ms = self._bound_time(time_ms, offset + at, most, now_ms)
            if due_ms > now_ms:
                self.next_ms = due_ms
                return at
        return len(times_ms)

    def _bound_time(self, time_ms: int, offset: int, most: int, now_ms: int) -> int:
        if offset < self._bounded_until:
            time_ms = min(time_ms, self._bound_ms)
        latest_ms = now_ms + self._delay_ms
        if time_ms > latest_ms:
            self._bounded_until, self._bound_ms = most, latest_ms
        return min(time_ms, latest_ms)


@dataclass(slots=True)
class _TurnBudget:
    """How much one turn may still deliver."""

    messages: int = MESSAGES_PER_TURN
    size_bytes: int = BYTES_PER_TURN


class DelayLevels(Contributor):
    property_names = frozenset({DELAY_LEVEL})

    def __init__(
        self,
        store: MessageStore,
        internal_writer: InternalWriter,
        progress: DelayLevelProgress,
        delays_ms: tuple[int, ...],
        wake: Callable[[], None],
    ) -> None:
        """`wake` makes the scheduler call `check` soon."""
        self._store = store
        self._reads = RepeatedReads(store.reads)
        self._internal_writer = internal_writer
        self._progress = progress
        self._wake = wake
        self._delays_ms = delays_ms
        self._first = 0  # the level that delivers first in this turn
        self._last_ms = 0
        self._shapes = PropertyShapes(_address)
        self._levels: list[DelayLevel] = []
        self.start_over()

    def start_over(self) -> None:
        """Look at all levels again, when the broker starts or becomes master: their progress may be another master's by now."""
        self._levels = [DelayLevel(level, self._delay_ms(level)) for level in self._known_levels()]
        for level in self._levels:
            queue = self._store.queues.get(SCHEDULE_TOPIC, level.queue_id)
            self._progress.next_offset(level.level, *((0, 0) if queue is None else (queue.min_offset, queue.max_offset)))

    def _known_levels(self) -> Iterable[int]:
        """Return the levels of the settings and those of earlier settings, in which messages may still wait."""
        used = {key.queue_id + 1 for key, _ in self._store.queues if key.topic == SCHEDULE_TOPIC}
        return sorted({*range(1, len(self._delays_ms) + 1), *used})

    def _delay_ms(self, level: int) -> int:
        return self._delays_ms[min(level, len(self._delays_ms)) - 1]

    def register(self, router: Router) -> None:
        router.add(RequestCode.GET_ALL_DELAY_OFFSET, self.offsets)

    def offsets(self, command: Command, _connection: Connection) -> Command:
        return command.response(ResponseCode.SUCCESS, body=encode(self._progress.snapshot()))

    def figures(self) -> dict[str, str]:
        """Return the delivered and the last offset of each level, for the broker's runtime information."""
        figures = {}
        for level, offset in self._progress.delivered_offsets().items():
            queue = self._store.queues.get(SCHEDULE_TOPIC, level - 1)
            figures[f"scheduleMessageOffset_{level}"] = f"{offset},{0 if queue is None else queue.max_offset}"
        return figures

    # --- messages arrive

    def redirect(self, _header: SendMessageRequestHeaderV2, record: Record, properties: dict[str, str]) -> Record | None:
        if record.sys_flag & TRANSACTION_MASK in UNQUEUED:
            return None  # the delay begins with the commit
        level = parse_level(properties.get(DELAY_LEVEL, "0"))
        return self.delay(record, properties, level) if level > 0 else None

    def fast_redirect(self, properties: Mapping[str, str]) -> FastRedirect | None:
        """Return the fast redirect for a level that exists and is written as it is stored."""
        text = properties[DELAY_LEVEL]
        levels = len(self._delays_ms)
        level = next((level for level in range(1, levels + 1) if str(level) == text), None)
        if level is None:
            return None
        return FastRedirect(SCHEDULE_TOPIC, level - 1, _additions, self._delay_ms(level))

    def delay(self, record: Record, properties: dict[str, str], level: int) -> Record:
        """Change a record and its `properties` to those of a delayed message. A level beyond the last counts as the last."""
        level = min(level, len(self._delays_ms))
        for name in (TIMER_DELIVER_MS, TIMER_DELAY_SEC, TIMER_DELAY_MS):
            properties.pop(name, None)
        properties[DELAY_LEVEL] = str(level)
        properties[REAL_TOPIC] = record.topic
        properties[REAL_QUEUE_ID] = str(record.queue_id)
        record.topic, record.queue_id = SCHEDULE_TOPIC, level - 1
        return record

    def on_queue_grown(self, queue_id: int) -> None:
        """Look at a level again whose queue was empty. Behind other messages a new one changes nothing: it is due later."""
        for level in self._levels:
            if level.queue_id == queue_id and level.next_ms is None:
                level.next_ms = 0
                self._wake()

    # --- messages are due

    def check(self, now_ms: int) -> int | None:
        """Deliver due messages. Return when to call again, or None when no message waits."""
        if now_ms < self._last_ms:  # the clock was set back
            for level in self._levels:
                level.next_ms = 0
        self._last_ms = now_ms
        budget = _TurnBudget()
        self._first = (self._first + 1) % len(self._levels)  # a busy level does not starve the others
        for level in self._levels[self._first :] + self._levels[: self._first]:
            while level.next_ms is not None and level.next_ms <= now_ms and budget.messages > 0 and budget.size_bytes > 0:
                self._deliver(level, now_ms, budget)
        waiting = [level.next_ms for level in self._levels if level.next_ms is not None]
        if not waiting:
            return None
        is_idle, is_over = budget == _TurnBudget(), budget.messages <= 0 or budget.size_bytes <= 0
        return min(waiting) if is_idle or is_over else max(min(waiting), now_ms + PACE_MS)

    def _deliver(self, level: DelayLevel, now_ms: int, budget: _TurnBudget) -> None:
        queue = self._store.queues.get(SCHEDULE_TOPIC, level.queue_id)
        if queue is None:
            level.next_ms = None
            return
        offset = self._progress.next_offset(level.level, queue.min_offset, queue.max_offset)
        entries = self._reads.read((level.level, "entries"), partial(queue.read, offset, budget.messages))
        times_ms = [time_ms for _, _, time_ms in ENTRY.iter_unpack(entries)]
        due = level.count_due(times_ms, offset, queue.max_offset, now_ms)
        if not due:
            return
        try:
            next_offset = self._readdress(level, offset, due, budget)
        except StoreError:
            level.next_ms = now_ms  # the messages are still due
            raise
        if next_offset < offset + due:
            level.next_ms = now_ms

    def _readdress(self, level: DelayLevel, offset: int, due: int, budget: _TurnBudget) -> int:
        """Move this many messages to their topics, or as many as fit into the budget. Return the offset to read next."""
        read = partial(self._store.reading.messages, SCHEDULE_TOPIC, level.queue_id, offset, due, budget.size_bytes)
        found = self._reads.read((level.level, "messages"), read)
        next_offset, records = found.next_offset, found.records
        if next_offset > offset + due:  # damaged messages were skipped, and later ones, which are not due, were read instead
            next_offset = offset + due
            records = [record for record in records if int.from_bytes(record[QUEUE_OFFSET_AT:PHYSICAL_OFFSET_AT]) < next_offset]
        if len(records) < next_offset - offset:
            missing = next_offset - offset - len(records)
            log.error("%d delayed messages of level %d are damaged and cannot be delivered.", missing, level.level)
        self._internal_writer.readdress(self._readdress_requests(records))
        self._progress.advance(level.level, next_offset, self._store.horizon.appended)
        budget.messages -= next_offset - offset
        budget.size_bytes -= sum(map(len, records))
        return next_offset

    def _readdress_requests(self, records: list[memoryview]) -> list[ReaddressRequest]:
        """Build the requests that move records of SCHEDULE_TOPIC_XXXX to their own topics.

        Skip a record without a valid topic: a store written by other software may hold such records, and they must not block
        those behind them.
        """
        requests: list[ReaddressRequest] = []
        known = self._shapes.known
        for waiting in parse_waiting_records(records, SCHEDULE_TOPIC):
            if waiting is None:
                outside.error("A delayed message is damaged and cannot be delivered.")
                continue
            record, shape, key, _, _, _, _ = waiting
            address = known.get(shape)
            if address is None:
                address, key = self._shapes.of(shape, key)
            if isinstance(address, _InvalidAddress):
                outside.error("A delayed message cannot be delivered: its topic '%s' or queue '%s' is invalid.", *address)
            else:
                requests.append((record, address, key, b""))
        return requests


def _additions(topic: str, queue_id: int) -> RedirectAdditions:
    return RedirectAdditions(real_queue_properties(topic, queue_id))


class _InvalidAddress(NamedTuple):
    """The topic and queue of a message that cannot be delivered."""

    topic: str
    queue: str


def _address(properties: dict[str, str]) -> Address | _InvalidAddress:
    """Return the address that a delayed message goes to."""
    topic, queue = properties.get(REAL_TOPIC, ""), properties.get(REAL_QUEUE_ID, "")
    queue_id = _parse_queue_id(topic, queue)
    if queue_id is None:
        return _InvalidAddress(topic[:256], queue[:32])
    return Address.of(topic, queue_id, tags_code(properties.get(TAGS)), index_keys(properties))


def parse_level(text: str) -> int:
    """Parse the property DELAY. Raise RefusedError when it is not a number; Apache answers with a system error too."""
    level = int(text) if _LEVEL.fullmatch(text) else None
    if level is None or not -_LEVEL_MAX - 1 <= level <= _LEVEL_MAX:
        raise RefusedError(ResponseCode.SYSTEM_ERROR, f"The delay level must be a whole number, not '{text[:64]}'.")
    return level


def _parse_queue_id(topic: str, text: str) -> int | None:
    """Parse a queue id. Return None when no such queue can exist, or when nothing may be delivered there."""
    queue_id = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else -1
    if topic in ("", HALF_TOPIC, SCHEDULE_TOPIC) or not is_directory_name((topic, queue_id)):
        return None
    return queue_id
