"""How transactions end, read by the compiled twins and by their references: the same."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import event, given, settings
from hypothesis import strategies as st

from skyrocket.broker.half_messages import HALF_TOPIC, HalfFacts
from skyrocket.broker.property_shapes import PropertyShapes
from skyrocket.compiled import TWINS
from skyrocket.protocol.oneway_end import TransactionEnd
from skyrocket.protocol.properties import encode_properties
from skyrocket.protocol.record import MAGIC, MAGIC_V2, Record, encode_record
from skyrocket.protocol.waiting_record import WaitingRecord, waiting_records
from skyrocket.store import reading
from tests.support.twins import needs_twins

pytestmark = needs_twins

KEY = "7F000001A1B218B4AAC2000000000012"
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
odd_values = st.sampled_from([*ODD, None, 1, 1.5, True, {}, []])


def same(name: str, *arguments: Any) -> Any:
    twins = TWINS[name]
    reference, compiled = twins.reference(*arguments), twins.compiled(*arguments)
    assert compiled == reference
    return reference


# --- headers


@st.composite
def headers(draw: st.DrawFn) -> bytes:
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
    return draw(st.sampled_from([text, text, text[:at], text[:at] + b"\xff" + text[at:]]))


@given(headers())
@settings(max_examples=500)
def test_a_header_is_read_the_same_way(header: bytes):
    event("an end" if same("ends.decode_oneway_end", header) is not None else "something else")


def test_what_java_sends_is_read_by_the_twin():
    header = json.dumps({"code": 37, "extFields": USUAL, "flag": 2, "language": "JAVA"}, separators=(",", ":")).encode()
    assert same("ends.decode_oneway_end", header) == (4711, 17, 8, "shop", False)


# --- what they mean

records = st.builds(
    Record,
    topic=st.sampled_from([HALF_TOPIC, HALF_TOPIC, HALF_TOPIC, "orders"]),
    body=st.binary(max_size=40),
    properties=st.builds(
        lambda group, topic, more: encode_properties(
            {"UNIQ_KEY": KEY, "PGROUP": group, "REAL_TOPIC": topic, "REAL_QID": "1"} | more
        ),
        st.sampled_from(["shop", "shop", "other"]),
        st.sampled_from(["orders", "orders", "no topic"]),
        st.sampled_from([{}, {}, {"CHECK_IMMUNITY_TIME_IN_SECONDS": "5"}, {"KEYS": "k"}]),
    ),
    queue_offset=st.integers(16, 18),
    magic=st.sampled_from([MAGIC, MAGIC_V2]),
)
ends = st.tuples(
    st.just(0),
    st.integers(16, 18),
    st.sampled_from([8, 8, 12, 0, 4, -1, 2**31 - 1]),
    st.sampled_from(["shop", "other", ""]),
    st.booleans(),
)


@given(st.lists(st.tuples(ends, records), max_size=3))
@settings(max_examples=300)
def test_ends_mean_the_same(given_ends: list[tuple[TransactionEnd, Record]]):
    halves: list[WaitingRecord | None] = waiting_records(
        [memoryview(encode_record(record)) for _, record in given_ends], HALF_TOPIC
    )
    shapes = PropertyShapes(HalfFacts.of)
    for half in halves:
        if half is not None:
            shapes.of(half[1], half[2])
    event("plain" if same("ends.plain_ends", [end for end, _ in given_ends], halves, shapes.known) is not None else "not plain")


# --- where they lie


@given(
    st.lists(st.binary(max_size=30) | records.map(encode_record), max_size=4),
    st.integers(0, 2**40),
    st.lists(st.integers(-50, 700), max_size=4),
    st.integers(-10, 400),
    st.integers(0, 900),
)
@settings(max_examples=300)
def test_records_are_found_at_the_same_places(pieces: list[bytes], start: int, more: list[int], first: int, end: int):
    """Also where offsets, sizes and the ends of the log are odd."""
    segment, places = bytearray(), []
    for piece in pieces:
        places.append(start + len(segment))
        segment += piece
        if len(piece) > reading._HEAD.size:
            segment[places[-1] - start + 28 : places[-1] - start + 36] = places[-1].to_bytes(8)
    offsets = places + [start + one for one in more]
    same("moves.record_views", memoryview(bytes(segment)), start, start + first, start + end, offsets)
