"""A compiled twin and its reference return the same for the same arguments."""

from __future__ import annotations

import copy
from collections import deque
from itertools import accumulate
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

import skyrocket.clock  # noqa: F401 — asks for its twins
from skyrocket.client.received import PulledMessage, Received
from skyrocket.compiled import TWINS
from skyrocket.protocol.errors import RecordError
from skyrocket.protocol.frame import join_frame
from skyrocket.protocol.message.batch import BatchEntry
from skyrocket.protocol.message.record import MAGIC, MAGIC_V2, Record, encode_record, topic_field
from skyrocket.store.errors import StoreError
from skyrocket.store.index.index_file import ENTRY as INDEX_ENTRY
from skyrocket.store.index.index_file import HEADER, KEY, SLOT
from skyrocket.store.ledger.entry import HEADER_BYTES, EntryHeader, unpack_header
from skyrocket.store.log.checksum_blocks import ENTRY as CHECKSUM
from skyrocket.store.log.property_shapes import ShapeCache
from skyrocket.store.message import AppendPosition
from tests.property.test_readdress import moves, records
from tests.support.twins import needs_twins

pytestmark = needs_twins


def both(name: str, *arguments: Any) -> tuple[Any, Any]:
    twins = TWINS[name]
    return twins.reference(*arguments), twins.compiled(*arguments)


def assert_same(name: str, *arguments: Any) -> Any:
    reference, compiled = both(name, *arguments)
    assert compiled == reference
    return reference


# --- frames

frame = st.builds(join_frame, st.integers(0, 1), st.binary(max_size=40), st.binary(max_size=40))
odd_bytes = st.binary(max_size=12) | st.sampled_from(
    [b"\x7f\xff\xff\xff\0\0\0\0", b"\xff\xff\xff\xff\0\0\0\0", b"\0\0\0\x08\2\0\0\0"]
)


@given(
    data=st.lists(frame | odd_bytes, max_size=6).map(b"".join), cut=st.integers(0, 60), frame_max=st.sampled_from([20, 64, 2**24])
)
@settings(max_examples=400)
def test_stream_is_split_equally(data: bytes, cut: int, frame_max: int):
    data = data[: len(data) - cut]
    ours: list[Any] = []
    theirs: list[Any] = []
    twins = TWINS["frame.split"]
    assert twins.compiled(data, ours, frame_max, 30) == twins.reference(data, theirs, frame_max, 30)
    assert ours == theirs
    assert [type(one) for one in ours] == [type(one) for one in theirs]


# --- records of a pull's answer


def draw_spoiled_records(data: st.DataObject) -> tuple[Record, bytes]:
    """Draw encoded records, with some bytes changed and perhaps a piece cut off. Also return the first record."""
    first = data.draw(records)
    several = [first, *data.draw(st.lists(st.builds(replace, st.just(first), body=st.binary(max_size=80)) | records, max_size=4))]
    encoded = bytearray(b"".join(map(encode_record, several)))
    for place, value in data.draw(st.lists(st.tuples(st.integers(0, len(encoded) - 1), st.integers(0, 255)), max_size=2)):
        encoded[place] = value
    content = bytes(encoded)[: len(encoded) - data.draw(st.sampled_from([0, 0, 1, 5, 90]))]
    return first, content


@given(data=st.data())
@settings(max_examples=400)
def test_records_are_split_into_equal_parts(data: st.DataObject):
    first, content = draw_spoiled_records(data)
    found: dict[str, list[Any]] = {"reference": [], "compiled": []}
    twins, topic = TWINS["record.split_same_topic"], topic_field(first.topic, first.magic)
    stops = [getattr(twins, kind)(content, 0, first.magic, topic, found[kind]) for kind in found]
    assert stops[0] == stops[1]
    assert found["compiled"] == found["reference"]


def shown(message: PulledMessage) -> tuple[object, ...]:
    slots = [name for kind in (Received, PulledMessage) for name in kind.__slots__ if name != "record"]
    try:
        record: object = message.record
    except RecordError as error:
        record = str(error)
    return type(message), [getattr(message, name) for name in slots], record, message._properties


@given(data=st.data())
@settings(max_examples=400)
def test_messages_of_a_pull_are_equal(data: st.DataObject):
    first, content = draw_spoiled_records(data)
    found: dict[str, list[PulledMessage]] = {"reference": [], "compiled": []}
    twins, topic, shared = TWINS["record.split_pulled"], topic_field(first.topic, first.magic), ("broker-a", "orders", 5)
    stops = [getattr(twins, kind)(content, 0, first.magic, topic, shared, found[kind]) for kind in found]
    assert stops[0] == stops[1]
    assert [shown(message) for message in found["compiled"]] == [shown(message) for message in found["reference"]]


