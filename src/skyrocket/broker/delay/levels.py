"""One delay level: which of the messages at the head of its queue are due, and when to look again.

A level's messages wait equally long, so they come due in the order of their queue, and only its head has to be looked at. Each
queue entry says when its message is to be delivered. Such a time can be further away than the level's delay, when the clock was
set back or the level was made shorter: then everything that is in the queue by now waits that delay once more, at the longest.

Delayed messages (property DELAY): they wait in SCHEDULE_TOPIC_XXXX, one queue a level, and go to their topic when due.

    producer ──DELAY=3──▶ SCHEDULE_TOPIC_XXXX, queue 2 ──10 s──▶ REAL_TOPIC, queue REAL_QID

`redirect` stores every such message in the schedule topic; `check` delivers what is due, in bounded turns, and says when it wants
to be asked again. Delivered records keep everything but their address, as Apache keeps it, the properties of the redirect too.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from skyrocket.broker.delay.level_progress import DelayProgress
from skyrocket.broker.send.contributors import Contributor
from skyrocket.broker.send.internal_writer import InternalWriter
from skyrocket.broker.send.property_shapes import PropertyShapes
from skyrocket.broker.send.redirects import FastRedirect, RedirectAdditions, real_queue_properties
from skyrocket.net.connection import Connection
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
from skyrocket.protocol.message.waiting_record import waiting_records
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from skyrocket.protocol.sysflag import TRANSACTION_MASK
from skyrocket.protocol.system_names import HALF_TOPIC, SCHEDULE_TOPIC
from skyrocket.store.errors import StoreError
from skyrocket.store.log.readdress import Address, ReaddressRequest
from skyrocket.store.message import UNQUEUED, index_keys
from skyrocket.store.message_store import MessageStore
from skyrocket.store.queues.consume_queue import ENTRY
from skyrocket.store.queues.consume_queues import is_directory_name


class DelayLevel:
    def __init__(self, level: int, delay_ms: int) -> None:
        self.level = level
        self.queue_id = level - 1
        self.next_ms: int | None = 0  # when to look; None: when something new is there
        self._delay_ms = delay_ms
        self._bounded_until = 0  # messages before this offset …
        self._bound_ms = 0  # … are due then at the latest

    def look(self, times_ms: Sequence[int], offset: int, most: int, now_ms: int) -> int:
        """How many messages from `offset` on are due, when the entries there say these times; the queue ends at `most`."""
        due = self._due(times_ms, offset, most, now_ms)
        if due == len(times_ms):
            self.next_ms = now_ms if offset + due < most else None
        return due

    def _due(self, times_ms: Sequence[int], offset: int, most: int, now_ms: int) -> int:
        if not times_ms or max(times_ms) <= now_ms:
            return len(times_ms)
        for at, time_ms in enumerate(times_ms):
            due_ms = self._bounded(time_ms, offset + at, most, now_ms)
            if due_ms > now_ms:
                self.next_ms = due_ms
                return at
        return len(times_ms)

    def _bounded(self, time_ms: int, offset: int, most: int, now_ms: int) -> int:
        if offset < self._bounded_until:
            time_ms = min(time_ms, self._bound_ms)
        latest_ms = now_ms + self._delay_ms
        if time_ms > latest_ms:
            self._bounded_until, self._bound_ms = most, latest_ms
        return min(time_ms, latest_ms)


log = logging.getLogger(__name__)

MESSAGES_PER_TURN: Final = 512
BYTES_PER_TURN: Final = 4 * 1024 * 1024
PACE_MS: Final = 20
"""After a delivery, how long what comes due is gathered for the next: to append many costs little more than to append one."""

_LEVEL = re.compile(r"[+-]?[0-9]{1,10}", re.ASCII)  # as Java reads a number
_LEVEL_MAX = 2**31 - 1


@dataclass(slots=True)
class _Turn:
    """What may still be delivered before others have theirs."""

    messages: int = MESSAGES_PER_TURN
    size_bytes: int = BYTES_PER_TURN


class Schedule(Contributor):
    property_names = frozenset({DELAY_LEVEL})

    def __init__(
        self,
        store: MessageStore,
        internal_writer: InternalWriter,
        progress: DelayProgress,
        delays_ms: tuple[int, ...],
        wake: Callable[[], None],
    ) -> None:
        """`wake` has `check` asked soon."""
        self._store = store
        self._internal_writer = internal_writer
        self._progress = progress
        self._wake = wake
        self._delays_ms = delays_ms
        self._first = 0  # the level that has the first turn
        self._last_ms = 0
        self._shapes = PropertyShapes(_address)
        self._levels = [DelayLevel(level, self._delay_ms(level)) for level in self._known_levels()]
        for level in self._levels:
            queue = store.queues.get(SCHEDULE_TOPIC, level.queue_id)
            progress.next_offset(level.level, *((0, 0) if queue is None else (queue.min_offset, queue.max_offset)))

    def _known_levels(self) -> Iterable[int]:
        """Those of the settings, and those that once were: messages may wait there still."""
        used = {key.queue_id + 1 for key, _ in self._store.queues if key.topic == SCHEDULE_TOPIC}
        return sorted({*range(1, len(self._delays_ms) + 1), *used})

    def _delay_ms(self, level: int) -> int:
        return self._delays_ms[min(level, len(self._delays_ms)) - 1]

    def register(self, router: Router) -> None:
        router.add(RequestCode.GET_ALL_DELAY_OFFSET, self.offsets)

    def offsets(self, command: Command, _connection: Connection) -> Command:
        return command.response(ResponseCode.SUCCESS, body=encode(self._progress.snapshot()))

    def figures(self) -> dict[str, str]:
        """For the broker's runtime information: what is delivered and what is there, by level."""
        figures = {}
        for level, offset in self._progress.delivered().items():
            queue = self._store.queues.get(SCHEDULE_TOPIC, level - 1)
            figures[f"scheduleMessageOffset_{level}"] = f"{offset},{0 if queue is None else queue.max_offset}"
        return figures

    # --- in

    def redirect(self, _header: SendMessageRequestHeaderV2, record: Record, properties: dict[str, str]) -> Record | None:
        if record.sys_flag & TRANSACTION_MASK in UNQUEUED:
            return None  # its time begins with its commit
        level = level_of(properties.get(DELAY_LEVEL, "0"))
        return self.delayed(record, properties, level) if level > 0 else None

    def fast_redirect(self, properties: Mapping[str, str]) -> FastRedirect | None:
        """For a level that is there, and written as it will be stored."""
        text = properties[DELAY_LEVEL]
        levels = len(self._delays_ms)
        level = next((level for level in range(1, levels + 1) if str(level) == text), None)
        if level is None:
            return None
        return FastRedirect(SCHEDULE_TOPIC, level - 1, _additions, self._delay_ms(level))

    def delayed(self, record: Record, properties: dict[str, str], level: int) -> Record:
        """The message and its `properties`, changed to how they wait. A level beyond the last is the last."""
        level = min(level, len(self._delays_ms))
        for name in (TIMER_DELIVER_MS, TIMER_DELAY_SEC, TIMER_DELAY_MS):
            properties.pop(name, None)
        properties[DELAY_LEVEL] = str(level)
        properties[REAL_TOPIC] = record.topic
        properties[REAL_QUEUE_ID] = str(record.queue_id)
        record.topic, record.queue_id = SCHEDULE_TOPIC, level - 1
        return record

    def grew(self, queue_id: int) -> None:
        """There are new messages in a level's queue. Behind others they change nothing: those are due before them."""
        for level in self._levels:
            if level.queue_id == queue_id and level.next_ms is None:
                level.next_ms = 0
                self._wake()

    # --- out

    def check(self, now_ms: int) -> int | None:
        """Deliver what is due. When to be asked again; None when nothing waits."""
        if now_ms < self._last_ms:  # the clock was set back
            for level in self._levels:
                level.next_ms = 0
        self._last_ms = now_ms
        turn = _Turn()
        self._first = (self._first + 1) % len(self._levels)  # no level waits behind another that always has something
        for level in self._levels[self._first :] + self._levels[: self._first]:
            while level.next_ms is not None and level.next_ms <= now_ms and turn.messages > 0 and turn.size_bytes > 0:
                self._deliver(level, now_ms, turn)
        waiting = [level.next_ms for level in self._levels if level.next_ms is not None]
        if not waiting:
            return None
        is_idle, is_over = turn == _Turn(), turn.messages <= 0 or turn.size_bytes <= 0
        return min(waiting) if is_idle or is_over else max(min(waiting), now_ms + PACE_MS)

    def _deliver(self, level: DelayLevel, now_ms: int, turn: _Turn) -> None:
        queue = self._store.queues.get(SCHEDULE_TOPIC, level.queue_id)
        if queue is None:
            level.next_ms = None
            return
        offset = self._progress.next_offset(level.level, queue.min_offset, queue.max_offset)
        times_ms = [time_ms for _, _, time_ms in ENTRY.iter_unpack(queue.read(offset, turn.messages))]
        due = level.look(times_ms, offset, queue.max_offset, now_ms)
        if not due:
            return
        try:
            next_offset = self._move(level, offset, due, turn)
        except StoreError:
            level.next_ms = now_ms  # they are still due
            raise
        if next_offset < offset + due:
            level.next_ms = now_ms

    def _move(self, level: DelayLevel, offset: int, due: int, turn: _Turn) -> int:
        """Give this many messages to their topics, or as many as fit into the turn; where to read on."""
        found = self._store.reading.messages(SCHEDULE_TOPIC, level.queue_id, offset, due, turn.size_bytes)
        next_offset, records = found.next_offset, found.records
        if next_offset > offset + due:  # some are damaged, and others, which are not due, were read in their place
            next_offset = offset + due
            records = [record for record in records if int.from_bytes(record[QUEUE_OFFSET_AT:PHYSICAL_OFFSET_AT]) < next_offset]
        if len(records) < next_offset - offset:
            missing = next_offset - offset - len(records)
            log.error("%d delayed messages of level %d are damaged: they cannot be delivered.", missing, level.level)
        self._internal_writer.readdress(self._delivered(records))
        self._progress.moved(level.level, next_offset, self._store.horizon.appended)
        turn.messages -= next_offset - offset
        turn.size_bytes -= sum(map(len, records))
        return next_offset

    def _delivered(self, records: list[memoryview]) -> list[ReaddressRequest]:
        """Records of SCHEDULE_TOPIC_XXXX on their way to their own topics. One that does not say which stays: a store that others
        wrote may have such records, and they must not hold up those behind them."""
        moves: list[ReaddressRequest] = []
        known = self._shapes.known
        for waiting in waiting_records(records, SCHEDULE_TOPIC):
            if waiting is None:
                log.error("A delayed message is damaged, and cannot be delivered.")
                continue
            record, shape, key, _, _, _, _ = waiting
            address = known.get(shape)
            if address is None:
                address, key = self._shapes.of(shape, key)
            if isinstance(address, _Nowhere):
                log.error("A delayed message does not say where it goes: topic %r, queue %r.", *address)
            else:
                moves.append((record, address, key, b""))
        return moves


