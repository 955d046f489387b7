"""Messages, batches, ids and hashes mean the same here and to Apache RocketMQ's own code, in both directions.

Every test puts its questions to one Java program (java/Messages.java), which runs once for all of them.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable
from functools import cache
from hashlib import sha256
from pathlib import Path

import msgspec
import pytest

from skyrocket.protocol import sysflag
from skyrocket.protocol.errors import SubscriptionError
from skyrocket.protocol.hosts import pack_host
from skyrocket.protocol.limits import BODY_BYTES_MAX, PROPERTIES_BYTES_MAX
from skyrocket.protocol.message.batch import BatchEntry, decode_batch, encode_batch, encode_batch_records
from skyrocket.protocol.message.compression import compress, decompress, plain_body
from skyrocket.protocol.message.message_id import UniqueIdFactory, decode_offset_id, encode_offset_id, parse_unique_id
from skyrocket.protocol.message.properties import decode_properties, encode_properties
from skyrocket.protocol.message.record import MAGIC, MAGIC_V2, Record, body_crc32, decode_record, encode_record
from skyrocket.protocol.message.tags import java_hash, subscription_codes
from tests.support.apache.packages import run_java

pytestmark = pytest.mark.interop

JAVA = Path(__file__).parent / "java" / "Messages.java"
HOUR_MS = 3_600_000
KINDS = [sysflag.COMPRESSION_LZ4, sysflag.COMPRESSION_ZSTD, sysflag.COMPRESSION_ZLIB, 0]
ALPHABET = "abcXYZ0189_-%| .ßéж語🚀𝒂\u0000\uffff"


# What is asked about: the same on every run, because it comes from a seed.


def some_text(chance: random.Random, longest: int) -> str:
    return "".join(chance.choices(ALPHABET, k=chance.randint(1, longest)))


def some_properties(chance: random.Random) -> dict[str, str]:
    return {some_text(chance, 12): some_text(chance, 40) for _ in range(chance.randint(0, 8))}


def some_host(chance: random.Random) -> bytes:
    return chance.randbytes(chance.choice((4, 16))) + chance.randint(0, 65_535).to_bytes(4, "big")


def some_record(chance: random.Random) -> Record:
    return Record(
        topic="".join(chance.choices("abcXYZ0189_-%|", k=chance.randint(1, 127))),
        body=chance.choice((b"", chance.randbytes(chance.randint(1, 3000)), some_text(chance, 500).encode())),
        properties=encode_properties(some_properties(chance)),
        queue_id=chance.randint(-1, 1 << 20),
        queue_offset=chance.getrandbits(62),
        physical_offset=chance.getrandbits(62),
        flag=chance.randint(-(1 << 31), (1 << 31) - 1),
        sys_flag=chance.choice((0, sysflag.MULTI_TAGS, sysflag.TRANSACTION_PREPARED, sysflag.TRANSACTION_ROLLBACK)),
        born_timestamp=chance.getrandbits(42),
        born_host=some_host(chance),
        store_timestamp=chance.getrandbits(42),
        store_host=some_host(chance),
        reconsume_times=chance.randint(0, 20),
        prepared_transaction_offset=chance.choice((0, chance.getrandbits(62))),
    )


def compressed(record: Record, kind: int) -> Record:
    body = record.body * 30
    return msgspec.structs.replace(record, body=compress(body, kind), sys_flag=record.sys_flag | kind | sysflag.COMPRESSED)


@cache
def records() -> list[Record]:
    chance = random.Random(550)
    several = [some_record(chance) for _ in range(60)]
    several += [compressed(some_record(chance), kind) for kind in KINDS for _ in range(5)]
    extreme = some_record(chance)
    several += [
        msgspec.structs.replace(extreme, body=b""),
        msgspec.structs.replace(extreme, body=chance.randbytes(BODY_BYTES_MAX)),
        msgspec.structs.replace(extreme, properties=encode_properties({"long": "v" * (PROPERTIES_BYTES_MAX - 6)})),
        msgspec.structs.replace(extreme, properties=b""),
        msgspec.structs.replace(extreme, topic="t" * 127),
        msgspec.structs.replace(extreme, queue_offset=(1 << 63) - 1, physical_offset=(1 << 63) - 1, born_timestamp=-1),
        msgspec.structs.replace(extreme, reconsume_times=(1 << 31) - 1, prepared_transaction_offset=-1, queue_id=-(1 << 31)),
    ]
    return several


@cache
def long_topics() -> list[Record]:
    chance = random.Random(551)
    return [
        msgspec.structs.replace(some_record(chance), magic=MAGIC_V2, topic="t" * length) for length in (1, 127, 128, 255, 5000)
    ]


def some_entry(chance: random.Random) -> BatchEntry:
    record = some_record(chance)
    return BatchEntry(record.body, record.properties, record.flag)


@cache
def batches() -> list[list[BatchEntry]]:
    chance = random.Random(552)
    return [[some_entry(chance) for _ in range(count)] for count in (1, 2, 5, 32)]


@cache
def texts() -> list[str]:
    chance = random.Random(553)
    fixed = ["", "TagA", "polygenelubricants", "🚀", "a🚀b", "\ud83d", "\ude80\ud83d", "\uffff", "é" * 1000, "语" * 300]
    return fixed + [some_text(chance, 60) for _ in range(100)]


PROPERTY_TEXTS = [
    "",
    "a\1b\2",
    "a\1b",
    "a\1\2",
    "\1b\2",
    "a\1b\1c\2",
    "ab\2c\1d",
    "a\1b\2a\1c\2",
    "\2\2a\1b\2",
    "\1\1\1\2",
    "a\1\1\2",
]
EXPRESSIONS = ["", "*", "A", "A || B", " A ||\t|| B ", "||", "||||", " ", "|||", "A|||B", "* || A", "\u3000A||B", "||A", "🚀||é"]
BODIES = [b"", b"x", b"hello " * 500, random.Random(554).randbytes(100_000), bytes(5_000_000)]
NOW_MS = int(time.time() * 1000)
UNIQUE_IDS = [
    UniqueIdFactory(address, process_id, 0xCAFE_BABE).next(NOW_MS - age_ms)
    for address in (bytes((10, 0, 0, 1)), bytes.fromhex("fd00000000000000000000000000abcd"))
    for process_id in (1, 65_535, 70_000)
    for age_ms in (HOUR_MS, 24 * HOUR_MS)
]
OFFSET_IDS = [(pack_host(address, 10_911), offset) for address in ("127.0.0.1", "fd00::1") for offset in (0, 1, (1 << 63) - 1)]


# How it travels: see Messages.java.


def dash(data: bytes) -> str:
    return data.hex() or "-"


def pairs(properties: bytes | dict[str, str]) -> str:
    given = properties if isinstance(properties, dict) else decode_properties(properties)
    return ",".join(f"{dash(name.encode())}:{dash(value.encode())}" for name, value in given.items()) or "-"


def sorted_pairs(properties: bytes | str) -> str:
    return ",".join(sorted(pairs(decode_properties(properties)).split(",")))


def units(text: str) -> str:
    return dash(text.encode("utf-16-be", "surrogatepass"))


def digest(body: bytes) -> str:
    return sha256(body).hexdigest()


def fields(record: Record, body: bytes) -> str:
    """The arguments of encode and batch-store."""
    return (
        f"{dash(record.topic.encode())} {record.queue_id} {record.flag} {record.queue_offset} {record.physical_offset}"
        f" {record.sys_flag} {record.born_timestamp} {dash(record.born_host)} {record.store_timestamp} {dash(record.store_host)}"
        f" {record.reconsume_times} {record.prepared_transaction_offset} {dash(body)} {pairs(record.properties)}"
    )


def described(encoded: bytes) -> str:
    """A record in the words of Java's answer to decode, by our decoder."""
    record = decode_record(encoded)
    sys_flag = record.sys_flag & ~sysflag.COMPRESSED if record.body else record.sys_flag
    return (
        f"{len(encoded)} {record.body_crc} {record.queue_id} {record.flag} {record.queue_offset} {record.physical_offset}"
        f" {sys_flag} {record.born_timestamp} {dash(record.born_host)} {record.store_timestamp} {dash(record.store_host)}"
        f" {record.reconsume_times} {record.prepared_transaction_offset} {digest(plain_body(record))}"
        f" {dash(record.topic.encode())} {sorted_pairs(record.properties)}"
        f" {encode_offset_id(record.store_host, record.physical_offset)}"
    )