# --- the messages of a process queue


class Pulled(NamedTuple):
    queue_offset: int
    size_bytes: int


pulled_messages = st.lists(st.builds(Pulled, st.integers(0, 12) | st.just(2**63), st.integers(0, 9)), max_size=6)


def assert_changed_equally(name: str, *arguments: Any) -> None:
    """Both return the same, and leave the dicts and deques that they are given in the same state, in the same order."""
    states = [copy.deepcopy(arguments) for _ in range(2)]
    assert TWINS[name].compiled(*states[0]) == TWINS[name].reference(*states[1])
    shown = [[list(each.items()) if isinstance(each, dict) else each for each in state] for state in states]
    assert shown[0] == shown[1]


@given(messages=pulled_messages, next_offset=st.integers(0, 5), earlier=st.sets(st.integers(0, 4)))
def test_messages_are_added_to_a_process_queue_equally(messages: list[Pulled], next_offset: int, earlier: set[int]):
    unfinished = {offset: Pulled(offset, 1) for offset in sorted(earlier)}
    for several in (messages, sorted(set(messages)), tuple(messages)):
        assert_changed_equally("process_queue.add_ascending", several, next_offset, unfinished, deque(unfinished))


@given(messages=pulled_messages, known=st.lists(st.integers(0, 12), unique=True), taken=st.sets(st.integers(0, 12)))
def test_messages_are_taken_and_finished_equally(messages: list[Pulled], known: list[int], taken: set[int]):
    unfinished = {offset: Pulled(offset, offset + 3) for offset in sorted(known)}
    taken_ms = dict.fromkeys(sorted(taken), 7)
    assert_changed_equally("process_queue.note_taken", messages, 9, taken_ms)
    for offsets in (deque(unfinished), deque([0, *unfinished])):
        assert_changed_equally("process_queue.remove_finished", messages, unfinished, taken_ms, offsets)


# --- batches


@given(
    messages=st.lists(
        st.tuples(
            st.builds(BatchEntry, body=st.binary(max_size=50), flag=st.sampled_from([0, -1, 2**31 - 1, -(2**31), 2**31])),
            st.sampled_from(["", "WAIT\x01true\x02", "grün\x01\U0001f680\x02", "x" * 32_700, "x" * 32_800]),
        ),
        max_size=5,
    ),
    limit=st.sampled_from([10, 200, 2**22]),
)
def test_messages_are_packed_equally_or_left_to_the_reference(messages: list[tuple[BatchEntry, str]], limit: int):
    entries, properties = [entry for entry, _ in messages], [own for _, own in messages]
    ids = [f"ID{number}" for number in range(len(messages))]
    packed = TWINS["batch.pack_messages"].compiled(entries, properties, ids, limit)
    if packed is None:
        with pytest.raises(RecordError):
            TWINS["batch.pack_messages"].reference(entries, properties, ids, limit)
    else:
        assert b"".join(packed) == b"".join(TWINS["batch.pack_messages"].reference(entries, properties, ids, limit))


@pytest.mark.parametrize("short", range(3))
def test_lists_of_different_lengths_are_left_to_the_reference(short: int):
    lists: list[list[Any]] = [[BatchEntry(b"a"), BatchEntry(b"b")], ["", ""], ["ID1", "ID2"]]
    lists[short].pop()
    assert TWINS["batch.pack_messages"].compiled(*lists, 2**22) is None
    with pytest.raises(ValueError, match="zip"):
        TWINS["batch.pack_messages"].reference(*lists, 2**22)


@given(before=st.text(max_size=40), first=st.integers(0, 2**16 - 1), count=st.integers(-1, 40))
def test_ids_are_numbered_equally(before: str, first: int, count: int):
    assert_same("message_id.format_ids", before, first, count)
    assert_same("message_id.format_ids", before, 2**16 - 3, count)


# --- what the store makes of messages


@given(sizes=st.lists(st.integers(0, 400), max_size=8), start=st.integers(0, 2**40), within=st.integers(0, 2**30), data=st.data())
def test_checksums_are_equal(sizes: list[int], start: int, within: int, data: st.DataObject):
    content = data.draw(st.binary(min_size=sum(sizes), max_size=sum(sizes) + 5))
    assert_same("dispatch_entries.pack_checksums", content, start, list(accumulate(sizes, initial=start)), max(0, start - within))
    assert_same(
        "dispatch_entries.pack_checksums",
        bytearray(content),
        start,
        list(accumulate(sizes, initial=start)),
        max(0, start - within),
    )


