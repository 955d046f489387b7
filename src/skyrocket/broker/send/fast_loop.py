"""The loop of ordinary sends: from frames to records with their places, to what queues and index need, and to rows of answers.
Ends of transactions come between the halves of others: the messages that plain ones commit are put between the sent ones.

Each message costs what this loop costs, so it calls little, makes few objects, and has a compiled twin. What a message's topic
and properties mean is not decided here but asked (`Ways`), and mostly remembered from the message before it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from skyrocket.broker.send.redirects import ShortCut
from skyrocket.broker.send.responses import RecallableRow, SendRow
from skyrocket.broker.transactions.end_fast_path import Halves, plain_ends
from skyrocket.compiled import twin
from skyrocket.protocol.command import Command
from skyrocket.protocol.crc import crc32
from skyrocket.protocol.fast_path.end_transaction import END_START, TransactionEnd, decode_oneway_end
from skyrocket.protocol.fast_path.send_header import NOT_ONE, decode_ordinary_send
from skyrocket.protocol.frame import Frame
from skyrocket.protocol.limits import PROPERTIES_BYTES_MAX
from skyrocket.protocol.message.properties import NAME_END, UNIQUE_KEY, VALUE_END
from skyrocket.protocol.message.recall_handle import encode_words
from skyrocket.protocol.message.record import HOST_BITS, layout_for
from skyrocket.protocol.message.unique_key import MARK
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.sysflag import TRANSACTION_MASK
from skyrocket.store.log.readdress import ReaddressRequest, readdress_records
from skyrocket.store.message import AppendPosition, DispatchFields

_UNIQUE = UNIQUE_KEY + NAME_END
_CODE: Final = int(RequestCode.SEND_MESSAGE_V2)
_CRC_MASK: Final = 0x7FFF_FFFF
_LENGTH_BYTES = 2  # of the properties, in a record


class Surroundings(NamedTuple):
    """What a message's properties say beside its unique key: most of a producer's messages say the same."""

    is_ordinary: bool
    tags_code: int
    keys: tuple[str, ...]  # what the index finds the message by, beside the unique key
    short_cut: ShortCut | None  # that the message takes


class Target(NamedTuple):
    """A topic of this read event's messages, or one where they are stored instead."""

    topic: str
    queues: int  # that messages can be sent to
    magic: int
    topic_bytes: bytes  # its name as it lies in a record
    next_offsets: dict[int, int]  # by queue id


class Way(NamedTuple):
    """Where messages are stored that take a short cut: those to one queue of a topic, with the same surroundings."""

    target: Target
    queue_id: int
    entry_code: int  # of its queue entry
    kept_flags: int  # of its sys flag
    more: bytes  # properties behind its own, the unique key marked
    recall_words: bytes | None  # of the handle by which it can be recalled, marked too

    def with_key(self, key: bytes) -> tuple[bytes, bytes | None]:
        """The properties and the handle of one message."""
        words = self.recall_words
        return self.more.replace(MARK, key), None if words is None else encode_words(words.replace(MARK, key))


class Terms(NamedTuple):
    """What is the same for all messages of a read event."""

    born_host: bytes
    store_host: bytes
    stop: int  # their records end here at the latest
    body_bytes_max: int
    added: bytes  # properties that the broker adds
    halves: Callable[[], Halves] | None = None  # that end; None: nobody takes ends of transactions


@dataclass(slots=True)
class Group:
    """Messages that are put into the store together."""

    position: int  # where the next record goes
    timestamp: int  # when they are stored
    parts: list[bytes] = field(default_factory=list)  # of the records; joined once: small pieces of memory are dear
    dispatches: list[DispatchFields] = field(default_factory=list)
    answers: list[SendRow | RecallableRow] = field(default_factory=list)
    targets: dict[str, Target] = field(default_factory=dict)
    detours: dict[str, Target] = field(default_factory=dict)  # nobody may send to these
    next_offsets: dict[str, dict[int, int]] = field(default_factory=dict)  # where queues go on, by topic and queue id
    ended: list[int] = field(default_factory=list)  # queue offsets of half messages that had plain ends
    ends: list[TransactionEnd] = field(default_factory=list)
    """Those that one must look at more closely. They follow behind the sends: none of them can be of a half that came with it,
    since its producer must know first where that is."""

    def move(self, moves: list[ReaddressRequest], stop: int, next_offset: Callable[[str, int], int]) -> bool:
        """Puts records of the log behind the others, under their new places; False when they are for the general way."""

        def of_queue(queue: tuple[str, int]) -> int:
            found = self.next_offsets.get(queue[0], {}).get(queue[1])
            return next_offset(*queue) if found is None else found

        run = readdress_records(moves, AppendPosition(self.position, stop - self.position, self.timestamp), of_queue)
        if run is None:
            return False
        data, dispatches, taken = run
        self.parts.append(data)
        self.dispatches += dispatches
        self.position += len(data)
        for (topic, queue_id), offset in taken.items():
            self.next_offsets.setdefault(topic, {})[queue_id] = offset
        return True

    def taken(self) -> dict[tuple[str, int], int]:
        """Where the queues go on."""
        return {(topic, queue_id): offset for topic, offsets in self.next_offsets.items() for queue_id, offset in offsets.items()}

    def requests(self) -> list[Command]:
        return [Command(RequestCode.SEND_MESSAGE_V2, opaque=row[-1]) for row in self.answers]


