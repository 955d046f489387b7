"""The ordinary send on its short way: from the frames of a read event to records, queue entries and answers, in one loop.

    frame → typed header → checks → record with its place → … → one append → one answer for all

An ordinary send is one message (310, JSON, not oneway) to a topic that is there and takes messages, with a unique key, and
without a property that means something to the broker; or with one that leads to a detour which knows a short cut. The loop ends
at the first frame that is anything else; that one and those behind it go the general way (`send`, `intake`), which stores and
answers the same messages the same way, and says what is wrong with others.

So nothing is refused here; and no property that must be looked at may be unknown here: a capability that knows a message by one
registers it with the detours.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from skyrocket.broker.counters import Counters
from skyrocket.broker.detours import Detours, ShortCut
from skyrocket.broker.intake import Topics, added_properties
from skyrocket.broker.names import NO_SENDING
from skyrocket.broker.responses import RecallableRow, SendRow, send_responses
from skyrocket.broker.send import SendHandler
from skyrocket.broker.settings import BrokerSettings
from skyrocket.net.connection import Connection
from skyrocket.net.router import Router
from skyrocket.protocol.command import Command
from skyrocket.protocol.crc import crc32
from skyrocket.protocol.errors import RecordError
from skyrocket.protocol.frame import Frame
from skyrocket.protocol.headers import EndTransactionRequestHeader, SendMessageRequestHeaderV2
from skyrocket.protocol.hosts import pack_host
from skyrocket.protocol.limits import PROPERTIES_BYTES_MAX
from skyrocket.protocol.oneway_end import END_START, decode_oneway_end
from skyrocket.protocol.ordinary_send import NOT_ONE, START, decode_ordinary_send
from skyrocket.protocol.properties import (
    CLUSTER,
    DELAY_LEVEL,
    KEYS,
    MESSAGE_REGION,
    NAME_END,
    TAGS,
    TIMER_DELAY_MS,
    TIMER_DELAY_SEC,
    TIMER_DELIVER_MS,
    TRACE_ON,
    TRANSACTION_PREPARED,
    UNIQUE_KEY,
    VALUE_END,
    WAIT,
    decode_properties,
    encode_properties,
)
from skyrocket.protocol.record import HOST_BITS, layout_for, magic_for, topic_field
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.sysflag import PERM_WRITE, TRANSACTION_MASK
from skyrocket.protocol.tags import tags_code
from skyrocket.store.errors import StoreError
from skyrocket.store.message import Dispatched, Opening, index_keys
from skyrocket.store.message_store import MessageStore

SURROUNDINGS_MAX = 1024  # remembered at once; a producer has one for each of its tags
SURROUNDINGS_CHARACTERS_MAX = 512
_UNIQUE = UNIQUE_KEY + NAME_END
_CODE: Final = int(RequestCode.SEND_MESSAGE_V2)
_CRC_MASK: Final = 0x7FFF_FFFF
_LENGTH_BYTES = 2  # of the properties, in a record

# Properties that the general way looks at, beside those of the detours.
_MEANINGFUL: Final = frozenset(
    {
        UNIQUE_KEY,  # a second one
        MESSAGE_REGION,
        TRACE_ON,
        CLUSTER,
        DELAY_LEVEL,
        TIMER_DELAY_MS,
        TIMER_DELAY_SEC,
        TIMER_DELIVER_MS,
        TRANSACTION_PREPARED,
    }
)

_OF_ONE_MESSAGE: Final = frozenset({KEYS, TIMER_DELIVER_MS})  # others have other ones


class _Surroundings(NamedTuple):
    """What a message's properties say beside its unique key: most of a producer's messages say the same."""

    is_ordinary: bool
    tags_code: int
    keys: tuple[str, ...]  # what the index finds the message by, beside the unique key
    short_cut: ShortCut | None  # that the message takes


class _Target(NamedTuple):
    """A topic of this read event's messages, or one where they are stored instead."""

    topic: str
    queues: int  # that messages can be sent to
    magic: int
    topic_bytes: bytes  # its name as it lies in a record
    next_offsets: dict[int, int]  # by queue id


# Where a message is stored, in which queue, with which code in its queue entry, which sys flag and which properties behind its
# own, and by which handle it can be recalled.
_Way = tuple[_Target, int, int, int, bytes, bytes | None]


@dataclass(slots=True)
class _Group:
    """Messages that are put into the store together."""

    parts: list[bytes] = field(default_factory=list)  # of the records; joined once: small pieces of memory are dear
    dispatches: list[Dispatched] = field(default_factory=list)
    answers: list[SendRow | RecallableRow] = field(default_factory=list)
    targets: dict[str, _Target] = field(default_factory=dict)
    detours: dict[str, _Target] = field(default_factory=dict)  # nobody may send to these
    ends: list[EndTransactionRequestHeader] = field(default_factory=list)  # of transactions

    def taken(self) -> dict[tuple[str, int], int]:
        """Where the queues go on."""
        return {
            (topic, queue_id): offset
            for topic, target in (self.targets | self.detours).items()
            for queue_id, offset in target.next_offsets.items()
        }

    def requests(self) -> list[Command]:
        return [Command(RequestCode.SEND_MESSAGE_V2, opaque=row[-1]) for row in self.answers]


