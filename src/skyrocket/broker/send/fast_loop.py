"""The fast path's loop over the frames of a read event: from each send's frame to its record, queue entry and response row.

The loop runs once for each message, so it makes few calls and few objects, and it has a compiled twin
(`compiled/send_loop.pyx`). It does not decide what a topic or a property means: it asks `SendLookups`, and mostly reuses the
answer for the message before. Frames that a contributor claims (`contributors`) come between the sends; their records go into
the same append.
"""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol, cast

from skyrocket.broker.send.batch import SendBatch, TargetTopic
from skyrocket.broker.send.contributors import Contributor
from skyrocket.broker.send.redirects import FastRedirect
from skyrocket.compiled import twin
from skyrocket.protocol.crc import crc32
from skyrocket.protocol.fast_path.send_header import DECODE_ERRORS, decode_send_header
from skyrocket.protocol.frame import Frame
from skyrocket.protocol.limits import PROPERTIES_BYTES_MAX
from skyrocket.protocol.message.properties import NAME_END, UNIQUE_KEY, VALUE_END
from skyrocket.protocol.message.recall_handle import encode_words
from skyrocket.protocol.message.record import HOST_BITS, layout_for
from skyrocket.protocol.message.unique_key import MARK
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.sysflag import TRANSACTION_MASK

_UNIQUE = UNIQUE_KEY + NAME_END
_CODE: Final = int(RequestCode.SEND_MESSAGE_V2)
_CRC_MASK: Final = 0x7FFF_FFFF
_LENGTH_BYTES = 2  # the properties' length field in a record


class MessageProfile(NamedTuple):
    """What a message's properties mean apart from the unique key. Most messages of a producer have the same profile."""

    is_fast: bool  # False: the message takes the general path
    tags_code: int
    keys: tuple[str, ...]  # the message's keys in the index, without the unique key
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
        """Return the profile of properties, given the text before and behind the unique key."""

    def placement(
        self, redirect: FastRedirect, topic: str, queue_id: int, tags_code: int, batch: SendBatch
    ) -> Placement | None: ...


def _place_run(frames: list[Frame], first: int, batch: SendBatch, terms: BatchTerms, lookups: SendLookups) -> int:  # noqa: PLR0915
    """Put the sends from frame `first` on into the batch, up to the first frame that is for the general path or does not fit.

    Return the number of that frame. The compiled twin also stops at JSON that Java would not write; this function reads it.
    """
    parts, dispatches, answers, position = batch.parts, batch.dispatches, batch.answers, batch.position
    stop, timestamp, contribution, has_claims = batch.stop, batch.timestamp, batch.contribution, False
    born_host, store_host, body_bytes_max, added, contributor = terms
    frame_start = b"" if contributor is None else contributor.frame_start or b""
    layout, host_bits = layout_for(born_host, store_host)
    pack, fixed_bytes, kept_bits = layout.pack, layout.size + _LENGTH_BYTES, ~HOST_BITS
    last_topic = last_before = last_after = cast("str | None", None)
    placements, taken = dict[int, Placement](), 0  # of this topic and profile, by queue id
    for frame in frames[first:]:
        serialization, header_bytes, body = frame
        if contributor is not None and not serialization and header_bytes.startswith(frame_start):
            if contribution is None:
                contribution = batch.contribution = contributor.begin(batch)
            if contribution.claim(header_bytes):
                has_claims, taken = True, taken + 1
                continue
        if has_claims and contribution is not None:
            batch.position, has_claims = position, False
            contribution.place()
            position = batch.position
        try:
            send = decode_send_header(header_bytes)
        except DECODE_ERRORS:
            break
        header = send.header
        topic, queue_id, sys_flag, text = header.topic, header.queue_id, header.sys_flag, header.properties
        if serialization or send.code != _CODE or send.flag or not text or header.batch:  # flags: responses, oneway sends
            break
        if topic != last_topic:
            last_topic, target, placements = topic, lookups.target(topic, batch), {}
        before, _, rest = text.partition(_UNIQUE)
        unique_key, ended, after = rest.partition(VALUE_END)
        if after != last_after or before != last_before:  # most messages have the properties of the one before
            is_fast, code, keys, redirect = lookups.profile(before, after)
            last_before, last_after, placements = before, after, {}
        key_bytes = unique_key.encode()
        if target is None or not 0 <= queue_id < target.queues or not is_fast or not ended or not key_bytes.isalnum():
            break  # any other key might need escaping in the JSON of the response
        if redirect is None:
            stored_in, stored_queue, entry, more, handle = target, queue_id, code, added, None
        else:
            placement = placements.get(queue_id) or lookups.placement(redirect, topic, queue_id, code, batch)
            if placement is None:
                break
            placements[queue_id] = placement
            stored_in, stored_queue, entry, kept_flags, _, _ = placement
            sys_flag &= kept_flags
            more, handle = placement.with_key(key_bytes)
        stored_topic, _, magic, topic_bytes, next_offsets = stored_in
        properties, body_bytes = text.encode(), len(body)
        properties_bytes = len(properties) + len(more)
        size = fixed_bytes + body_bytes + len(topic_bytes) + properties_bytes
        is_large = body_bytes > body_bytes_max or properties_bytes > PROPERTIES_BYTES_MAX or position + size > stop
        if is_large or sys_flag & TRANSACTION_MASK:
            break
        queue_offset = next_offsets.get(stored_queue)
        if queue_offset is None:
            queue_offset = batch.stored_next_offset((stored_topic, stored_queue))
        next_offsets[stored_queue] = queue_offset + 1
        place = (stored_queue, header.flag, queue_offset, position, sys_flag & kept_bits | host_bits)
        times = (header.born_timestamp, born_host, timestamp, store_host, header.reconsume_times or 0)
        fixed = pack(size, magic, crc32(body) & _CRC_MASK, *place, *times, 0, body_bytes)
        parts += (fixed, body, topic_bytes, properties_bytes.to_bytes(_LENGTH_BYTES), properties, more)
        all_keys = (unique_key, *keys)
        dispatches.append((stored_topic, stored_queue, queue_offset, position, size, entry, timestamp, all_keys, sys_flag))
        row = (queue_id, key_bytes, position, queue_offset, send.opaque)
        answers.append(row if handle is None else (*row[:3], handle, *row[3:]))
        position += size
        taken += 1
    batch.position = position
    if has_claims and contribution is not None:
        contribution.place()
    return first + taken


place_run = twin("send_loop", _place_run)


def place_sends(frames: list[Frame], batch: SendBatch, terms: BatchTerms, lookups: SendLookups) -> int:
    """Put the first frames into the batch: as many as are for the fast path and fit into the segment. Return how many."""
    number = place_run(frames, 0, batch, terms, lookups)
    if number < len(frames) and place_run is not _place_run:
        number = _place_run(frames, number, batch, terms, lookups)
    return number