def _additions(topic: str, queue_id: int) -> RedirectAdditions:
    return RedirectAdditions(real_queue_properties(topic, queue_id))


class _Nowhere(NamedTuple):
    """What is said instead of an address."""

    topic: str
    queue: str


def _address(properties: dict[str, str]) -> Address | _Nowhere:
    """Where a delayed message goes."""
    topic, queue = properties.get(REAL_TOPIC, ""), properties.get(REAL_QUEUE_ID, "")
    queue_id = _queue_id(topic, queue)
    if queue_id is None:
        return _Nowhere(topic[:256], queue[:32])
    return Address.of(topic, queue_id, tags_code(properties.get(TAGS)), index_keys(properties))


def level_of(text: str) -> int:
    """What the property says. RefusedError when it is no number, which Apache answers with a system error too."""
    level = int(text) if _LEVEL.fullmatch(text) else None
    if level is None or not -_LEVEL_MAX - 1 <= level <= _LEVEL_MAX:
        raise RefusedError(ResponseCode.SYSTEM_ERROR, f"A delay level is a whole number, not '{text[:64]}'.")
    return level


def _queue_id(topic: str, text: str) -> int | None:
    """None when there can be no such queue, or nothing is ever delivered there."""
    queue_id = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else -1
    if topic in ("", HALF_TOPIC, SCHEDULE_TOPIC) or not is_directory_name((topic, queue_id)):
        return None
    return queue_id