@given(sizes=st.lists(st.integers(0, 400), max_size=8), start=st.integers(0, 2**40), data=st.data())
def test_entries_of_a_ledger_are_equal(sizes: list[int], start: int, data: st.DataObject):
    records = data.draw(st.binary(min_size=sum(sizes), max_size=sum(sizes)))
    ends = list(accumulate([HEADER_BYTES + size for size in sizes], initial=start))
    offsets = [end + HEADER_BYTES for end in ends[:-1]]
    framed = assert_same("ledger_entries.frame_records", records, offsets, 2**33, 7)
    headers = [EntryHeader(HEADER_BYTES + size, 2**33 + number, 7, ends[number]) for number, size in enumerate(sizes)]
    assert [unpack_header(framed, at - start) for at in ends[:-1]] == headers
    for content in (framed, bytearray(framed)):
        assert_same("ledger_entries.pack_index_entries", content, start, offsets)
        assert_same("dispatch_entries.pack_checksums", content, start, [*offsets, ends[-1]], start - start % 4096, HEADER_BYTES)
    damaged = [offset + data.draw(st.integers(-500, 500)) for offset in offsets]
    assert_same_outcome("ledger_entries.frame_records", records, damaged, 1, 1)
    assert_same_outcome("ledger_entries.pack_index_entries", framed, start, damaged)


def assert_same_outcome(name: str, *arguments: Any) -> None:
    """Assert that both return the same, or raise an error with the same sentence."""
    outcomes = []
    for call in TWINS[name]:
        try:
            outcomes.append(call(*arguments))
        except (ValueError, StoreError) as error:
            outcomes.append(str(error))
    assert outcomes[0] == outcomes[1]


KEY_TEXT = "7F000001A1B218B4AAC2000000000012"
PIECES = [f"UNIQ_KEY\x01{KEY_TEXT}\x02", "UNIQ_KEY\x01short\x02", f"MY_UNIQ_KEY\x01{KEY_TEXT}\x02", "UNIQ_KEY\x01\x02"]
PIECES += ["TAGS\x01red\x02", f"TAGS\x01{KEY_TEXT}\x02", "KEYS\x01k1  k2\x02", f"KEYS\x01k1 {KEY_TEXT}\x02", "KEYS\x01\0\x02"]
PIECES += ["DELAY\x013\x02", "\xff", "cl\xe9\x01\0\x02"]
ledger_records = st.builds(
    Record,
    st.sampled_from(["orders", "orders", "other", "SCHEDULE_TOPIC_XXXX", "\u4e2d", "t" * 127, "t" * 200]),
    st.sampled_from([b"hello", b"", bytes(300)]),
    st.lists(st.sampled_from(PIECES), max_size=4).map(lambda pieces: "".join(pieces).encode("latin-1")),
    st.integers(0, 3),
    st.integers(0, 2**40),
    sys_flag=st.sampled_from([0, 1, 4, 8, 12]),
    born_host=st.sampled_from([bytes(8), bytes(20)]),
    store_host=st.sampled_from([bytes(8), bytes(20)]),
    store_timestamp=st.integers(0, 2**43),
)


@given(
    records=st.lists(ledger_records, min_size=1, max_size=5),
    pos=st.integers(0, 2**40),
    damage=st.none() | st.tuples(st.integers(0, 700), st.integers(0, 255)),
    cut=st.sampled_from([0, 0, 0, 1, 60, 140]),
)
@settings(max_examples=300)
def test_what_followers_read_of_entries_is_equal(records: list[Record], pos: int, damage: tuple[int, int] | None, cut: int):
    entries = []
    for number, record in enumerate(records):
        magic = MAGIC if len(record.topic.encode()) <= 127 else MAGIC_V2
        encoded = encode_record(replace(record, physical_offset=pos + HEADER_BYTES, magic=magic))
        entries.append(TWINS["ledger_entries.frame_records"].reference(encoded, [pos + HEADER_BYTES], number, 3))
        pos += len(entries[-1])
    if damage is not None:
        at, byte = damage
        damaged = bytearray(entries[-1])
        damaged[at : at + 1] = bytes([byte])[: max(0, len(damaged) - at)]
        entries[-1] = bytes(damaged)
    entries[-1] = entries[-1][: len(entries[-1]) - cut]
    for again in (1, 2):  # the second time, the shapes are known
        assert_same_outcome("ledger_entries.dispatches_of", entries * again, (1000, 5000), ShapeCache())


