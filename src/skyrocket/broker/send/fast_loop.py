"""The fast path's loop over the frames of a read event: from each send's frame to its record, queue entry and response row.

The loop runs once for each message, so it makes few calls and few objects, and it has a compiled twin
(`compiled/send_loop.pyx`). It does not decide what a topic or a property means: it asks `SendLookups`, and mostly reuses the
answer for the message before. Frames that a contributor claims (`contributors`) come between the sends; their records go into
the same append.
"""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

from skyrocket.broker.send.batch import SendBatch, TargetTopic
from skyrocket.broker.send.contributors import Contributor
from skyrocket.broker.send.property_split import SplitProperties, split_properties
from skyrocket.broker.send.redirects import FastRedirect
from skyrocket.compiled import twin
from skyrocket.protocol.command import ONEWAY_FLAG
from skyrocket.protocol.crc import crc32
from skyrocket.protocol.errors import RecordError
from skyrocket.protocol.fast_path.send_header import SendCommandHeader, decode_send
from skyrocket.protocol.frame import Frame
from skyrocket.protocol.limits import PROPERTIES_BYTES_MAX
from skyrocket.protocol.message.batch import decode_batch, encode_batch_records
from skyrocket.protocol.message.recall_handle import encode_words
from skyrocket.protocol.message.record import HOST_BITS, Record, layout_for
from skyrocket.protocol.message.unique_key import MARK
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.sysflag import TRANSACTION_MASK
from skyrocket.protocol.system_names import RETRY_PREFIX

_BATCH: Final = int(RequestCode.SEND_BATCH_MESSAGE)
_CRC_MASK: Final = 0x7FFF_FFFF
_LENGTH_BYTES = 2  # the properties' length field in a record


class MessageProfile(NamedTuple):
    """What a message's properties mean apart from unique key and keys. Most messages of a producer have the same profile."""

    is_fast: bool  # False: the message takes the general path
    tags_code: int
    keys: tuple[str, ...]  # the last of the message's keys in the index, behind the unique key and those of the property KEYS
    redirect: FastRedirect | None


class Placement(NamedTuple):
    """Where redirected messages are stored: those of one profile, sent to one queue."""

    target: TargetTopic
    queue_id: int
    entry_code: int  # the third field of the consume queue entry: the tag's hash or the time of delivery
    kept_flags: int  # the bits of the system flag that are stored
    more: bytes  # properties behind the message's own, with MARK for the unique key
    recall_words: bytes | None  # the plain text of the recall handle, with MARK for the unique key

    def with_key(self, key: bytes) -> tuple[bytes, bytes | None]:
        """Return the additional properties and the recall handle of one message."""
        words = self.recall_words
        return self.more.replace(MARK, key), None if words is None else encode_words(words.replace(MARK, key))


class BatchTerms(NamedTuple):
    """What is the same for all messages that a connection brought in a turn."""

    born_host: bytes
    store_host: bytes
    body_bytes_max: int
    added: bytes  # properties that the broker adds
    contributor: Contributor | None = None  # claims frames between the sends


class SendLookups(Protocol):
    """What the loop asks about topics and properties. None sends the message to the general path."""

    def target(self, topic: str, batch: SendBatch) -> TargetTopic | None: ...

    def profile(self, before: str, after: str) -> MessageProfile:
        """Return the profile of properties, given the text before and behind the unique key, without the property KEYS."""

    def placement(
        self, redirect: FastRedirect, topic: str, queue_id: int, tags_code: int, batch: SendBatch
    ) -> Placement | None: ...


class _Properties(NamedTuple):
    """The properties of a message, and what they mean."""

    unique_key: str
    keys: tuple[str, ...]  # of the index
    profile: MessageProfile


