"""Mutated sends: the compiled loop and its reference accept the same frames, and build the same records.

`make sanitize` runs this under AddressSanitizer, which finds reads and writes outside the buffers.
"""

from __future__ import annotations

import json
import os
from random import Random
from typing import Any, cast

from skyrocket.broker.send.batch import SendBatch
from skyrocket.broker.send.fast_loop import BatchTerms
from skyrocket.broker.transactions.end_fast_path import EndContribution
from skyrocket.compiled import TWINS
from skyrocket.protocol.command import ONEWAY_FLAG, Command, encode_command
from skyrocket.protocol.frame import Frame, FrameSplitter, Serialization, join_frame
from skyrocket.protocol.hosts import pack_host
from skyrocket.protocol.message.batch import encode_batch
from skyrocket.protocol.message.properties import UNIQUE_KEY, encode_properties
from skyrocket.protocol.message.record import Record
from skyrocket.protocol.message.unique_key import shape_of
from skyrocket.protocol.system_names import HALF_TOPIC
from tests.support.brokers.send_parts import BEGIN_MS, SendParts
from tests.support.twins import needs_twins

pytestmark = needs_twins

EVENTS = int(os.environ.get("SKYROCKET_FUZZ_FRAMES", "50000")) // 16
PROPERTIES = [
    "TAGS\x01red\x02WAIT\x01true\x02",
    "KEYS\x01k1 k2\x02",
    "colour\x01grün\x02",
    'note\x01a"b\\c\n\x02',
    "DELAY\x013\x02",
    "TIMER_DELAY_MS\x015000\x02",
    "TRAN_MSG\x01true\x02PGROUP\x01shop\x02",
    "",
]
MEANINGLESS = [text for text in PROPERTIES if not text.startswith(("DELAY", "TIMER", "TRAN"))]
INSERTED = [b"", b'"', b"\\", b"\\u0001", b"\\u00e9", b"\\u0000", b"\\ud83d", b"\xff", b"\xc3", b"0", b"-", b"9" * 20, b"}", b"{"]
INSERTED += [b",", b":", b"null", b"true", b'"z":"1",', b'"e":"1",', b" ", b"\0", b"\n", b"1e3", b'"flag":0,', b"\x7f"]
INSERTED += [b'\\"', b"\\n"]


def mostly(random: Random, usual: Any, odd: list[Any]) -> Any:
    return random.choice(odd) if random.random() < 0.03 else usual


NAMES = "producerGroup topic defaultTopic defaultTopicQueueNums queueId sysFlag bornTimestamp flag properties"
NAMES += " reconsumeTimes unitMode maxReconsumeTimes batch bname"
LONG_NAMES = dict(zip("abcdefghijklmn", NAMES.split(), strict=True))


def a_send(random: Random, number: int, serialization: int) -> tuple[bytes, bytes]:
    code = random.choice([310, 310, 320, 10])
    before, after = (
        random.choice(["", "", "WAIT\x01true\x02", "é\x01☂\x02"]),
        random.choice(MEANINGLESS if code == 320 else PROPERTIES),
    )
    fields: dict[str, Any] = {
        "a": "producers",
        "b": mostly(random, "orders", ["new", "closed", "%RETRY%shop", ""]),
        "c": "TBW102",
        "d": "4",
        "e": str(mostly(random, random.randrange(4), [4, -1])),
        "f": str(mostly(random, 0, [1, 4, 8, 48])),
        "g": str(mostly(random, 1_700_000_000_000, [0, -1, 2**62, 2**63])),
        "h": str(mostly(random, 0, [-7, 2**31 - 1, 2**31])),
        "i": before + mostly(random, f"UNIQ_KEY\x017F000001A1B218B4AAC2{number:012X}\x02", [""]) + after,
        "j": str(random.choice([0, 3])),
        "k": random.choice(["false", "true"]),
        "l": "16",
        "m": str(code == 320).lower(),
        "n": "broker-a",
    }
    fields.pop(mostly(random, "", list("abhijklmn")), None)
    fields = {LONG_NAMES[name]: value for name, value in fields.items()} if code == 10 else fields
    flag = random.choice([0, 0, ONEWAY_FLAG])
    if serialization:
        command = Command(code, fields=fields, flag=flag, opaque=number, serialization=Serialization.ROCKETMQ)
        encoded = FrameSplitter().feed(encode_command(command))[0].header
    else:
        header = {"code": code, "extFields": fields, "flag": flag, "language": "JAVA", "opaque": number, "version": 495}
        encoded = json.dumps(header, separators=(",", ":"), ensure_ascii=mostly(random, False, [True])).encode()
    body = random.randbytes(mostly(random, random.choice([0, 5, 127, 128, 129, 900]), [4000, 4001]))
    return encoded, a_batch_body(random) if code == 320 else body


def a_batch_body(random: Random) -> bytes:
    """Return the body of a batch, sometimes a mutated one."""
    entries = []
    for number in range(random.randrange(1, 5)):
        text = random.choice(["", f"UNIQ_KEY\x01{number:032X}\x02"]) + mostly(random, random.choice(MEANINGLESS), PROPERTIES)
        entries.append((random.randbytes(random.choice([0, 5, 300])), text.encode(), random.choice([0, 7])))
    body = encode_batch(entries)
    return mutated(random, body) if random.random() < 0.05 else body