@given(
    records=st.lists(ledger_records, min_size=1, max_size=6),
    segment_start=st.sampled_from([0, 4096, 2**40]),
    damage=st.none() | st.tuples(st.integers(0, 700), st.integers(0, 255)),
    cut=st.sampled_from([0, 0, 0, 1, 60, 140]),
    most=st.sampled_from([1, 2, 100]),
)
@settings(max_examples=400)
def test_runs_of_records_are_read_equally(
    records: list[Record], segment_start: int, damage: tuple[int, int] | None, cut: int, most: int
):
    segment, places = bytearray(), [0]
    for record in records:
        magic = MAGIC if len(record.topic.encode()) <= 127 else MAGIC_V2
        places.append(len(segment))
        segment += encode_record(replace(record, physical_offset=segment_start + len(segment), magic=magic))
    if damage is not None and damage[0] < len(segment):
        segment[damage[0]] = damage[1]
    view = memoryview(bytes(segment)[: len(segment) - cut])
    for at in (0, places[-1], len(segment) + 1):
        assert_same("record_run.read_run", view, segment_start, at, most, ShapeCache())
    assert_same_outcome("record_run.read_run", view, segment_start, -1, most, ShapeCache())


texts = st.text(alphabet="abcK#7\x7f\xff\u20ac\uffff\U0001f680\U0010ffff", max_size=40)
topics = st.sampled_from(["orders", "t", "%RETRY%g", "\u4e2d\U0001f680"])
dispatches = st.lists(
    st.tuples(
        topics,
        st.integers(0, 3),
        st.integers(0, 6),
        st.integers(0, 2**50),
        st.integers(1, 2**31 - 1),
        st.integers(-(2**63), 2**63 - 1),
        st.integers(0, 2**43),
        st.lists(texts, max_size=3).map(tuple),
        st.sampled_from([0, 0, 0, 4, 8, 12, 1, 5, -1]),
    ),
    max_size=12,
)


@given(dispatches=dispatches, orderly=st.booleans())
@settings(max_examples=300)
def test_queue_entries_are_equal(dispatches: list[Any], orderly: bool):
    if orderly:
        dispatches = [(*one[:2], number, *one[3:]) for number, one in enumerate(dispatches)]
    assert_same("dispatch_entries.pack_queue_entries", dispatches)


@given(dispatches=dispatches)
def test_counts_by_topic_are_equal(dispatches: list[Any]):
    assert_same("dispatch_entries.put_by_topic", dispatches)


@given(dispatches=dispatches.filter(len), last=st.integers(-1, 3))
@settings(max_examples=300)
def test_packed_keys_are_equal(dispatches: list[Any], last: int):
    in_order = [(*one[:3], number, *one[4:]) for number, one in enumerate(dispatches)]
    assert_same("dispatch_entries.pack_keys", in_order, last)


keys = st.lists(
    st.tuples(st.integers(0, 2**31 - 1) | st.integers(0, 9), st.integers(0, 2**50), st.integers(0, 2**45)), max_size=40
).map(lambda several: b"".join([KEY.pack(*one) for one in several]))


@given(keys=keys, slots=st.integers(1, 12), first=st.integers(1, 1000), first_timestamp=st.integers(0, 2**44), table=st.randoms())
@settings(max_examples=300)
def test_index_entries_are_equal(keys: bytes, slots: int, first: int, first_timestamp: int, table: Any):
    """The slots hold arbitrary numbers."""
    content = bytes(HEADER.size) + b"".join(SLOT.pack(table.randint(-5, 1005)) for _ in range(slots))
    _, pointed, _ = assert_same("dispatch_entries.pack_index_entries", memoryview(content), slots, first, first_timestamp, keys)
    ours, theirs = bytearray(content), bytearray(content)
    TWINS["dispatch_entries.point_slots"].compiled(memoryview(ours), pointed)
    TWINS["dispatch_entries.point_slots"].reference(memoryview(theirs), pointed)
    assert ours == theirs


@given(
    keys=keys, slots=st.integers(1, 12), first=st.integers(1, 1000), hashes=st.lists(st.integers(-(2**31), 2**31 - 1), max_size=9)
)
def test_slots_are_filled_equally(keys: bytes, slots: int, first: int, hashes: list[int]):
    packed = b"".join([INDEX_ENTRY.pack(hashed, 7, 1, 0) for hashed in [*hashes, *(key for key, _, _ in KEY.iter_unpack(keys))]])
    ours, theirs = bytearray(slots * SLOT.size), bytearray(slots * SLOT.size)
    twins = TWINS["dispatch_entries.fill_slots"]
    assert twins.compiled(ours, first, packed) == twins.reference(theirs, first, packed)
    assert ours == theirs


