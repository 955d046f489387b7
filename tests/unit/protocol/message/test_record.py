"""Records round-trip, and malformed bytes raise an error."""

from __future__ import annotations

import struct
from contextlib import suppress

import msgspec
import pytest

from skyrocket.protocol import sysflag
from skyrocket.protocol.errors import RecordError
from skyrocket.protocol.hosts import pack_host
from skyrocket.protocol.limits import PROPERTIES_BYTES_MAX, TOPIC_BYTES_MAX
from skyrocket.protocol.message.record import (
    BLANK_MAGIC,
    FIXED_BYTES_MIN,
    MAGIC,
    MAGIC_V2,
    PHYSICAL_OFFSET_AT,
    QUEUE_OFFSET_AT,
    SYS_FLAG_AT,
    TOPIC_BYTES_MAX_V2,
    Record,
    body_crc32,
    decode_record,
    encode_record,
    iterate_records,
    magic_for,
    split_records,
    topic_bytes_max,
)

V4 = pack_host("10.1.2.3", 40_000)
V6 = pack_host("fd00::7", 10_911)
BODY_AT_V4 = 88  # where the body starts when both hosts are IPv4


def a_record(**given) -> Record:
    """Every field differs from every other, so that two in each other's place show."""
    record = Record(
        topic="orders",
        body=b"hello",
        properties=b"TAGS\x01red\x02",
        queue_id=1,
        queue_offset=2,
        physical_offset=3,
        flag=4,
        sys_flag=sysflag.TRANSACTION_COMMIT,
        born_timestamp=5,
        born_host=V4,
        store_timestamp=6,
        store_host=pack_host("10.9.9.9", 10_911),
        reconsume_times=7,
        prepared_transaction_offset=8,
    )
    return msgspec.structs.replace(record, **given)


def as_read(record: Record) -> Record:
    """What is set by writing: the CRC, and which hosts are IPv6."""
    sys_flag = record.sys_flag & ~(sysflag.BORN_HOST_V6 | sysflag.STORE_HOST_V6)
    sys_flag |= sysflag.BORN_HOST_V6 if len(record.born_host) == 20 else 0
    sys_flag |= sysflag.STORE_HOST_V6 if len(record.store_host) == 20 else 0
    return msgspec.structs.replace(record, sys_flag=sys_flag, body_crc=body_crc32(record.body))


def with_bytes(encoded: bytes, at: int, replacement: bytes) -> bytes:
    return encoded[:at] + replacement + encoded[at + len(replacement) :]


ENCODED = encode_record(a_record())


@pytest.mark.parametrize("magic", [MAGIC, MAGIC_V2])
@pytest.mark.parametrize("born", [V4, V6])
@pytest.mark.parametrize("store", [V4, V6])
@pytest.mark.parametrize("body", [b"", b"hello", bytes(range(256)) * 16])
def test_a_record_comes_back(magic: int, born: bytes, store: bytes, body: bytes):
    record = a_record(magic=magic, born_host=born, store_host=store, body=body)
    encoded = encode_record(record)
    assert decode_record(encoded) == decode_record(memoryview(encoded)) == as_read(record)
    assert len(encoded) == struct.unpack_from(">i", encoded)[0]


def test_every_byte_stands_where_the_drawing_says():
    assert (
        bytes.fromhex(
            "0000006f daa320a7 3610a686 00000001 00000004 0000000000000002 0000000000000003 00000008 0000000000000005"
            "0a010203 00009c40 0000000000000006 0a090909 00002a9f 00000007 0000000000000008 00000005 68656c6c6f"
            "06 6f7264657273 0009 54414753 01 726564 02"
        )
        == ENCODED
    )


def test_offsets_of_the_fields_that_the_store_patches():
    assert struct.unpack_from(">q", ENCODED, QUEUE_OFFSET_AT) == (2,)
    assert struct.unpack_from(">q", ENCODED, PHYSICAL_OFFSET_AT) == (3,)
    assert struct.unpack_from(">i", ENCODED, SYS_FLAG_AT) == (sysflag.TRANSACTION_COMMIT,)


def test_the_bits_of_the_hosts_kinds_follow_the_hosts():
    both = sysflag.BORN_HOST_V6 | sysflag.STORE_HOST_V6
    assert decode_record(encode_record(a_record(sys_flag=both))).sys_flag == 0
    assert decode_record(encode_record(a_record(sys_flag=0, born_host=V6, store_host=V6))).sys_flag == both
    assert decode_record(encode_record(a_record(sys_flag=0, born_host=V6))).sys_flag == sysflag.BORN_HOST_V6
    assert decode_record(encode_record(a_record(sys_flag=0, store_host=V6))).sys_flag == sysflag.STORE_HOST_V6