def with_host_bits(record: Record) -> Record:
    """Java's client encoder takes the bits as it is given them; ours sets them."""
    return msgspec.structs.replace(record, sys_flag=decode_record(encode_record(record)).sys_flag)


def damaged(encoded: bytes) -> bytes:
    return encoded[:88] + bytes((encoded[88] ^ 1,)) + encoded[89:]


PLAIN = Record(topic="t", body=b"body")
STORE_LIKES = [
    Record(topic="orders", body=b"", queue_id=3, sys_flag=2, born_timestamp=5, store_timestamp=6, reconsume_times=7),
    Record(topic="t" * 200, body=b"", magic=MAGIC_V2, born_host=pack_host("fd00::1", 9)),
    Record(topic="orders", body=b"", store_host=pack_host("fd00::1", 9), properties=b"WAIT\x01true\x02"),
]


def store_question(like: Record, batch: list[BatchEntry]) -> str:
    return f"batch-store {fields(like, encode_batch(batch))} {2 if like.magic == MAGIC_V2 else 1}"


QUESTIONS: dict[str, Callable[[], Iterable[str]]] = {
    "decode": lambda: [f"decode {encode_record(record).hex()}" for record in records() + long_topics()],
    "damaged": lambda: [f"decode {damaged(encode_record(PLAIN)).hex()}"],
    "encode": lambda: [f"encode {fields(with_host_bits(record), record.body)} false" for record in records()],
    "encode packed": lambda: [f"encode {fields(pack_me(kind), pack_me(kind).body)} true" for kind in KINDS],
    "batch-decode": lambda: [f"batch-decode {encode_batch(batch).hex()}" for batch in batches()],
    "batch-encode": lambda: [
        "batch-encode " + " ".join(f"{entry.flag}/{dash(entry.body)}/{pairs(entry.properties)}" for entry in batch)
        for batch in batches()
    ],
    "batch-store": lambda: [store_question(like, batch) for like in STORE_LIKES for batch in batches()],
    "properties-read": lambda: [f"properties-read {dash(text.encode())}" for text in PROPERTY_TEXTS],
    "properties-write": lambda: [f"properties-write {pairs(record.properties)}" for record in records()],
    "compress": lambda: [f"compress {kind} {level} {dash(body)}" for kind, level, body in compressions()],
    "decompress": lambda: [f"decompress {kind} {dash(compress(body, kind, level))}" for kind, level, body in compressions()],
    "unique-id-read": lambda: [f"unique-id-read {text}" for text in UNIQUE_IDS],
    "unique-id": lambda: ["unique-id"] * 3,
    "offset-id": lambda: [f"offset-id {host.hex()} {offset}" for host, offset in OFFSET_IDS],
    "offset-id-read": lambda: [f"offset-id-read {encode_offset_id(host, offset)}" for host, offset in OFFSET_IDS],
    "hash": lambda: [f"hash {units(text)}" for text in texts()],
    "subscription": lambda: [f"subscription {units(expression)}" for expression in EXPRESSIONS],
    "crc": lambda: [f"crc {dash(body)}" for body in BODIES],
}


