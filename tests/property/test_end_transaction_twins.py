"""Ends of transactions: the compiled loop and its reference agree on headers, and on the half messages that they name."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from skyrocket.broker.send.batch import SendBatch
from skyrocket.broker.send.contributors import Contributor, PendingAppend
from skyrocket.broker.send.fast_loop import BatchTerms
from skyrocket.broker.send.property_shapes import PropertyShapes
from skyrocket.broker.transactions.check_round import HalfCopies
from skyrocket.broker.transactions.end_fast_path import EndContribution, RecentHalves
from skyrocket.broker.transactions.end_rules import EndRules
from skyrocket.broker.transactions.records import HalfFacts
from skyrocket.compiled import TWINS
from skyrocket.protocol.command import Command, encode_command
from skyrocket.protocol.fast_path.end_transaction import END_STARTS
from skyrocket.protocol.frame import Frame, Serialization
from skyrocket.protocol.hosts import pack_host
from skyrocket.protocol.message.properties import encode_properties
from skyrocket.protocol.message.record import MAGIC, MAGIC_V2, Record, encode_record
from skyrocket.protocol.message.waiting_record import parse_waiting_records
from skyrocket.protocol.system_names import HALF_TOPIC
from skyrocket.store.read import reading
from skyrocket.store.read.reading import RecentRecords
from tests.support.twins import needs_twins

pytestmark = needs_twins

KEY = "7F000001A1B218B4AAC2000000000012"
HOST = pack_host("10.0.0.7", 40_000)
USUAL = {
    "producerGroup": "shop",
    "topic": "orders",
    "tranStateTableOffset": "17",
    "commitLogOffset": "4711",
    "commitOrRollback": "8",
    "fromTransactionCheck": "false",
    "msgId": KEY,
    "transactionId": KEY,
    "bname": "broker-a",
}
ODD = [
    "",
    "-1",
    "-0",
    "007",
    "1.0",
    " 1",
    "9223372036854775807",
    "9223372036854775808",
    "true",
    "gr\u00fc\u00dfe",
    'a"b',
    "\\",
    "\0",
]
NO_LOOKUPS: Any = None  # the loop asks nothing, as there is no send
odd_values = st.sampled_from([*ODD, None, 1, 1.5, True, {}, []])


class Ends(Contributor):
    """Contributes ends of these half messages. Nothing is appended, so nothing is done about them afterwards."""

    frame_starts = END_STARTS

    def __init__(self, halves: RecentHalves) -> None:
        self._halves = halves

    def begin(self, append: PendingAppend) -> EndContribution:
        return EndContribution(append, cast("EndRules", None), self._halves, 0, lambda *_: None)


def a_batch(position: int, stop: int) -> SendBatch:
    return SendBatch(position, stop, 1_700_000_000_000, lambda queue: len(queue[0]) + queue[1])


def a_log(pieces: list[bytes], start: int) -> tuple[bytes, list[int]]:
    """Build a segment of the log from pieces, with the physical offset in each that is long enough. Return their places too."""
    segment, places = bytearray(), []
    for piece in pieces:
        places.append(start + len(segment))
        segment += piece
        if len(piece) > reading._HEAD.size:
            segment[places[-1] - start + 28 : places[-1] - start + 36] = places[-1].to_bytes(8)
    return bytes(segment), places


Headers = list[tuple[Serialization, bytes]]


def place(headers: Headers, halves: RecentHalves, stop: int, *, compiled: bool) -> tuple[Any, ...]:
    """Place the ends in a batch. Return how many frames were taken, and everything that the batch has then."""
    twins, batch = TWINS["send_loop.place_run"], a_batch(2**40, stop)
    terms = BatchTerms(HOST, HOST, 4000, b"", Ends(halves))
    frames = [Frame(serialization, header, b"") for serialization, header in headers]
    at = twins.compiled(frames, 0, batch, terms, NO_LOOKUPS) if compiled else 0
    number = twins.reference(frames, at, batch, terms, NO_LOOKUPS)
    contribution = cast("EndContribution | None", batch.contribution)
    ends = ([], []) if contribution is None else (contribution.ended, contribution.deferred)
    return number, b"".join(batch.parts), batch.dispatches, *ends, batch.position, batch.following_offsets(), batch.answers


def place_both(headers: Headers, halves: RecentHalves, stop: int = 2**50) -> tuple[Any, ...]:
    reference = place(headers, halves, stop, compiled=False)
    assert place(headers, halves, stop, compiled=True) == reference
    return reference


def halves_of(records: list[bytes], start: int = 0, cut: int = 0, copied: int | None = None) -> tuple[RecentHalves, list[int]]:
    """Build recent half messages whose shapes are known. Return their places too."""
    segment, places = a_log(records, start)
    log = RecentRecords(memoryview(segment), start, start, start + len(segment) - cut)
    shapes, copies = PropertyShapes(HalfFacts.of), HalfCopies()
    for half in parse_waiting_records(reading.record_views(*log, places), HALF_TOPIC):
        if half is not None:
            shapes.of(half[1], half[2])
    if copied is not None:
        copies.add(copied, copied + 1)
    return RecentHalves(log, shapes.known, copies), places


def a_header(serialization: Serialization = Serialization.JSON, **fields: object) -> tuple[Serialization, bytes]:
    every = USUAL | {name: str(value) for name, value in fields.items()}
    if serialization == Serialization.ROCKETMQ:
        return serialization, a_binary_header(every)
    header = {"code": 37, "extFields": every, "flag": 2, "language": "JAVA"}
    return serialization, json.dumps(header, separators=(",", ":")).encode()


def a_binary_header(fields: dict[str, str], code: int = 37, flag: int = 2, remark: str | None = None) -> bytes:
    command = Command(code, fields=fields, flag=flag, remark=remark, opaque=7, serialization=Serialization.ROCKETMQ)
    return encode_command(command)[8:]


# --- headers


@st.composite
def binary_headers(draw: st.DrawFn) -> tuple[Serialization, bytes]:
    fields = dict(USUAL)
    for name in draw(st.lists(st.sampled_from([*USUAL, "ns", "colour", ""]), max_size=3)):
        if draw(st.booleans()):
            fields[name] = draw(st.sampled_from(ODD))
        else:
            fields.pop(name, None)
    code, flag = draw(st.sampled_from([37, 37, 37, 310])), draw(st.sampled_from([2, 2, 2, 0, 3]))
    text = a_binary_header(fields, code, flag, draw(st.sampled_from([None, None, "a remark"])))
    at = draw(st.integers(0, len(text) - 1))
    damaged = text[:at] + bytes([draw(st.integers(0, 255))]) + text[at + 1 :]
    return Serialization.ROCKETMQ, draw(st.sampled_from([text, text, text[:at], damaged]))


@st.composite
def json_headers(draw: st.DrawFn) -> tuple[Serialization, bytes]:
    fields: dict[str, Any] = dict(USUAL)
    for name in draw(st.lists(st.sampled_from([*USUAL, "ns", "nsd", "oway", "colour"]), max_size=3)):
        if draw(st.booleans()):
            fields[name] = draw(odd_values)
        else:
            fields.pop(name, None)
    header: dict[str, Any] = {"code": 37, "extFields": fields, "flag": 2, "language": "JAVA", "opaque": 0, "version": 495}
    header |= draw(
        st.dictionaries(st.sampled_from(["flag", "code", "remark", "opaque", "extFields", "x"]), odd_values, max_size=1)
    )
    separators = draw(st.sampled_from([(",", ":"), (",", ":"), (", ", ": ")]))
    text = json.dumps(header, separators=separators, ensure_ascii=draw(st.booleans())).encode()
    at = draw(st.integers(0, len(text)))
    return Serialization.JSON, draw(st.sampled_from([text, text, text[:at], text[:at] + b"\xff" + text[at:]]))


@given(json_headers() | binary_headers())
@settings(max_examples=1000)
def test_twins_read_headers_in_the_same_way(header: tuple[Serialization, bytes]):
    half = Record(HALF_TOPIC, b"x", encode_properties({"UNIQ_KEY": KEY, "PGROUP": "shop", "REAL_TOPIC": "t", "REAL_QID": "1"}))
    number, _, _, ended, _, _, _, _ = place_both([header], halves_of([encode_record(replace(half, queue_offset=17))], 4711)[0])
    event("plain" if ended else "an end" if number else "something else")


@pytest.mark.parametrize("serialization", Serialization)
def test_the_compiled_loop_reads_javas_headers(serialization: Serialization):
    halves, _ = halves_of([])
    frames = [Frame(*a_header(serialization), b"")]
    batch = a_batch(0, 0)
    assert TWINS["send_loop.place_run"].compiled(frames, 0, batch, BatchTerms(HOST, HOST, 0, b"", Ends(halves)), NO_LOOKUPS) == 1
    assert cast("EndContribution", batch.contribution).deferred == [(4711, 17, 8, "shop", False)]


# --- half messages

records = st.builds(
    Record,
    topic=st.sampled_from([HALF_TOPIC] * 9 + ["orders"]),
    body=st.binary(max_size=40),
    properties=st.builds(
        lambda group, topic, more: encode_properties(
            {"UNIQ_KEY": KEY, "PGROUP": group, "REAL_TOPIC": topic, "REAL_QID": "1"} | more
        ),
        st.sampled_from(["shop"] * 9 + ["other"]),
        st.sampled_from(["orders"] * 5 + ["bills"] * 5 + ["no topic"]),
        st.sampled_from(
            [
                {},
                {},
                {},
                {"TAGS": "red"},
                {"TAGS": "red"},
                {"__transactionId__": KEY},
                {"CHECK_IMMUNITY_TIME_IN_SECONDS": "5"},
                {"KEYS": "k"},
            ]
        ),
    ),
    queue_offset=st.integers(16, 18),
    magic=st.sampled_from([MAGIC, MAGIC_V2]),
)
ends = st.fixed_dictionaries(
    {
        "commitOrRollback": st.sampled_from([8] * 9 + [12, 12, 12, 0, 4, -1, 2**31 - 1]),
        "producerGroup": st.sampled_from(["shop"] * 9 + ["other", ""]),
        "off": st.sampled_from([0] * 9 + [1, -1]),
        "serialization": st.sampled_from(Serialization),
    }
)


def an_end(end: dict[str, Any], half: Record, place: int) -> tuple[Serialization, bytes]:
    said = {name: value for name, value in end.items() if name != "off"}
    return a_header(**said, commitLogOffset=place, tranStateTableOffset=half.queue_offset + end["off"])


@given(
    several=st.lists(st.tuples(ends, records), max_size=5),
    start=st.sampled_from([0, 0, 2**31, 2**40]),
    off=st.sampled_from([0] * 19 + [1, -1, 7, 2**62]),
    cut=st.sampled_from([0, 0, 0, 1, 150]),
    copied=st.sampled_from([None, None, None, 16, 17]),
    room=st.sampled_from([2**20, 2**20, 300]),
)
@settings(max_examples=400)
def test_twins_apply_ends_in_the_same_way(several: Any, start: int, off: int, cut: int, copied: int | None, room: int):
    """Some ends name another place, some half messages are cut by the end of the log, some committed messages do not fit."""
    halves, places = halves_of([encode_record(record) for _, record in several], start, cut, copied)
    headers = [an_end(end, half, place + off) for (end, half), place in zip(several, places, strict=True)]
    _, data, _, ended, deferred, _, _, _ = place_both(headers, halves, 2**40 + room)
    event(f"committed: {bool(data)}, ended: {bool(ended)}, deferred: {bool(deferred)}")


@given(record=records, at=st.integers(0, 400), byte=st.integers(0, 255), cut=st.integers(0, 100))
@settings(max_examples=300)
def test_twins_agree_on_damaged_half_messages(record: Record, at: int, byte: int, cut: int):
    halves, _ = halves_of([encode_record(record)])
    damaged = bytearray(halves.log.segment)
    damaged[at : at + 1] = bytes([byte])[: len(damaged) - at]
    log = halves.log._replace(segment=memoryview(bytes(damaged[: max(0, len(damaged) - cut)])))
    place_both([a_header(commitLogOffset=0, tranStateTableOffset=record.queue_offset)], halves._replace(log=log))


# --- places in the log


@given(
    st.lists(st.binary(max_size=30) | records.map(encode_record), max_size=4),
    st.integers(0, 2**40),
    st.lists(st.integers(-50, 700), max_size=4),
    st.integers(-10, 400),
    st.integers(0, 900),
)
@settings(max_examples=300)
def test_twins_find_the_same_records(pieces: list[bytes], start: int, more: list[int], first: int, end: int):
    """Offsets, sizes and the ends of the log may be irregular."""
    segment, places = a_log(pieces, start)
    offsets = places + [start + one for one in more]
    twins, given_to = TWINS["readdress.record_views"], (memoryview(segment), start, start + first, start + end, offsets)
    assert twins.compiled(*given_to) == twins.reference(*given_to)