def test_a_crc_has_its_top_bit_cleared():
    assert body_crc32(b"123456789") == 0xCBF43926 & 0x7FFF_FFFF
    assert body_crc32(b"") == 0


def test_the_longest_names_and_properties():
    for magic in (MAGIC, MAGIC_V2):
        record = a_record(magic=magic, topic="t" * topic_bytes_max(magic), properties=b"p" * PROPERTIES_BYTES_MAX)
        assert decode_record(encode_record(record)) == as_read(record)


def test_the_second_magic_only_where_the_first_cannot_hold_the_topic():
    assert magic_for("t" * TOPIC_BYTES_MAX) == MAGIC
    assert magic_for("t" * (TOPIC_BYTES_MAX + 1)) == MAGIC_V2


def test_records_one_after_another():
    records = [a_record(queue_offset=i, body=b"x" * i, magic=MAGIC if i % 2 else MAGIC_V2) for i in range(9)]
    stream = b"".join(map(encode_record, records))
    assert list(iterate_records(stream)) == list(iterate_records(memoryview(stream))) == list(map(as_read, records))
    assert list(iterate_records(b"")) == []


def test_a_record_in_the_middle():
    assert decode_record(b"\xff" * 1000 + ENCODED + b"\xff" * 1000, 1000) == as_read(a_record())


def test_a_decoded_record_owns_its_bytes():
    buffer = bytearray(ENCODED)
    record = decode_record(memoryview(buffer))
    buffer[:] = bytes(len(buffer))
    assert record == as_read(a_record())


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"topic": ""}, "topic of 0 bytes"),
        ({"topic": "t" * 128}, "topic of 128 bytes"),
        ({"topic": "é" * 64}, "topic of 128 bytes"),
        ({"topic": "t" * (TOPIC_BYTES_MAX_V2 + 1), "magic": MAGIC_V2}, "topic of 32768 bytes"),
        ({"topic": "\ud800"}, "not Unicode"),
        ({"properties": b"p" * (PROPERTIES_BYTES_MAX + 1)}, "Properties of 32768 bytes"),
        ({"born_host": b"1234567"}, "host has 7 bytes"),
        ({"store_host": b""}, "host has 0 bytes"),
        ({"magic": BLANK_MAGIC}, "0xcbd43194"),
        ({"magic": 0}, "magic"),
        ({"queue_id": 1 << 31}, "does not fit"),
        ({"flag": -(1 << 31) - 1}, "does not fit"),
        ({"sys_flag": 1 << 31}, "does not fit"),
        ({"queue_offset": 1 << 63}, "does not fit"),
        ({"physical_offset": 1 << 63}, "does not fit"),
        ({"born_timestamp": 1 << 63}, "does not fit"),
        ({"store_timestamp": 1 << 63}, "does not fit"),
        ({"reconsume_times": 1 << 31}, "does not fit"),
        ({"prepared_transaction_offset": 1 << 63}, "does not fit"),
    ],
)
def test_a_record_with_a_value_out_of_range_is_refused(given: dict[str, object], sentence: str):
    with pytest.raises(RecordError, match=sentence):
        encode_record(a_record(**given))


@pytest.mark.parametrize("magic", [MAGIC, MAGIC_V2])
@pytest.mark.parametrize("host", [V4, V6])
def test_a_record_cut_anywhere_is_refused(magic: int, host: bytes):
    encoded = encode_record(a_record(magic=magic, born_host=host, store_host=host))
    for length in range(len(encoded)):
        with pytest.raises(RecordError):
            decode_record(encoded[:length])
        with pytest.raises(RecordError):
            decode_record(with_bytes(encoded, 0, struct.pack(">i", length))[:length])  # and its size says so too


