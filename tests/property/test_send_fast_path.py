"""For any frames, the fast path of sends and the general path give the same answers and the same bytes in every file."""

from __future__ import annotations

import asyncio
import json
from typing import Any, NamedTuple

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from skyrocket.broker.transactions.records import HalfFacts
from skyrocket.protocol.command import Command, decode_command, encode_command
from skyrocket.protocol.frame import FrameSplitter, Serialization, join_frame
from skyrocket.protocol.message.batch import BatchEntry, encode_batch
from skyrocket.protocol.system_names import HALF_TOPIC
from tests.support.brokers.send_parts import SendParts, connected
from tests.support.stores.store_messages import read_queue
from tests.support.twins import KINDS, using

# What SEND_OK promises: in memory here, on disk here, or on the disks of a majority of a DLedger group.
promises = st.sampled_from([{}, {"sync_flush": True}, {"leads": True}])
NAMES = ["UNIQ_KEY", "KEYS", "TAGS", "WAIT", "colour", "MSG_REGION", "CLUSTER", "TRACE_ON", "DELAY", "TIMER_DELAY_MS", "TRAN_MSG"]
NAMES += ["MY_UNIQ_KEY", "UNIQ_KEY2", "", "REAL_TOPIC", "REAL_QID", "TIMER_OUT_MS", "TIMER_DELIVER_MS", "__transactionId__"]
VALUES = ["true", "false", "red", "k1 k2", "0", "7F000001A1B218B4AAC2000000000012", "clé", "☂", 'a"b', "x\x01y", "", "x" * 600]


def text_of(pieces: list[tuple[str, str]]) -> str:
    return "".join(f"{name}\x01{value}\x02" for name, value in pieces)


usual_properties = st.builds(
    lambda number, tag, more: text_of([("UNIQ_KEY", f"7F000001A1B218B4AAC2{number:012X}"), ("TAGS", tag), *more]),
    st.integers(0, 2**40),
    st.sampled_from(["red", "blue"]),
    st.sampled_from([[], [("KEYS", "k1 k2")], [("colour", "green"), ("WAIT", "true")]]),
)
REDIRECTS = [("DELAY", level) for level in ("1", "2", "18", "19", "0", "-1", "01", "+1", "x", "99999999999")]
REDIRECTS += [("TIMER_DELAY_MS", delay) for delay in ("1", "5000", "7001", "0", "-1", "99999999999", "x")]
REDIRECTS += [("TIMER_DELAY_SEC", "3"), ("TIMER_DELIVER_MS", "1700000001000"), ("TIMER_DELIVER_MS", "1700000006999")]
REDIRECTS += [("TRAN_MSG", "true"), ("TRAN_MSG", "TRUE"), ("TRAN_MSG", "no")]
BESIDE = [("TIMER_DEL_UNIQKEY", "k"), ("TIMER_OUT_MS", "5"), ("REAL_QID", "1"), ("REAL_TOPIC", "new"), ("__transactionId__", "t")]
redirected_properties = st.builds(
    lambda before, redirect, number, beside, more: text_of(
        [*before, *redirect, ("UNIQ_KEY", f"7F000001A1B218B4AAC2{number:012X}"), *beside, *more]
    ),
    st.sampled_from([[], [("WAIT", "true")]]),
    st.lists(st.sampled_from(REDIRECTS), min_size=1, max_size=1) | st.lists(st.sampled_from(REDIRECTS), max_size=2),
    st.integers(0, 2**40),
    st.sampled_from([[], [], [], [("TAGS", "red")], [("KEYS", "k1")]]) | st.lists(st.sampled_from(BESIDE), max_size=1),
    st.lists(st.sampled_from(REDIRECTS), max_size=1) | st.just([]),
)
odd_properties = st.one_of(
    st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(VALUES)), max_size=6).map(text_of),
    st.lists(st.sampled_from(["\x01", "\x02", "UNIQ_KEY", "TAGS", "A", "é"]), max_size=12).map("".join),
    st.integers(32_600, 32_767).map(lambda size: "a\x01" + "x" * size + "\x02"),
)
odd_value = st.sampled_from(
    ["", "x", "5.0", "-1", "-7", "3", "99", "2147483647", "2147483648", None, 1, 1.0, 1.5, True, {}, [], "true", "orders"]
)