class Ways(Protocol):
    """What the loop asks. None: there is something to say about the message, and the general way will."""

    def target(self, topic: str, group: Group) -> Target | None: ...

    def next_offset(self, topic: str, queue_id: int) -> int:
        """Of a queue that has had no message in this group."""

    def surroundings(self, before: str, after: str) -> Surroundings:
        """Of properties, the text before and behind the unique key."""

    def way(self, short_cut: ShortCut, topic: str, queue_id: int, tags_code: int, group: Group) -> Way | None: ...


def _gather_most(frames: list[Frame], first: int, group: Group, terms: Terms, ways: Ways) -> int:  # noqa: PLR0915
    """Takes the frames from `first` on into the group, as many as are ordinary sends and fit in one piece; which one is not.

    The twin stops at headers, too, that it cannot read: they are JSON, but not as Java writes it.
    """
    parts, dispatches, answers, position = group.parts, group.dispatches, group.answers, group.position
    timestamp = group.timestamp
    born_host, store_host, stop, body_bytes_max, added, halves_now = terms
    layout, host_bits = layout_for(born_host, store_host)
    pack, fixed_bytes, kept_bits = layout.pack, layout.size + _LENGTH_BYTES, ~HOST_BITS
    nothing: str | None = None
    target_topic = before_last = after_last = nothing
    led: dict[int, Way] = {}  # the ways to the queues of this topic, with these surroundings
    ends: list[TransactionEnd] = []  # neighbours: they are looked at together
    taken = 0
    for frame in frames[first:]:
        serialization, header_bytes, body = frame
        if halves_now is not None and not serialization and header_bytes.startswith(END_START):
            end = decode_oneway_end(header_bytes)
            if end is not None:
                ends.append(end)
                taken += 1
                continue
        if ends and halves_now is not None:
            position, ends = _with_ends(ends, halves_now(), group, position, stop, ways), []
        try:
            send = decode_ordinary_send(header_bytes)
        except NOT_ONE:
            break
        header = send.header
        topic, queue_id, sys_flag, text = header.topic, header.queue_id, header.sys_flag, header.properties
        if serialization or send.code != _CODE or send.flag or not text or header.batch:  # flags: responses, oneway sends
            break
        if topic != target_topic:
            target_topic, target, led = topic, ways.target(topic, group), {}
        before, _, rest = text.partition(_UNIQUE)
        unique_key, ended, after = rest.partition(VALUE_END)
        if after != after_last or before != before_last:  # mostly they are the same
            is_ordinary, code, keys, short_cut = ways.surroundings(before, after)
            before_last, after_last, led = before, after, {}
        key_bytes = unique_key.encode()
        if target is None or not 0 <= queue_id < target.queues or not is_ordinary or not ended or not key_bytes.isalnum():
            break  # of other keys it is not known how they look in JSON
        if short_cut is None:
            stored_in, stored_queue, entry, more, handle = target, queue_id, code, added, None
        else:
            way = led.get(queue_id) or ways.way(short_cut, topic, queue_id, code, group)
            if way is None:
                break
            led[queue_id] = way
            stored_in, stored_queue, entry, kept_flags, _, _ = way
            sys_flag &= kept_flags
            more, handle = way.with_key(key_bytes)
        stored_topic, _, magic, topic_bytes, next_offsets = stored_in
        properties, body_bytes = text.encode(), len(body)
        properties_bytes = len(properties) + len(more)
        size = fixed_bytes + body_bytes + len(topic_bytes) + properties_bytes
        is_large = body_bytes > body_bytes_max or properties_bytes > PROPERTIES_BYTES_MAX or position + size > stop
        if is_large or sys_flag & TRANSACTION_MASK:
            break
        queue_offset = next_offsets.get(stored_queue)
        if queue_offset is None:
            queue_offset = ways.next_offset(stored_topic, stored_queue)
        next_offsets[stored_queue] = queue_offset + 1
        place = (stored_queue, header.flag, queue_offset, position, sys_flag & kept_bits | host_bits)
        times = (header.born_timestamp, born_host, timestamp, store_host, header.reconsume_times or 0)
        fixed = pack(size, magic, crc32(body) & _CRC_MASK, *place, *times, 0, body_bytes)
        parts += (fixed, body, topic_bytes, properties_bytes.to_bytes(_LENGTH_BYTES), properties, more)
        found_by = (unique_key, *keys)
        dispatches.append((stored_topic, stored_queue, queue_offset, position, size, entry, timestamp, found_by, sys_flag))
        row = (queue_id, key_bytes, position, queue_offset, send.opaque)
        answers.append(row if handle is None else (*row[:3], handle, *row[3:]))
        position += size
        taken += 1
    group.position = position
    if ends and halves_now is not None:
        _with_ends(ends, halves_now(), group, position, stop, ways)
    return first + taken


gather_most = twin("send_loop", _gather_most)


def _with_ends(ends: list[TransactionEnd], halves: Halves, group: Group, position: int, stop: int, ways: Ways) -> int:
    """Takes ends into the group, with what plain ones commit. If that does not fit any more, one by one: as many as do."""
    group.position = position
    found = plain_ends(ends, halves)
    if group.move([move for _, move in filter(None, found) if move is not None], stop, ways.next_offset):
        group.ended += [offset for offset, _ in filter(None, found)]
        group.ends += [end for end, ended in zip(ends, found, strict=True) if ended is None]
    elif len(ends) == 1:
        group.ends += ends
    else:
        for end in ends:
            _with_ends([end], halves, group, group.position, stop, ways)
    return group.position


def gather(frames: list[Frame], group: Group, terms: Terms, ways: Ways) -> None:
    """Takes the first frames into the group, as many as are ordinary sends and fit in one piece."""
    number = gather_most(frames, 0, group, terms, ways)
    if number < len(frames) and gather_most is not _gather_most:
        _gather_most(frames, number, group, terms, ways)