def pack_me(kind: int) -> Record:
    return Record(topic="packed", body=b"hello " * 1000, sys_flag=kind | sysflag.COMPRESSED)


def compressions() -> list[tuple[int, int, bytes]]:
    return [(kind, level, body) for kind in KINDS for level in (1, 5, 9) for body in BODIES]


@pytest.fixture(scope="module")
def java() -> dict[str, list[str]]:
    """Java's answers to all questions, by the name of the group."""
    groups = {name: list(ask()) for name, ask in QUESTIONS.items()}
    lines = [line for group in groups.values() for line in group]
    answers = run_java(JAVA, stdin="\n".join(lines).encode() + b"\n").decode("ascii").splitlines()
    assert len(answers) == len(lines)
    taken = iter(answers)
    return {name: [next(taken) for _ in group] for name, group in groups.items()}


def test_java_reads_our_records(java):
    for record, answer in zip(records() + long_topics(), java["decode"], strict=True):
        assert answer == described(encode_record(record)), record.topic


def test_java_refuses_a_damaged_body_as_we_do(java):
    assert java["damaged"] == ["refused"]


def test_we_read_javas_records_and_both_write_the_same_bytes(java):
    for record, answer in zip(records(), java["encode"], strict=True):
        encoded = bytes.fromhex(answer)
        assert decode_record(encoded) == msgspec.structs.replace(with_host_bits(record), body_crc=body_crc32(record.body))
        assert encode_record(record) == encoded