# --- answers

numbers = st.integers(0, 2**31 - 1)
places = st.integers(0, 2**63 - 1)
texts = st.binary(max_size=40)
rows = st.tuples(
    st.sampled_from([0, 1]), numbers, texts, places | texts, st.none() | texts, places, st.integers(-(2**31), 2**31 - 1)
)


@given(rows=st.lists(rows, max_size=6), prefix=texts, json=st.tuples(*[texts] * 9), names=st.tuples(*[texts] * 6))
def test_send_responses_are_equal(rows: list[Any], prefix: bytes, json: tuple[bytes, ...], names: tuple[bytes, ...]):
    assert_same("send_loop.fill_frames", rows, prefix, json, (bytes(range(21)), *names))


# --- moves


def next_offset(queue: tuple[str, int]) -> int:
    return len(queue[0]) + queue[1]


@given(moves=st.lists(moves, max_size=5), room=st.sampled_from([2**30, 2**30, 2**30, 900]), header_bytes=st.sampled_from([0, 48]))
@settings(max_examples=300)
def test_readdressed_records_are_equal(moves: list[Any], room: int, header_bytes: int):
    assert_same("readdress.readdress_records", moves, AppendPosition(2**40, room, 1_700_000_000_000, header_bytes), next_offset)


@given(move=moves, cut=st.integers(1, 400), at=st.integers(0, 400), byte=st.integers(0, 255))
@settings(max_examples=300)
def test_damaged_records_are_readdressed_within_their_bytes(move: Any, cut: int, at: int, byte: int):
    """The reference needs sound records; the twin checks them."""
    record, address, key, more = move
    damaged = bytearray(record[: max(0, len(record) - cut)])
    damaged[at : at + 1] = bytes([byte])[: len(damaged) - at]
    TWINS["readdress.readdress_records"].compiled(
        [(memoryview(damaged), address, key, more)], AppendPosition(0, 2**30, 1), next_offset
    )


UNIQUE = b"7F000001A1B218B4AAC2000000000012"
found_properties = [b"", b"UNIQ_KEY\x01k\x02", b"UNIQ_KEY\x01%b\x02TAGS\x01red\x02__transactionId__\x01%b\x02" % (UNIQUE, UNIQUE)]
found_properties += [b"UNIQ_KEY\x01%b" % UNIQUE, b"\0UNIQ_KEY\x01%b\x02" % UNIQUE, b"UNIQ_KEY\x01%b-\x02" % UNIQUE]


@given(
    found=st.lists(records, max_size=4),
    properties=st.sampled_from(found_properties),
    topic=st.sampled_from(["RMQ_SYS_TRANS_HALF_TOPIC", "t", "ä" * 60]),
    damage=st.tuples(st.integers(0, 2), st.integers(0, 200), st.integers(0, 255)),
)
@settings(max_examples=300)
def test_waiting_records_are_read_equally(found: list[Any], properties: bytes, topic: str, damage: tuple[int, int, int]):
    """Some records are damaged: one byte differs, or the record ends early."""
    kind, at, byte = damage
    views: list[memoryview | None] = [None]
    for record in found:
        data = bytearray(encode_record(replace(record, properties=properties)))
        if kind == 1 and at < len(data):
            data[at] = byte
        views.append(memoryview(bytes(data[: max(0, len(data) - at)] if kind == 2 else data)))
    assert_same("readdress.parse_waiting_records", views, topic)


@given(ends=st.lists(st.integers(0, 400), max_size=60), orderly=st.booleans(), end=st.integers(-1, 401), hint=st.integers(0, 61))
@settings(max_examples=300)
def test_checksum_entry_is_found_at_the_same_index(ends: list[int], orderly: bool, end: int, hint: int):
    """Entries that are not in order are damaged; the results must still be equal."""
    packed = b"".join(CHECKSUM.pack(one, 7) for one in (sorted(ends) if orderly else ends))
    assert_same("dispatch_entries.find_first_entry", memoryview(packed), len(ends), end, hint)


# --- clocks


@pytest.mark.parametrize("name", ["clock.monotonic_ms", "clock.machine_ms"])
def test_clocks_are_equal(name: str):
    twins = TWINS[name]
    before, between, after = twins.reference(), twins.compiled(), twins.reference()
    assert before <= between <= after