def test_any_flipped_bit_of_the_body_is_detected():
    for bit in range(8 * len(a_record().body)):
        damaged = bytearray(ENCODED)
        damaged[BODY_AT_V4 + bit // 8] ^= 1 << bit % 8
        with pytest.raises(RecordError, match="CRC"):
            decode_record(damaged)
        decode_record(damaged, check_crc=False)


def test_a_flipped_bit_anywhere_is_refused_or_read_but_never_anything_else():
    for encoded in (ENCODED, encode_record(a_record(magic=MAGIC_V2, born_host=V6, store_host=V6))):
        for bit in range(8 * len(encoded)):
            damaged = bytearray(encoded)
            damaged[bit // 8] ^= 1 << bit % 8
            with suppress(RecordError):
                decode_record(bytes(damaged), check_crc=False)


SIZE, MAGIC_AT, BODY_LENGTH_AT = 0, 4, 84
TOPIC_LENGTH_AT = BODY_AT_V4 + 5
PROPERTIES_LENGTH_AT = TOPIC_LENGTH_AT + 1 + 6
INT32_EXTREMES = [-(1 << 31), -1, 0, (1 << 31) - 1]


@pytest.mark.parametrize("size", [*INT32_EXTREMES, 1, FIXED_BYTES_MIN - 1, FIXED_BYTES_MIN, len(ENCODED) - 1, len(ENCODED) + 1])
def test_a_wrong_size(size: int):
    with pytest.raises(RecordError):
        decode_record(with_bytes(ENCODED, SIZE, struct.pack(">i", size)))
    with pytest.raises(RecordError):
        decode_record(with_bytes(ENCODED, SIZE, struct.pack(">i", size)) + b"more" * 100)


@pytest.mark.parametrize("magic", [0, BLANK_MAGIC, MAGIC + 1])
def test_a_wrong_magic(magic: int):
    with pytest.raises(RecordError, match="magic"):
        decode_record(with_bytes(ENCODED, MAGIC_AT, struct.pack(">i", magic)))


@pytest.mark.parametrize("length", [*INT32_EXTREMES, 4, 6, 20, 24, 25, 26, len(ENCODED)])
def test_a_wrong_length_of_the_body(length: int):
    with pytest.raises(RecordError):
        decode_record(with_bytes(ENCODED, BODY_LENGTH_AT, struct.pack(">i", length)))


@pytest.mark.parametrize("length", [0, 5, 7, 14, 15, 16, 17, 127, 128, 255])
def test_a_wrong_length_of_the_topic(length: int):
    with pytest.raises(RecordError):
        decode_record(with_bytes(ENCODED, TOPIC_LENGTH_AT, bytes((length,))))


@pytest.mark.parametrize("length", [-32768, -1, 0, 5, 7, 255, 32767])
def test_a_wrong_length_of_a_long_topic(length: int):
    encoded = encode_record(a_record(magic=MAGIC_V2))
    with pytest.raises(RecordError):
        decode_record(with_bytes(encoded, TOPIC_LENGTH_AT, struct.pack(">h", length)))


@pytest.mark.parametrize("length", [-32768, -1, 0, 8, 10, 32767])
def test_a_wrong_length_of_the_properties(length: int):
    with pytest.raises(RecordError):
        decode_record(with_bytes(ENCODED, PROPERTIES_LENGTH_AT, struct.pack(">h", length)))


def test_hosts_that_the_sys_flag_makes_too_long():
    for bits in (sysflag.BORN_HOST_V6, sysflag.STORE_HOST_V6, sysflag.BORN_HOST_V6 | sysflag.STORE_HOST_V6):
        with pytest.raises(RecordError):
            decode_record(with_bytes(ENCODED, SYS_FLAG_AT, struct.pack(">i", bits)))
        smallest = encode_record(a_record(topic="t", body=b"", properties=b""))
        with pytest.raises(RecordError):
            decode_record(with_bytes(smallest, SYS_FLAG_AT, struct.pack(">i", bits)))


def test_a_topic_that_is_not_text():
    with pytest.raises(RecordError, match="UTF-8"):
        decode_record(with_bytes(ENCODED, TOPIC_LENGTH_AT + 1, b"\xff"))


def test_split_records_have_the_bytes_of_the_decoded_ones():
    records = [
        Record(topic="one", body=b"first", properties=b"a\x01b\x02", queue_offset=1),
        Record(topic="two", body=b"", queue_offset=2, sys_flag=sysflag.COMPRESSED),
        Record(topic="two", body=b"v6", born_host=bytes(20), store_host=bytes(20), queue_offset=3),
        Record(topic="x" * 200, body=b"long", magic=MAGIC_V2, queue_offset=4),
        Record(topic="one", body=b"last", properties=b"p\x01" + b"q" * 300 + b"\x02", queue_offset=5),
    ]
    data = b"".join(map(encode_record, records))
    parts = split_records(data)
    assert [decode_record(part.head + part.body + part.tail) for part in parts] == list(iterate_records(data))
    assert [(part.queue_offset, part.is_compressed, part.body) for part in parts] == [
        (record.queue_offset, record.queue_offset == 2, record.body) for record in records
    ]
    assert split_records(b"") == []


def test_records_are_split_only_if_all_of_them_are_valid():
    """Whatever bit is wrong: it is refused, with the same sentence, where decoding refuses it."""
    good = encode_record(Record(topic="t", body=b"body", properties=b"a\x01b\x02"))
    for at in range(len(good)):
        for bit in (0x01, 0x10, 0x80):
            damaged = good + good[:at] + bytes([good[at] ^ bit]) + good[at + 1 :]
            try:
                expected: object = [record.body for record in iterate_records(damaged)]
            except RecordError as error:
                expected = str(error)
            try:
                found: object = [part.body for part in split_records(damaged)]
            except RecordError as error:
                found = str(error)
            assert found == expected, f"byte {at}, bit {bit:#x}"
    for cut in range(1, len(good)):
        with pytest.raises(RecordError):
            split_records(good + good[:cut])