def test_we_read_records_that_java_compressed(java):
    for kind, answer in zip(KINDS, java["encode packed"], strict=True):
        # Java's encoder writes the CRC that the message came with: here, that of the body before compression.
        record = decode_record(bytes.fromhex(answer), check_crc=False)
        assert record.body != pack_me(kind).body
        assert plain_body(record) == pack_me(kind).body


def test_java_reads_our_batches(java):
    for batch, answer in zip(batches(), java["batch-decode"], strict=True):
        assert answer.split() == [f"{e.flag}/{digest(e.body)}/{sorted_pairs(e.properties)}" for e in batch]


def test_we_read_javas_batches_and_both_write_the_same_bytes(java):
    for batch, answer in zip(batches(), java["batch-encode"], strict=True):
        assert decode_batch(bytes.fromhex(answer)) == batch
        assert encode_batch(batch).hex() == answer


def test_a_batch_becomes_the_records_that_apaches_store_makes_of_it(java):
    cases = [(like, batch) for like in STORE_LIKES for batch in batches()]
    for (like, batch), answer in zip(cases, java["batch-store"], strict=True):
        ours = [
            msgspec.structs.replace(decode_record(one), queue_offset=0, physical_offset=0)
            for one in encode_batch_records(batch, like)
        ]
        assert b"".join(map(encode_record, ours)).hex() == answer


def test_properties_are_read_alike(java):
    assert java["properties-read"] == [sorted_pairs(text) for text in PROPERTY_TEXTS]


def test_properties_are_written_alike(java):
    assert java["properties-write"] == [dash(record.properties) for record in records()]


def test_we_unpack_what_java_packed(java):
    for (kind, level, body), answer in zip(compressions(), java["compress"], strict=True):
        assert decompress(bytes.fromhex(answer), kind) == body, (kind, level, len(body))


def test_java_unpacks_what_we_packed(java):
    assert java["decompress"] == [digest(body) for _, _, body in compressions()]


def test_java_reads_our_unique_ids(java):
    for text, answer in zip(UNIQUE_IDS, java["unique-id-read"], strict=True):
        address, process_id, approximate_born_ms, now_ms, zone_ms = answer.split()
        ours = parse_unique_id(text)
        assert (address, int(process_id)) == (ours.address.hex(), ours.process_id)
        assert int(approximate_born_ms) == ours.approximate_born_ms(int(now_ms), int(zone_ms))


def test_we_read_javas_unique_ids(java):
    first, second, third = map(parse_unique_id, java["unique-id"])
    assert [first.counter, second.counter, third.counter] == [0, 1, 2]
    assert first[:3] == second[:3] == third[:3]
    zone_ms = int(java["unique-id-read"][0].split()[4])
    assert 0 <= first.approximate_born_ms(int(time.time() * 1000), zone_ms) - NOW_MS < HOUR_MS


def test_offset_ids_are_written_and_read_alike(java):
    assert java["offset-id"] == [encode_offset_id(host, offset) for host, offset in OFFSET_IDS]
    assert java["offset-id-read"] == [f"{host.hex()} {offset}" for host, offset in OFFSET_IDS]
    assert [decode_offset_id(text) for text in java["offset-id"]] == OFFSET_IDS


def test_hashes(java):
    assert java["hash"] == [str(java_hash(text)) for text in texts()]


def test_subscriptions(java):
    def ours(expression: str) -> str:
        try:
            codes = subscription_codes(expression)
        except SubscriptionError:
            return "error"
        return "all" if codes is None else str(sorted(codes))

    assert java["subscription"] == [ours(expression) for expression in EXPRESSIONS]


def test_body_crcs(java):
    assert java["crc"] == [str(body_crc32(body)) for body in BODIES]


def test_the_classic_magic_is_what_java_writes(java):
    assert {decode_record(bytes.fromhex(answer)).magic for answer in java["encode"]} == {MAGIC}
