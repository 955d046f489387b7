"""The fast path of sends: from the frames of a turn to records, queue entries and responses, in one loop for each connection.

    frame → typed header → checks → record with its offsets → … → one append → one write to each connection with its responses

The fast path takes a send (10, 310, or 320, which is a batch; in JSON or binary; oneway or not) to a queue of a topic that exists
and accepts messages, with no property that means something to the broker, or one for which a contributor has a fast redirect.
The loop stops at the first frame that is anything else. That frame and those behind it take the general path (`handler`,
`validation`). For messages of this kind both paths store the same bytes and send the same answers; the general path also answers
with errors.

So the fast path refuses nothing. A new capability that reads a property of messages must register it as a contributor: otherwise
the fast path stores such messages as if the property meant nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from time import perf_counter
from typing import Final

from skyrocket.broker.context import BrokerContext
from skyrocket.broker.send.batch import SendBatch, TargetTopic
from skyrocket.broker.send.fast_loop import BatchTerms, MessageProfile, Placement, place_rest, place_run
from skyrocket.broker.send.redirects import FastRedirect
from skyrocket.broker.send.responses import AnswerRow, fill_frames, response_pieces
from skyrocket.broker.send.validation import added_properties
from skyrocket.broker.settings import BrokerSettings
from skyrocket.net.router import Arrival, Router
from skyrocket.protocol.errors import RecordError
from skyrocket.protocol.fast_path.send_header import SEND_CODES, binary_start, json_start
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
from skyrocket.protocol.message.tags import tags_code
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.sysflag import PERM_WRITE
from skyrocket.protocol.system_names import NOT_FOR_PRODUCERS
from skyrocket.store.errors import StoreError
from skyrocket.store.message import index_keys

PROFILES_MAX = 1024  # cached; a producer has one profile for each of its tags
PROFILE_CHARACTERS_MAX = 512  # longer properties are not cached

# Properties that the general path reads, beside those that contributors claim.
_MEANINGFUL: Final = frozenset(
    {
        UNIQUE_KEY,  # a second one, or a malformed one; likewise the next
        KEYS,
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

_DIFFERENT_EACH_TIME: Final = frozenset({KEYS, TIMER_DELIVER_MS})  # profiles with these are not worth caching


class SendFastPath:
    def __init__(self, context: BrokerContext) -> None:
        self._store = context.store
        self._topics = context.topics
        self._contributors = context.contributors
        self._settings = context.settings
        self._store_host = context.store_host
        self._id_prefix = context.store_host.hex().upper().encode()
        self._wall_ms = context.wall_ms
        self._on_appended = context.on_appended
        self._counters = context.counters
        self._answers = context.answers
        self._profiles: dict[tuple[str, str], MessageProfile] = {}
        self._claimed_names: frozenset[str] = frozenset()  # the contributors' properties when the profiles were made
        self._profile_settings: BrokerSettings | None = None  # the settings when the profiles were made
        self._added_for: BrokerSettings | None = None
        self._added = b""  # properties that the broker adds, with these settings

    def register(self, router: Router) -> None:
        """Register for read events that begin with a send, or with a frame that a contributor claims."""
        for code in SEND_CODES:
            router.add_turn_path(json_start(code), self.handle, code)
            router.add_turn_path(binary_start(code), self.handle, code)
        contributor = self._contributors.of_frames
        if contributor is not None and contributor.frame_starts is not None:
            for start in contributor.frame_starts:
                router.add_turn_path(start, self.handle, RequestCode.SEND_MESSAGE_V2)

    def handle(self, arrivals: Sequence[Arrival], handled: list[int]) -> None:
        """Store the sends among the first frames of each connection and answer them, or park the answers.

        All of them are one append. Append to `handled` how many frames of each connection are handled.
        """
        settings = self._settings()
        if not self._answers.has_room:
            handled += [0] * len(arrivals)  # the general path refuses the sends
            return
        try:
            append_position = self._store.append_position(self._wall_ms())
            position, room_bytes, timestamp, header_bytes = append_position
            batch = SendBatch(position, position + room_bytes, timestamp, self._store.queues.next_offset, header_bytes)
            counts, answers_end = self._place(arrivals, batch, settings)
            # The contribution refers to the batch. If the batch kept it, both would wait for the garbage collector.
            contribution, batch.contribution = batch.contribution, None
            if contribution is not None:
                contribution.complete()
            answer = partial(self._answer, arrivals, counts, batch.answers, answers_end, settings)
            if batch.dispatches:
                # The answers leave before queues and index are told: a client that waits needs the log alone.
                data, taken = b"".join(batch.parts), batch.following_offsets()
                self._store.append_encoded(append_position, data, batch.dispatches, taken, answer)
            else:
                answer()
        except (StoreError, RecordError):
            handled += [0] * len(arrivals)  # nothing is stored: the general path meets the same error and answers with it
            return
        handled += counts
        if batch.dispatches:
            self._counters.count_dispatched(batch.dispatches)
            self._on_appended()
        if contribution is not None:
            contribution.finish()

    def _place(self, arrivals: Sequence[Arrival], batch: SendBatch, settings: BrokerSettings) -> tuple[list[int], list[int]]:
        """Put the sends of all connections into the batch. Return how many frames of each it has, and where its answers end."""
        self._drop_old_profiles(settings)
        if self._added_for is not settings:
            self._added_for, self._added = settings, encode_properties(added_properties(settings))
        rest = (self._store_host, settings.max_message_bytes, self._added, self._contributors.of_frames)
        new = tuple.__new__  # makes a named tuple in half the time of its constructor
        handled: list[int] = []
        answers_end: list[int] = []
        answers = batch.answers
        for frames, connection in arrivals:
            terms = new(BatchTerms, (pack_host(*connection.peer), *rest))
            count = place_run(frames, 0, batch, terms, self)
            handled.append(count if count == len(frames) else place_rest(frames, count, batch, terms, self))
            answers_end.append(len(answers))
            if batch.contribution is not None:
                batch.contribution.attribute(connection)
        return handled, answers_end

    # --- lookups of the loop

    def target(self, topic: str, batch: SendBatch) -> TargetTopic | None:
        """Return the topic's facts for this batch. None sends its messages to the general path."""
        known = batch.targets.get(topic)
        if known is not None:
            return known
        config, settings = self._topics.get(topic), self._settings()
        if config is None or not settings.permission & config.perm & PERM_WRITE:
            return None
        if topic in NOT_FOR_PRODUCERS or topic.startswith(self._contributors.topic_prefixes):
            return None
        batch.targets[topic] = found = batch.target(topic, max(config.write_queue_nums, config.read_queue_nums))
        return found

    def profile(self, before: str, after: str) -> MessageProfile:
        """Return the profile of properties, given the text before and behind the unique key, without the property KEYS."""
        return self._profiles.get((before, after)) or self._make_profile(before, after)

    def placement(self, redirect: FastRedirect, topic: str, queue_id: int, tags_code: int, batch: SendBatch) -> Placement | None:
        """Return where redirected messages of one queue are stored. None sends them to the general path."""
        additions = redirect.additions(topic, queue_id)
        if additions is None:
            return None
        target = batch.redirect_targets.get(redirect.topic)
        if target is None:
            batch.redirect_targets[redirect.topic] = target = batch.target(redirect.topic, 0)
        entry = tags_code if redirect.delay_ms is None else batch.timestamp + redirect.delay_ms
        more = self._added + additions.properties
        return Placement(target, redirect.queue_id, entry, redirect.kept_flags, more, additions.recall_words)

    # --- profiles

    def _drop_old_profiles(self, settings: BrokerSettings) -> None:
        """Drop profiles that were made with other contributors or settings."""
        if self._claimed_names is not self._contributors.property_names or self._profile_settings is not settings:
            self._claimed_names, self._profile_settings = self._contributors.property_names, settings
            self._profiles.clear()

    def _make_profile(self, before: str, after: str) -> MessageProfile:
        properties = decode_properties(before + after)
        meaningful = [name for name in properties if name in _MEANINGFUL or name in self._claimed_names]
        is_fast = all(text == "" or text.endswith(VALUE_END) for text in (before, after)) and properties.get(WAIT) != "false"
        redirect = None
        if is_fast and meaningful:
            text = before + after
            is_regular = text.count(NAME_END) == text.count(VALUE_END) == len(properties)  # no empty or repeated property
            if is_regular and len(meaningful) == 1:
                redirect = self._contributors.fast_redirect(meaningful[0], properties)
            is_fast = redirect is not None
        made = MessageProfile(is_fast, tags_code(properties.get(TAGS)), index_keys(properties), redirect)
        if _DIFFERENT_EACH_TIME.isdisjoint(properties) and len(before) + len(after) <= PROFILE_CHARACTERS_MAX:
            if len(self._profiles) >= PROFILES_MAX:
                self._profiles.clear()
            self._profiles[before, after] = made
        return made

    # --- answers

    def _answer(
        self,
        arrivals: Sequence[Arrival],
        counts: list[int],
        rows: list[AnswerRow],
        answers_end: list[int],
        settings: BrokerSettings,
    ) -> None:
        began_s = 0.0 if self._answers.on_written is None else perf_counter()
        json, binary = response_pieces(settings.region_id, settings.trace_on)
        appended, prefix, send, first = self._store.horizon.appended, self._id_prefix, self._answers.send, 0
        for number, end in enumerate(answers_end):
            if end > first:
                frames, connection = arrivals[number]
                answer = fill_frames(rows[first:end], prefix, json, binary)
                send(appended, connection, answer, is_last=counts[number] == len(frames))
                first = end
        if began_s and self._answers.on_written is not None and appended <= self._store.horizon.confirmed:
            self._answers.on_written(perf_counter() - began_s)