def an_end(random: Random, halves: list[tuple[int, int]], number: int) -> bytes:
    """Return an end of one of the half messages, given by their queue offsets and places."""
    offset, place = random.choice(halves)
    fields = {
        "producerGroup": mostly(random, "shop", ["other", ""]),
        "msgId": "id",
        "commitOrRollback": random.choice(["8", "8", "12"]),
    }
    fields |= {
        "tranStateTableOffset": str(offset),
        "commitLogOffset": str(mostly(random, place, [place + 1, 0, -1, 2**40, 2**63 - 1, -(2**63)])),
    }
    header = {"code": 37, "extFields": fields, "flag": ONEWAY_FLAG, "language": "JAVA", "opaque": number}
    return json.dumps(header, separators=(",", ":")).encode()


def mutated(random: Random, header: bytes) -> bytes:
    at = random.randrange(len(header))
    stop = at + random.choice([0, 0, 1, 1, 2, 6, len(header)])
    return header[:at] + random.choice(INSERTED) + header[stop:]


def a_frame(random: Random, halves: list[tuple[int, int]], number: int) -> Frame:
    serialization = random.randrange(2)
    header, body = a_send(random, number, serialization)
    if random.random() < 0.2:
        header, serialization = an_end(random, halves, number), 0
    while random.random() < 0.06:
        header = mutated(random, header) or b"{"
    return Frame(mostly(random, serialization, [0, 1]), header, body)


def a_batch(parts: SendParts, room: tuple[int, int]) -> SendBatch:
    """Make a batch for a log of which `room` says where its segment ends, and how many bytes lie between two records."""
    stop, header_bytes = room
    return SendBatch(1000, stop, BEGIN_MS, parts.store.queues.next_offset, header_bytes)


def place(frames: list[Frame], parts: SendParts, room: tuple[int, int], terms: BatchTerms, *, compiled: bool) -> tuple[Any, ...]:
    """Place the frames in a batch, and return everything that the batch has then."""
    twins = TWINS["send_loop.place_run"]
    batch = a_batch(parts, room)
    number = twins.compiled(frames, 0, batch, terms, parts.fast_path) if compiled else 0
    number = twins.reference(frames, number, batch, terms, parts.fast_path)
    contribution = cast("EndContribution | None", batch.contribution)
    ends = ([], []) if contribution is None else (contribution.ended, contribution.deferred)
    return b"".join(batch.parts), batch.dispatches, batch.answers, *ends, batch.position, batch.following_offsets(), number


def some_halves(parts: SendParts) -> list[tuple[int, int]]:
    """Store half messages, most with a known shape. Return their queue offsets and places."""
    stored = []
    for number in range(6):
        unique, more = f"7F000001A1B218B4AAC2{number:012X}", "TAGS\x01red\x02" * (number % 2)
        named = {UNIQUE_KEY: unique, "PGROUP": "shop", "REAL_TOPIC": "orders", "REAL_QID": str(number % 3), "TRAN_MSG": "true"}
        record = Record(HALF_TOPIC, bytes(100 * number), f"{encode_properties(named).decode()}{more}".encode())
        (placed,) = parts.internal_writer.write([record])
        if number < 5:
            parts.rules.shapes.of(*shape_of(record.properties))
        stored.append((placed.queue_offset, placed.physical_offset))
    return stored


def test_twins_agree_on_mutated_sends():
    random = Random(20)
    parts = SendParts(fast=True)
    halves = some_halves(parts)
    taken = by_compiled = ended = 0
    parts.fast_path._drop_old_profiles(parts.settings)
    for event in range(EVENTS):
        frames = [a_frame(random, halves, number) for number in range(16)]
        host = pack_host(random.choice(["10.0.0.7", "fd00::7"]), 40_000)
        room = (mostly(random, 2**40, [3000, 20_000]), random.choice([0, 48]))
        terms = BatchTerms(host, pack_host("127.0.0.1", 10911), 4000, b"CLUSTER\x01c\x02", parts.contributors.of_frames)
        ours, theirs = (place(frames, parts, room, terms, compiled=compiled) for compiled in (True, False))
        assert ours == theirs, f"event {event}: {frames}"
        taken += ours[-1]
        ended += len(ours[3])
        by_compiled += TWINS["send_loop.place_run"].compiled(frames, 0, a_batch(parts, room), terms, parts.fast_path)
    assert 0.2 < by_compiled / EVENTS / 16 < 0.95, "the twin took few frames, or the mutations broke none"
    assert by_compiled < taken
    assert ended > EVENTS / 4, "few transactions ended"


def test_twins_agree_on_mutated_streams():
    random = Random(21)
    twins = TWINS["frame.split"]
    for event in range(EVENTS):
        stream = b"".join(join_frame(random.randrange(2), random.randbytes(random.randrange(40)), b"body") for _ in range(8))
        while random.random() < 0.7:
            stream = mutated(random, stream) or b"\0"
        ours: list[Frame] = []
        theirs: list[Frame] = []
        assert twins.compiled(stream, ours, 200, 36) == twins.reference(stream, theirs, 200, 36), f"event {event}: {stream!r}"
        assert ours == theirs
