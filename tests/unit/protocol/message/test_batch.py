"""A batch is split into its messages, which become consecutive records."""

from __future__ import annotations

import struct
from contextlib import suppress

import msgspec
import pytest

from skyrocket.protocol import sysflag
from skyrocket.protocol.command import CommandDecoder
from skyrocket.protocol.errors import RecordError
from skyrocket.protocol.hosts import pack_host
from skyrocket.protocol.limits import BATCH_BYTES_MAX, PROPERTIES_BYTES_MAX
from skyrocket.protocol.message.batch import BatchEntry, batch_records, decode_batch, encode_batch, encode_batch_records
from skyrocket.protocol.message.properties import decode_properties
from skyrocket.protocol.message.record import MAGIC_V2, Record, decode_record, encode_record, iterate_records
from tests.support.golden import golden_frames

ENTRIES = [BatchEntry(b"hello", b"TAGS\x01red\x02", 7), BatchEntry(b"", b"", -1), BatchEntry(b"world", b"KEYS\x01k\x02")]
BATCH = encode_batch(ENTRIES)

LIKE = Record(
    topic="orders",
    body=b"the whole batch",
    properties=b"UNIQ_KEY\x01of the batch\x02",
    queue_id=3,
    queue_offset=100,
    physical_offset=5_000,
    flag=9,
    sys_flag=sysflag.MULTI_TAGS,
    born_timestamp=11,
    born_host=pack_host("10.0.0.1", 1234),
    store_timestamp=12,
    store_host=pack_host("10.0.0.2", 10_911),
    reconsume_times=2,
    prepared_transaction_offset=77,
)


def test_every_byte_stands_where_the_drawing_says():
    assert encode_batch([BatchEntry(b"body", b"a\x01b\x02", 5)]) == bytes.fromhex(
        "0000001e 00000000 00000000 00000005 00000004 626f6479 0004 61016202"
    )


def test_messages_come_back():
    assert decode_batch(BATCH) == ENTRIES


def test_magic_and_crc_of_a_batch_entry_are_ignored():
    odd = BATCH[:4] + b"\xff" * 8 + BATCH[12:]
    assert decode_batch(odd) == ENTRIES


def test_batches_that_apaches_producer_sent():
    seen = 0
    for golden in golden_frames():
        if golden.request_code == 320 and golden.kind == "request":
            (command,) = CommandDecoder().feed(golden.frame)
            entries = decode_batch(command.body)
            assert [entry.body for entry in entries] == [b"batch0", b"batch1", b"batch2"]
            assert [decode_properties(entry.properties)["TAGS"] for entry in entries] == ["TagA", "TagB", "TagA"]
            assert encode_batch(entries) == command.body
            seen += 1
    assert seen


def test_batch_records_have_consecutive_offsets():
    records = batch_records(ENTRIES, LIKE)
    assert [record.queue_offset for record in records] == [100, 101, 102]
    at = 5_000
    for record in records:
        assert record.physical_offset == at
        at += len(encode_record(record))


def test_a_batch_record_combines_fields_of_its_message_and_of_the_batch():
    first, second, _ = batch_records(ENTRIES, LIKE)
    assert (first.body, first.properties, first.flag) == ENTRIES[0]._replace(flag=7)
    assert first == msgspec.structs.replace(
        LIKE, body=b"hello", properties=b"TAGS\x01red\x02", flag=7, body_crc=first.body_crc, prepared_transaction_offset=0
    )
    assert second.body_crc == 0


@pytest.mark.parametrize("magic", [LIKE.magic, MAGIC_V2])
@pytest.mark.parametrize("host", [LIKE.born_host, pack_host("fd00::1", 5)])
def test_encode_batch_records_equals_encoding_each_record(magic: int, host: bytes):
    like = msgspec.structs.replace(LIKE, magic=magic, born_host=host)
    records = batch_records(ENTRIES, like)
    encoded = encode_batch_records(ENTRIES, like)
    assert encoded == [encode_record(record) for record in records]
    assert list(iterate_records(b"".join(encoded))) == records


def test_a_batch_cut_anywhere_is_refused_unless_between_messages():
    between = {len(encode_batch(ENTRIES[:count])) for count in (1, 2)}
    for length in range(len(BATCH)):
        if length in between:
            assert decode_batch(BATCH[:length]) == ENTRIES[: len(decode_batch(BATCH[:length]))]
        else:
            with pytest.raises(RecordError):
                decode_batch(BATCH[:length])


SIZE_AT, BODY_LENGTH_AT, PROPERTIES_LENGTH_AT = 0, 16, 25


@pytest.mark.parametrize("at", [SIZE_AT, BODY_LENGTH_AT])
@pytest.mark.parametrize("change", [-(1 << 31), -1, 0, 1, 4, 6, 35, 37, len(BATCH), len(BATCH) + 1, (1 << 31) - 1])
def test_a_wrong_size_or_length_of_a_body(at: int, change: int):
    damaged = BATCH[:at] + struct.pack(">i", change) + BATCH[at + 4 :]
    with pytest.raises(RecordError):
        decode_batch(damaged)


@pytest.mark.parametrize("length", [-32768, -1, 0, 8, 10, 31, 32767])
def test_a_wrong_length_of_properties(length: int):
    damaged = BATCH[:PROPERTIES_LENGTH_AT] + struct.pack(">h", length) + BATCH[PROPERTIES_LENGTH_AT + 2 :]
    with pytest.raises(RecordError):
        decode_batch(damaged)


def test_a_flipped_bit_anywhere_is_refused_or_read_but_never_anything_else():
    for bit in range(8 * len(BATCH)):
        damaged = bytearray(BATCH)
        damaged[bit // 8] ^= 1 << bit % 8
        with suppress(RecordError):
            encode_batch_records(decode_batch(bytes(damaged)), LIKE)


def test_a_batch_without_a_message():
    with pytest.raises(RecordError, match="no message"):
        decode_batch(b"")
    with pytest.raises(RecordError, match="no message"):
        encode_batch([])


def test_a_batch_that_is_too_large():
    with pytest.raises(RecordError, match="larger than"):
        encode_batch([BatchEntry(bytes(BATCH_BYTES_MAX // 2))] * 2)
    with pytest.raises(RecordError, match="larger than"):
        decode_batch(bytes(BATCH_BYTES_MAX + 1))
    with pytest.raises(RecordError, match="larger than"):
        decode_batch(BATCH, limit=len(BATCH) - 1)
    assert decode_batch(BATCH, limit=len(BATCH)) == ENTRIES


@pytest.mark.parametrize("entry", [BatchEntry(b"", bytes(PROPERTIES_BYTES_MAX + 1)), BatchEntry(b"", b"", 1 << 31)])
def test_a_message_that_does_not_fit(entry: BatchEntry):
    with pytest.raises(RecordError):
        encode_batch([entry])
    with pytest.raises(RecordError):
        encode_batch_records([entry], LIKE)


@pytest.mark.parametrize("given", [{"topic": ""}, {"born_host": b"1"}, {"magic": 1}, {"queue_offset": (1 << 63) - 1}])
def test_an_invalid_template_record_is_refused(given: dict[str, object]):
    with pytest.raises(RecordError):
        encode_batch_records(ENTRIES, msgspec.structs.replace(LIKE, **given))


def test_a_batch_of_the_largest_size_reads_back():
    body = bytes(BATCH_BYTES_MAX - 22)
    (encoded,) = encode_batch_records(decode_batch(encode_batch([BatchEntry(body)])), LIKE)
    assert decode_record(encoded).body == body