class OrdinarySends:
    def __init__(
        self,
        store: MessageStore,
        topics: Topics,
        detours: Detours,
        settings: Callable[[], BrokerSettings],
        store_host: bytes,
        wall_ms: Callable[[], int],
        on_appended: Callable[[], None],
        counters: Counters,
        general: SendHandler,
        ends: Callable[[list[EndTransactionRequestHeader], Connection], None] | None = None,
    ) -> None:
        """`general` keeps the answers that wait for the disk; `ends` takes oneway ends of transactions."""
        self._ends = ends
        self._store = store
        self._topics = topics
        self._detours = detours
        self._settings = settings
        self._store_host = store_host
        self._id_prefix = store_host.hex().upper()
        self._wall_ms = wall_ms
        self._on_appended = on_appended
        self._counters = counters
        self._general = general
        self._surroundings: dict[tuple[str, str], _Surroundings] = {}
        self._detour_names: frozenset[str] = frozenset()  # with which those were looked at
        self._looked_with: BrokerSettings | None = None  # the same
        self._added_for: BrokerSettings | None = None
        self._added = b""  # properties that the broker adds, with these settings

    def register(self, router: Router) -> None:
        router.add_express((START, END_START), self.handle)

    def handle(self, frames: list[Frame], connection: Connection) -> int:
        """How many of the first frames were ordinary sends (those are stored, and answered or parked) or ends among them."""
        settings = self._settings()
        try:
            opening = self._store.opening(self._wall_ms())
            group = self._gathered(frames, connection, opening, settings)
            if group.dispatches:
                self._store.append_placed(opening, b"".join(group.parts), group.dispatches, group.taken())
        except (StoreError, RecordError):
            return 0  # nothing is stored: the general way will find the same, and say so
        if group.dispatches:
            self._answer(group, connection, settings)
            self._count(group)
            self._on_appended()
        if group.ends and self._ends is not None:
            self._ends(group.ends, connection)
        return len(group.dispatches) + len(group.ends)

    def _gathered(self, frames: list[Frame], connection: Connection, opening: Opening, settings: BrokerSettings) -> _Group:  # noqa: PLR0915
        """The records of the first frames, as many as are ordinary sends and fit in one piece. Each message costs what this loop
        costs, so it calls little and makes few objects."""
        group = _Group()
        parts, dispatches, answers = group.parts, group.dispatches, group.answers
        born_host, store_host = pack_host(*connection.peer), self._store_host
        layout, host_bits = layout_for(born_host, store_host)
        pack, fixed_bytes, kept_bits = layout.pack, layout.size + _LENGTH_BYTES, ~HOST_BITS
        added, body_bytes_max, remembered = self._added_with(settings), settings.max_message_bytes, self._remembered(settings)
        position, room_bytes, timestamp = opening
        stop = position + room_bytes
        nothing: str | None = None
        target_topic = before_last = after_last = nothing
        for serialization, header_bytes, body in frames:
            if header_bytes.startswith(END_START) and self._is_end(serialization, header_bytes, group.ends):
                continue
            try:
                send = decode_ordinary_send(header_bytes)
            except NOT_ONE:
                break
            header = send.header
            topic, queue_id, sys_flag, text = header.topic, header.queue_id, header.sys_flag, header.properties
            if serialization or send.code != _CODE or send.flag or not text or header.batch:  # flags: responses, oneway sends
                break
            if topic != target_topic:
                target_topic, target = topic, self._target(topic, settings, group.targets)
            before, _, rest = text.partition(_UNIQUE)
            unique_key, ended, after = rest.partition(VALUE_END)
            if after != after_last or before != before_last:  # mostly they are the same
                is_ordinary, code, keys, short_cut = remembered.get((before, after)) or self._look(before, after)
                before_last, after_last = before, after
            key_bytes = unique_key.encode()
            if target is None or not 0 <= queue_id < target.queues or not is_ordinary or not ended or not key_bytes.isalnum():
                break  # of other keys it is not known how they look in JSON
            if short_cut is None:
                stored_in, stored_queue, entry, more, handle = target, queue_id, code, added, None
            else:
                way = self._led(short_cut, header, unique_key, code, timestamp, group)
                if way is None:
                    break
                stored_in, stored_queue, entry, sys_flag, more, handle = way
            stored_topic, _, magic, topic_bytes, next_offsets = stored_in
            properties, body_bytes = text.encode(), len(body)
            properties_bytes = len(properties) + len(more)
            size = fixed_bytes + body_bytes + len(topic_bytes) + properties_bytes
            is_large = body_bytes > body_bytes_max or properties_bytes > PROPERTIES_BYTES_MAX or position + size > stop
            if is_large or sys_flag & TRANSACTION_MASK:
                break
            queue_offset = next_offsets.get(stored_queue)
            if queue_offset is None:
                queue_offset = self._store.queues.next_offset((stored_topic, stored_queue))
            next_offsets[stored_queue] = queue_offset + 1
            fixed = pack(
                size,
                magic,
                crc32(body) & _CRC_MASK,
                stored_queue,
                header.flag,
                queue_offset,
                position,
                sys_flag & kept_bits | host_bits,
                header.born_timestamp,
                born_host,
                timestamp,
                store_host,
                header.reconsume_times or 0,
                0,
                body_bytes,
            )
            parts += (fixed, body, topic_bytes, properties_bytes.to_bytes(_LENGTH_BYTES), properties, more)
            found_by = (unique_key, *keys)
            dispatches.append((stored_topic, stored_queue, queue_offset, position, size, entry, timestamp, found_by, sys_flag))
            row = (queue_id, key_bytes, position, queue_offset, send.opaque)
            answers.append(row if handle is None else (*row[:3], handle, *row[3:]))
            position += size
        return group

    def _led(
        self, short_cut: ShortCut, header: SendMessageRequestHeaderV2, unique_key: str, code: int, timestamp: int, group: _Group
    ) -> _Way | None:
        """The way of a message that takes a short cut; None when there is something to say about it."""
        led = short_cut.lead(header.topic, header.queue_id, unique_key)
        if led is None:
            return None
        target = group.detours.get(short_cut.topic) or self._new_target(short_cut.topic, 0, group.detours)
        entry = code if short_cut.delay_ms is None else timestamp + short_cut.delay_ms
        sys_flag, more = header.sys_flag & short_cut.kept_flags, self._added + led.more
        return (target, short_cut.queue_id, entry, sys_flag, more, led.recall_handle)

    def _is_end(self, serialization: int, header_bytes: bytes, ends: list[EndTransactionRequestHeader]) -> bool:
        """Ends of transactions come between the halves of others. They follow together, behind the sends: none of them can be of
        a half that came with it, since its producer must know first where that is."""
        end = None if serialization or self._ends is None else decode_oneway_end(header_bytes)
        if end is not None:
            ends.append(end)
        return end is not None

    def _target(self, topic: str, settings: BrokerSettings, targets: dict[str, _Target]) -> _Target | None:
        """None when there is something to say about messages to this topic."""
        if topic in targets:
            return targets[topic]
        config = self._topics.get(topic)
        if config is None or not settings.permission & config.perm & PERM_WRITE:
            return None
        if topic in NO_SENDING or topic.startswith(self._detours.prefixes):
            return None
        return self._new_target(topic, max(config.write_queue_nums, config.read_queue_nums), targets)

    def _new_target(self, topic: str, queues: int, targets: dict[str, _Target]) -> _Target:
        magic = magic_for(topic)
        targets[topic] = found = _Target(topic, queues, magic, topic_field(topic, magic), {})
        return found

    # --- properties

    def _added_with(self, settings: BrokerSettings) -> bytes:
        if self._added_for is not settings:
            self._added_for, self._added = settings, encode_properties(added_properties(settings))
        return self._added

    def _remembered(self, settings: BrokerSettings) -> dict[tuple[str, str], _Surroundings]:
        if self._detour_names is not self._detours.names or self._looked_with is not settings:
            self._detour_names, self._looked_with = self._detours.names, settings
            self._surroundings.clear()
        return self._surroundings

    def _look(self, before: str, after: str) -> _Surroundings:
        """What the properties before and behind the unique key say."""
        properties = decode_properties(before + after)
        meaningful = [name for name in properties if name in _MEANINGFUL or name in self._detour_names]
        is_ordinary = all(text == "" or text.endswith(VALUE_END) for text in (before, after)) and properties.get(WAIT) != "false"
        short_cut = None
        if is_ordinary and meaningful:
            text = before + after
            is_plain = text.count(NAME_END) == text.count(VALUE_END) == len(properties)  # none is passed over, or twice there
            short_cut = self._detours.short_cut(meaningful[0], properties) if is_plain and len(meaningful) == 1 else None
            is_ordinary = short_cut is not None
        found = _Surroundings(is_ordinary, tags_code(properties.get(TAGS)), index_keys(properties), short_cut)
        if _OF_ONE_MESSAGE.isdisjoint(properties) and len(before) + len(after) <= SURROUNDINGS_CHARACTERS_MAX:
            if len(self._surroundings) >= SURROUNDINGS_MAX:
                self._surroundings.clear()
            self._surroundings[before, after] = found
        return found

    # --- answers

    def _answer(self, group: _Group, connection: Connection, settings: BrokerSettings) -> None:
        answer = send_responses(group.answers, self._id_prefix, settings.region_id, settings.trace_on)
        horizon = self._store.horizon
        if horizon.appended > horizon.confirmed:
            self._general.answers_when_confirmed(horizon.appended, connection, group.requests, answer)
        else:
            connection.send(answer)

    def _count(self, group: _Group) -> None:
        sizes: dict[str, list[int]] = {}
        for topic, _, _, _, size, _, _, _, _ in group.dispatches:
            sizes.setdefault(topic, []).append(size)
        for topic, of_topic in sizes.items():
            self._counters.count_put_of(topic, len(of_topic), sum(of_topic))
