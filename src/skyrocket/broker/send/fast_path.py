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
from typing import Final

from skyrocket.broker.load.counters import Counters
from skyrocket.broker.send.fast_loop import Group, Surroundings, Target, Terms, Way, gather
from skyrocket.broker.send.handler import SendHandler
from skyrocket.broker.send.redirects import Detours, ShortCut
from skyrocket.broker.send.responses import send_responses
from skyrocket.broker.send.validation import Topics, added_properties
from skyrocket.broker.settings import BrokerSettings
from skyrocket.broker.transactions.end_handler import EndTransactionHandler
from skyrocket.net.connection import Connection
from skyrocket.net.router import Router
from skyrocket.protocol.errors import RecordError
from skyrocket.protocol.fast_path.end_transaction import END_START
from skyrocket.protocol.fast_path.send_header import START
from skyrocket.protocol.frame import Frame
from skyrocket.protocol.hosts import pack_host
from skyrocket.protocol.message.properties import (
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
from skyrocket.protocol.message.record import magic_for, topic_field
from skyrocket.protocol.message.tags import tags_code
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.sysflag import PERM_WRITE
from skyrocket.protocol.system_names import NOT_FOR_PRODUCERS
from skyrocket.store.errors import StoreError
from skyrocket.store.message import AppendPosition, index_keys
from skyrocket.store.message_store import MessageStore

SURROUNDINGS_MAX = 1024  # remembered at once; a producer has one for each of its tags
SURROUNDINGS_CHARACTERS_MAX = 512

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
        ends: EndTransactionHandler | None = None,
    ) -> None:
        """`general` keeps the answers that wait for the disk; `ends` knows how transactions end."""
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
        self._surroundings: dict[tuple[str, str], Surroundings] = {}
        self._detour_names: frozenset[str] = frozenset()  # with which those were looked at
        self._looked_with: BrokerSettings | None = None  # the same
        self._added_for: BrokerSettings | None = None
        self._added = b""  # properties that the broker adds, with these settings

    def register(self, router: Router) -> None:
        for start in (START, END_START):
            router.add_express(start, self.handle, RequestCode.SEND_MESSAGE_V2)

    def handle(self, frames: list[Frame], connection: Connection) -> int:
        """How many of the first frames were ordinary sends (those are stored, and answered or parked) or ends among them."""
        settings, now_ms = self._settings(), self._wall_ms()
        try:
            opening = self._store.append_position(now_ms)
            group = Group(opening.position, opening.timestamp)
            terms = self._terms(connection, opening, settings)
            gather(frames, group, terms, self)
            are_noted = self._note_ends(group, terms.stop, now_ms)
            if group.dispatches:
                self._store.append_encoded(opening, b"".join(group.parts), group.dispatches, group.taken())
        except (StoreError, RecordError):
            return 0  # nothing is stored: the general way will find the same, and say so
        if group.answers:
            self._answer(group, connection, settings)
        if group.dispatches:
            self._counters.count_dispatched(group.dispatches)
            self._on_appended()
        if self._ends is not None:
            if group.ended:
                self._ends.ended(group.ended, are_noted, now_ms)
            if group.ends:
                self._ends.take(group.ends, connection)
        return len(group.answers) + len(group.ended) + len(group.ends)

    def _note_ends(self, group: Group, stop: int, now_ms: int) -> bool:
        """Puts the op message that they fill, if they do, behind what they commit."""
        op_message = self._ends.op_message(group.ended, now_ms) if self._ends is not None and group.ended else None
        return op_message is not None and group.move([op_message], stop, self.next_offset)

    def _terms(self, connection: Connection, opening: AppendPosition, settings: BrokerSettings) -> Terms:
        self._forget_old(settings)
        born_host, stop = pack_host(*connection.peer), opening.position + opening.room_bytes
        added, halves = self._added_with(settings), None if self._ends is None else self._ends.halves
        return Terms(born_host, self._store_host, stop, settings.max_message_bytes, added, halves)

    # --- what the loop asks

    def target(self, topic: str, group: Group) -> Target | None:
        """None when there is something to say about messages to this topic."""
        if topic in group.targets:
            return group.targets[topic]
        config, settings = self._topics.get(topic), self._settings()
        if config is None or not settings.permission & config.perm & PERM_WRITE:
            return None
        if topic in NOT_FOR_PRODUCERS or topic.startswith(self._detours.prefixes):
            return None
        group.targets[topic] = found = _target(topic, max(config.write_queue_nums, config.read_queue_nums), group)
        return found

    def next_offset(self, topic: str, queue_id: int) -> int:
        return self._store.queues.next_offset((topic, queue_id))

    def surroundings(self, before: str, after: str) -> Surroundings:
        return self._surroundings.get((before, after)) or self._look(before, after)

    def way(self, short_cut: ShortCut, topic: str, queue_id: int, tags_code: int, group: Group) -> Way | None:
        """The way of messages that take a short cut; None when there is something to say about them."""
        led = short_cut.lead(topic, queue_id)
        if led is None:
            return None
        target = group.detours.get(short_cut.topic)
        if target is None:
            group.detours[short_cut.topic] = target = _target(short_cut.topic, 0, group)
        entry = tags_code if short_cut.delay_ms is None else group.timestamp + short_cut.delay_ms
        return Way(target, short_cut.queue_id, entry, short_cut.kept_flags, self._added + led.more, led.recall_words)

    # --- properties

    def _added_with(self, settings: BrokerSettings) -> bytes:
        if self._added_for is not settings:
            self._added_for, self._added = settings, encode_properties(added_properties(settings))
        return self._added

    def _forget_old(self, settings: BrokerSettings) -> None:
        """What was found out with other detours or settings does not count any more."""
        if self._detour_names is not self._detours.names or self._looked_with is not settings:
            self._detour_names, self._looked_with = self._detours.names, settings
            self._surroundings.clear()

    def _look(self, before: str, after: str) -> Surroundings:
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
        found = Surroundings(is_ordinary, tags_code(properties.get(TAGS)), index_keys(properties), short_cut)
        if _OF_ONE_MESSAGE.isdisjoint(properties) and len(before) + len(after) <= SURROUNDINGS_CHARACTERS_MAX:
            if len(self._surroundings) >= SURROUNDINGS_MAX:
                self._surroundings.clear()
            self._surroundings[before, after] = found
        return found

    # --- answers

    def _answer(self, group: Group, connection: Connection, settings: BrokerSettings) -> None:
        answer = send_responses(group.answers, self._id_prefix, settings.region_id, settings.trace_on)
        horizon = self._store.horizon
        if horizon.appended > horizon.confirmed:
            self._general.answers_when_confirmed(horizon.appended, connection, group.requests, answer)
        else:
            connection.send(answer)


def _target(topic: str, queues: int, group: Group) -> Target:
    magic = magic_for(topic)
    return Target(topic, queues, magic, topic_field(topic, magic), group.next_offsets.setdefault(topic, {}))