def mostly(usual: list[Any], odd: list[Any]) -> st.SearchStrategy[Any]:
    return st.sampled_from(usual * (1 + 20 * len(odd) // len(usual)) + odd)


OLD_NAMES = {
    "a": "producerGroup",
    "b": "topic",
    "c": "defaultTopic",
    "d": "defaultTopicQueueNums",
    "e": "queueId",
    "f": "sysFlag",
    "g": "bornTimestamp",
    "h": "flag",
    "i": "properties",
    "j": "reconsumeTimes",
    "k": "unitMode",
    "l": "maxReconsumeTimes",
    "m": "batch",
    "n": "bname",
}
bodies = mostly([b"hello", b"", bytes(500), bytes(range(256)) * 4], [bytes(4001)])
keyless_properties = st.sampled_from(
    ["", "", "TAGS\x01red\x02", "KEYS\x01k1  k2 k3\x02", "colour\x01blue\x02KEYS\x01k\x02TAGS\x01red\x02"]
)
entry_properties = st.one_of(*[usual_properties] * 6, keyless_properties, redirected_properties, odd_properties)
entries = st.builds(
    BatchEntry,
    st.sampled_from([b"hello", b"", bytes(300)]),
    entry_properties.map(lambda text: text.encode()[:2000])
    | mostly([b"TAGS\x01red\x02"], [b"\xff\x01\xfe\x02", b"KEYS\x01\xff\x02"]),
    st.sampled_from([0, 7, -1]),
)


@st.composite
def batch_bodies(draw: st.DrawFn) -> bytes:
    """Draw the body of a batch, seldom a damaged one."""
    body = encode_batch(draw(st.lists(entries, min_size=1, max_size=5)), limit=2**30)
    damage = draw(mostly([0], [1, 2]))
    at = draw(st.integers(0, len(body) - 1)) if damage else 0
    return body[:at] if damage == 1 else body[:at] + b"\x01" + body[at + 1 :] if damage else body


def binary_header(code: int, opaque: int, flag: int, fields: dict[str, Any]) -> bytes:
    """Return a binary header. A value that is no text is written as its text."""
    command = Command(code & 0x7FFF, opaque=opaque, flag=flag, serialization=Serialization.ROCKETMQ)
    command.fields = {name: value if isinstance(value, str) else str(value) for name, value in fields.items()}
    return FrameSplitter().feed(encode_command(command))[0].header


@st.composite
def frames(draw: st.DrawFn) -> bytes:
    """Draw one frame: mostly a send for the fast path, often with something that makes it take the general path."""
    code, serialization = draw(st.sampled_from([310, 310, 320, 10])), draw(st.sampled_from([0, 1]))
    is_batch = code == 320 or draw(mostly([False], [True]))
    fields: dict[str, Any] = {
        "a": "producers",
        "b": draw(mostly(["orders"], ["new", "closed", "%RETRY%shop", "SCHEDULE_TOPIC_XXXX", "a/b", "", "\0"])),
        "c": "TBW102",
        "d": "4",
        "e": str(draw(mostly([0, 1, 2, 3], [-1, 4]))),
        "f": str(draw(mostly([0, 0, 1, 4], [8, 12, 16, 32]))),
        "g": "1700000000000",
        "h": str(draw(st.sampled_from([0, 7]))),
        "i": draw(st.one_of(*[usual_properties] * 10, *[redirected_properties] * 7, *[keyless_properties] * 2, odd_properties)),
        "j": "0",
        "k": "false",
        "m": draw(mostly([str(is_batch).lower()], ["true", "false", "1"])),
        "n": "broker-a",
    }
    fields = {OLD_NAMES[name]: value for name, value in fields.items()} if code == 10 else fields
    flag, opaque = draw(mostly([0, 0, 2], [1, 3, 4])), draw(st.integers(0, 2**31 - 1))
    header: dict[str, Any] = {"code": code, "extFields": fields, "flag": flag, "language": "JAVA"}
    header |= {"opaque": opaque, "serializeTypeCurrentRPC": "JSON", "version": 495}
    oddness = draw(mostly([0], [1, 2, 3, 5, 6]))
    if oddness == 1:
        fields[draw(st.sampled_from([*sorted(fields), "l", "ns", "nsd", "oway", "lo"]))] = draw(odd_value)
    elif oddness == 2:
        del fields[draw(st.sampled_from(sorted(fields)))]
    elif oddness == 3:
        header[draw(st.sampled_from([*sorted(header), "remark", "other"]))] = draw(odd_value)
    elif oddness == 5:
        header["code"] = code = draw(st.sampled_from([10, 310, 320, 12345]))
    if serialization:
        encoded = binary_header(code, opaque, flag, fields)
    else:
        encoded = json.dumps(header, ensure_ascii=draw(st.booleans()), separators=(",", ":")).encode()
    if oddness == 6:
        at = draw(st.integers(0, len(encoded) - 1))
        encoded = encoded[:at] + draw(st.sampled_from([b"", b"\xff", b"}", b"1e9", b"\0"])) + encoded[at + 1 :]
    return join_frame(draw(mostly([serialization], [0, 1])), encoded, draw(batch_bodies() if is_batch else bodies))


# --- transactions


class EndOf(NamedTuple):
    """An end of a half message that was sent before."""

    which: int
    outcome: int = 8
    off: int = 0
    group: str = "shop"
    flag: int = 2
    is_odd: bool = False  # JSON that Java would not write
    is_binary: bool = False

    def frame(self, halves: list[tuple[int, int]]) -> bytes:
        queue_offset, place = halves[self.which % len(halves)] if halves else (0, 2**30)
        fields = {
            "producerGroup": self.group,
            "tranStateTableOffset": str(queue_offset),
            "commitLogOffset": str(place + self.off),
        }
        fields |= {"commitOrRollback": str(self.outcome), "msgId": "id", "fromTransactionCheck": "false"}
        if self.is_binary and -(2**31) <= self.flag < 2**31:
            return encode_command(Command(37, fields=fields, flag=self.flag, serialization=Serialization.ROCKETMQ))
        header = {"code": 37, "extFields": fields, "flag": self.flag, "language": "JAVA", "opaque": 0}
        return join_frame(0, json.dumps(header, separators=(", ", ": ") if self.is_odd else (",", ":")).encode(), b"")


ends = st.builds(EndOf, st.integers(0, 20), st.sampled_from([8, 8, 8, 12])) | st.builds(
    EndOf,
    st.integers(0, 20),
    mostly([8, 12], [0, 4]),
    mostly([0], [1, -7, 2**40]),
    mostly(["shop"], ["other"]),
    mostly([2], [0, 2]),
    mostly([False], [True]),
    st.booleans(),
)
half_sends = st.builds(
    lambda number, topic, queue, body, more: join_frame(
        0,
        json.dumps(
            {
                "code": 310,
                "extFields": {"a": "shop", "b": topic, "c": "TBW102", "d": "4", "e": str(queue), "f": "4", "g": "1700000000000"}
                | {"h": "7", "i": text_of([("UNIQ_KEY", f"7F000001A1B218B4AAC2{number:012X}"), *HALF, *more])},
                "flag": 0,
                "opaque": 1,
            },
            separators=(",", ":"),
        ).encode(),
        body,
    ),
    st.integers(0, 2**40),
    st.sampled_from(["orders", "orders", "new"]),
    st.integers(0, 3),
    st.sampled_from([b"hello", b"", bytes(3000)]),
    st.sampled_from([[], [], [("TAGS", "red")], [("KEYS", "k1 k2")], [("CHECK_IMMUNITY_TIME_IN_SECONDS", "1")]]),
)
HALF = [("TRAN_MSG", "true"), ("PGROUP", "shop")]


@pytest.mark.parametrize("kind", KINDS)
@given(
    events=st.lists(st.lists(half_sends | ends | ends | frames(), min_size=1, max_size=8), min_size=2, max_size=6),
    promise=promises,
    op_bytes_max=st.sampled_from([4096, 4096, 6]),
    is_known=st.booleans(),
)
@settings(max_examples=100, deadline=None)
def test_both_paths_end_transactions_in_the_same_way(
    kind: str, events: list[list[Any]], promise: dict[str, bool], op_bytes_max: int, is_known: bool
):
    """Both paths commit the same messages.

    Every file is the same if all ends on the fast path are plain, so that none follows behind the sends, and if they fill no op
    message: on the fast path an op message names the ends of a whole read event.
    """
    deferred: list[int] = []

    async def play(fast: bool, known: dict[bytes, HalfFacts]) -> SendParts:
        parts = SendParts(fast=fast, **promise, transaction_op_bytes_max=op_bytes_max)
        parts.rules.shapes.known |= known
        handle = parts.ends.handle_oneway
        parts.ends.handle_oneway = lambda ends, connection: deferred.append(len(ends)) or handle(ends, connection)  # type: ignore[method-assign]
        for one in events:
            halves = [(half.queue_offset, half.physical_offset) for half in read_queue(parts.store, HALF_TOPIC)]
            await parts.read(b"".join([frame.frame(halves) if isinstance(frame, EndOf) else frame for frame in one]))
        return parts

    async def main() -> None:
        general = await play(False, {})
        fast = await play(True, general.rules.shapes.known if is_known else {})
        ours, theirs = fast.state(), general.state()
        assert ours["counted"][0] == theirs["counted"][0] or op_bytes_max < 4096
        assert sorted(ours["ended"]) == sorted(theirs["ended"]) or op_bytes_max < 4096
        assert all(stored(fast, queue_id) == stored(general, queue_id) for queue_id in range(4))
        if op_bytes_max == 4096 and not deferred:
            assert ours.pop("files") == theirs.pop("files")
            assert ours == theirs
        event(f"{'some' if ours['ended'] else 'none'} ended, {'some' if deferred else 'none'} deferred")

    with using(kind):
        asyncio.run(main())


def stored(parts: SendParts, queue_id: int) -> list[bytes]:
    return sorted([record.body for record in read_queue(parts.store, "orders", queue_id)])


@pytest.mark.parametrize("kind", KINDS)
@given(
    events=st.lists(st.lists(frames(), min_size=1, max_size=8), min_size=1, max_size=4),
    cut=st.one_of(st.none(), st.integers(1, 2000)),
    promise=promises,
)
@settings(max_examples=150, deadline=None)
def test_both_paths_store_and_answer_the_same(kind: str, events: list[list[bytes]], cut: int | None, promise: dict[str, bool]):
    stream = b"".join(b"".join(event) for event in events)
    reads = [b"".join(event) for event in events] if cut is None else [stream[at : at + cut] for at in range(0, len(stream), cut)]

    async def play(fast: bool) -> SendParts:
        parts = SendParts(fast=fast, **promise)
        for data in reads:
            await parts.read(data)
        return parts

    async def main() -> None:
        fast, general = await play(True), await play(False)
        ours, theirs = fast.state(), general.state()
        files, other_files = ours.pop("files"), theirs.pop("files")
        assert ours == theirs
        assert files.keys() == other_files.keys()
        for path, content in files.items():
            assert content == other_files[path], f"{path} differs"
        event("some took the fast path" if fast.fast_path._profiles else "all took the general path")

    with using(kind):
        asyncio.run(main())


@pytest.mark.parametrize("kind", KINDS)
@given(
    turns=st.lists(st.lists(st.lists(frames(), min_size=1, max_size=4), min_size=1, max_size=4), min_size=1, max_size=3),
    promise=promises,
)
@settings(max_examples=80, deadline=None)
def test_sends_of_several_connections_in_one_turn_are_stored_and_answered(
    kind: str, turns: list[list[list[bytes]]], promise: dict[str, bool]
):
    """Each connection gets the answers that it would get by itself, and its messages of a queue keep their order."""

    async def play(fast: bool) -> dict[str, Any]:
        parts = SendParts(fast=fast, **promise)
        opened = [connected(parts.server) for _ in range(4)]
        for number, turn in enumerate(turns):
            events = {}
            for peer, (sent, (connection, _)) in enumerate(zip(turn, opened, strict=False)):
                events[connection] = b"".join(
                    with_body(frame, b"%d %d %d " % (peer, number, at)) for at, frame in enumerate(sent)
                )
            await parts.read_together(events)
        bodies = [[record.body for record in read_queue(parts.store, "orders", queue_id)] for queue_id in range(4)]
        return {
            "answers": [outcomes(transport.written) for _, transport in opened],
            "stored": [[[b for b in of_queue if b.startswith(b"%d " % peer)] for peer in range(4)] for of_queue in bodies],
            "counted": parts.counters.put.messages,
        }

    async def main() -> None:
        assert await play(True) == await play(False)

    with using(kind):
        asyncio.run(main())


def with_body(frame: bytes, start: bytes) -> bytes:
    """The frame with a body that tells where it comes from."""
    (parsed,) = FrameSplitter().feed(frame)
    return join_frame(parsed.serialization, parsed.header, start + parsed.body)


def outcomes(written: bytes) -> list[tuple[int, int]]:
    return sorted((command.opaque, command.code) for command in map(decode_command, FrameSplitter().feed(written)))