class _SendLoop:
    """One pass over the frames of a connection."""

    def __init__(self, batch: SendBatch, terms: BatchTerms, lookups: SendLookups) -> None:
        self._batch = batch
        self._terms = terms
        self._lookups = lookups
        self._layout, self._host_bits = layout_for(terms.born_host, terms.store_host)
        self._has_claims = False  # the contribution has frames that it has not placed
        self._placements: dict[tuple[str, int, MessageProfile], Placement] = {}

    def place_frames(self, frames: list[Frame], first: int) -> int:
        """Place frames up to the first that is for the general path or does not fit. Return its number."""
        taken = 0
        for frame in frames[first:]:
            if not self._claim(frame):
                self._place_claims()
                send = decode_send(frame)
                if send is None or not self._place(send, frame):
                    break
            taken += 1
        self._place_claims()
        return first + taken

    def _claim(self, frame: Frame) -> bool:
        """Let the contributor claim the frame."""
        batch, contributor = self._batch, self._terms.contributor
        if contributor is None or contributor.frame_starts is None:
            return False
        if not frame.header.startswith(contributor.frame_starts[frame.serialization]):
            return False
        if batch.contribution is None:
            batch.contribution = contributor.begin(batch)
        is_claimed = batch.contribution.claim(frame)
        self._has_claims = self._has_claims or is_claimed
        return is_claimed

    def _place_claims(self) -> None:
        if self._has_claims and self._batch.contribution is not None:
            self._has_claims = False
            self._batch.contribution.place()

    def _place(self, send: SendCommandHeader, frame: Frame) -> bool:
        """Place the message or messages of a send. Return False if it is for the general path."""
        header, body = send.header, frame.body
        target, properties = self._lookups.target(header.topic, self._batch), self._look_up(header.properties or "")
        if target is None or properties is None or not 0 <= header.queue_id < target.queues:
            return False
        if len(body) > self._terms.body_bytes_max:
            return False
        if send.code == _BATCH or header.batch:
            return self._place_batch(send, frame, target, properties)
        return self._place_message(send, frame, target, properties)

    def _look_up(self, text: str) -> _Properties | None:
        """Return what properties mean. None sends the message to the general path."""
        split = split_properties(text)
        if split is None:
            return None
        profile = self._lookups.profile(split.before, split.after)
        return _Properties(split.unique_key, _index_keys(split, profile), profile) if profile.is_fast else None

    def _place_message(self, send: SendCommandHeader, frame: Frame, target: TargetTopic, properties: _Properties) -> bool:
        header, batch, terms = send.header, self._batch, self._terms
        queue_id, sys_flag, entry, more, handle = (
            header.queue_id,
            header.sys_flag,
            properties.profile.tags_code,
            terms.added,
            None,
        )
        key = properties.unique_key.encode()
        if properties.profile.redirect is not None:
            placement = self._placement(header.topic, queue_id, properties.profile) if key else None
            if placement is None:
                return False
            target, queue_id, entry, kept_flags, _, _ = placement
            sys_flag &= kept_flags
            more, handle = placement.with_key(key)
        text = (header.properties or "").encode()
        properties_bytes, position = len(text) + len(more), batch.position
        size = self._layout.size + _LENGTH_BYTES + len(frame.body) + len(target.topic_bytes) + properties_bytes
        if properties_bytes > PROPERTIES_BYTES_MAX or position + size > batch.stop or sys_flag & TRANSACTION_MASK:
            return False
        queue_offset = self._take_offsets(target, queue_id, 1)
        place = (queue_id, header.flag, queue_offset, position, sys_flag & ~HOST_BITS | self._host_bits)
        times = (header.born_timestamp, terms.born_host, batch.timestamp, terms.store_host, header.reconsume_times or 0)
        fixed = self._layout.pack(size, target.magic, crc32(frame.body) & _CRC_MASK, *place, *times, 0, len(frame.body))
        batch.parts += (fixed, frame.body, target.topic_bytes, properties_bytes.to_bytes(_LENGTH_BYTES), text, more)
        batch.dispatches.append(
            (target.topic, queue_id, queue_offset, position, size, entry, batch.timestamp, properties.keys, sys_flag)
        )
        batch.position += size + batch.header_bytes
        self._answer(send, frame, (key, position, handle, queue_offset))
        return True

    def _place_batch(self, send: SendCommandHeader, frame: Frame, target: TargetTopic, properties: _Properties) -> bool:
        """Place all messages of a batch, or none. The request's own properties are not stored."""
        header, batch, terms = send.header, self._batch, self._terms
        if properties.profile.redirect is not None or header.sys_flag & TRANSACTION_MASK or header.topic.startswith(RETRY_PREFIX):
            return False
        if len((header.properties or "").encode()) > PROPERTIES_BYTES_MAX:
            return False
        try:
            entries = decode_batch(frame.body)
            looked_up = [self._look_up(entry.properties.decode()) for entry in entries]
        except (RecordError, UnicodeDecodeError):
            return False
        first_offset = target.next_offsets.get(header.queue_id)
        if first_offset is None:
            first_offset = batch.stored_next_offset((target.topic, header.queue_id))
        like = Record(
            header.topic,
            b"",
            b"",
            header.queue_id,
            first_offset,
            batch.position,
            sys_flag=header.sys_flag,
            born_timestamp=header.born_timestamp,
            born_host=terms.born_host,
            store_timestamp=batch.timestamp,
            store_host=terms.store_host,
            reconsume_times=header.reconsume_times or 0,
            magic=target.magic,
        )
        records = encode_batch_records(entries, like, batch.header_bytes)
        if batch.position + sum(map(len, records)) + (len(records) - 1) * batch.header_bytes > batch.stop:
            return False
        dispatches, ids, position, offset = [], [], batch.position, first_offset
        for record, found in zip(records, looked_up, strict=True):
            if found is None or found.profile.redirect is not None:
                return False
            row = (target.topic, header.queue_id, offset, position, len(record), found.profile.tags_code, batch.timestamp)
            dispatches.append((*row, found.keys, header.sys_flag))
            ids.append(b"%b%016X" % (terms.store_host.hex().upper().encode(), position))
            position, offset = position + len(record) + batch.header_bytes, offset + 1
        self._take_offsets(target, header.queue_id, len(records))
        batch.parts += records
        batch.dispatches += dispatches
        batch.position = position
        self._answer(send, frame, (properties.unique_key.encode(), b",".join(ids), None, first_offset))
        return True

    def _placement(self, topic: str, queue_id: int, profile: MessageProfile) -> Placement | None:
        """Return where a redirect puts messages for a queue."""
        assert profile.redirect is not None
        known = (topic, queue_id, profile)
        placement = self._placements.get(known)
        if placement is None:
            placement = self._lookups.placement(profile.redirect, topic, queue_id, profile.tags_code, self._batch)
            if placement is not None:
                self._placements[known] = placement
        return placement

    def _take_offsets(self, target: TargetTopic, queue_id: int, count: int) -> int:
        """Return the queue's next offset, and take so many."""
        offset = target.next_offsets.get(queue_id)
        if offset is None:
            offset = self._batch.stored_next_offset((target.topic, queue_id))
        target.next_offsets[queue_id] = offset + count
        return offset

    def _answer(self, send: SendCommandHeader, frame: Frame, stored: tuple[bytes, int | bytes, bytes | None, int]) -> None:
        """Note the answer, except to a oneway send. `stored` has the unique key, the place, the handle and the queue offset."""
        if send.flag != ONEWAY_FLAG:
            self._batch.answers.append((frame.serialization, send.header.queue_id, *stored, send.opaque))


def _index_keys(split: SplitProperties, profile: MessageProfile) -> tuple[str, ...]:
    unique = (split.unique_key,) if split.unique_key else ()
    return (*unique, *split.keys, *profile.keys)


def _place_run(frames: list[Frame], first: int, batch: SendBatch, terms: BatchTerms, lookups: SendLookups) -> int:
    """Put the sends from frame `first` on into the batch, up to the first frame that is for the general path or does not fit.

    Return the number of that frame. The compiled twin also stops at a header that Java would not write; this function reads it.
    """
    return _SendLoop(batch, terms, lookups).place_frames(frames, first)


place_run = twin("send_loop", _place_run)


def place_rest(frames: list[Frame], first: int, batch: SendBatch, terms: BatchTerms, lookups: SendLookups) -> int:
    """Go on with the reference where `place_run` has stopped: it reads headers that the compiled twin leaves to it."""
    return first if place_run is _place_run else _place_run(frames, first, batch, terms, lookups)
