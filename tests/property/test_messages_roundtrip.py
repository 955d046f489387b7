"""Whatever messages are made of, they come back; whatever bytes come, only typed errors do."""

from __future__ import annotations

from contextlib import suppress

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from skyrocket.protocol import sysflag
from skyrocket.protocol.errors import CompressionError, IdError, RecordError
from skyrocket.protocol.hosts import pack_host, unpack_host
from skyrocket.protocol.message.batch import BatchEntry, batch_records, decode_batch, encode_batch, encode_batch_records
from skyrocket.protocol.message.compression import compress, decompress
from skyrocket.protocol.message.message_id import (
    UniqueIdFactory,
    decode_offset_id,
    encode_offset_id,
    month_bounds_ms,
    parse_unique_id,
)
from skyrocket.protocol.message.properties import decode_properties, encode_properties
from skyrocket.protocol.message.record import (
    HOST_BITS,
    MAGIC,
    MAGIC_V2,
    Record,
    body_crc32,
    decode_record,
    encode_record,
    iterate_records,
    layout_for,
    magic_for,
    rewrite_address,
)
from skyrocket.protocol.message.tags import java_hash

int32 = st.integers(-(1 << 31), (1 << 31) - 1)
int64 = st.integers(-(1 << 63), (1 << 63) - 1)
ports = st.integers(0, 65_535)
hosts = st.one_of(
    st.builds(pack_host, st.ip_addresses(v=4).map(str), ports),
    st.builds(pack_host, st.ip_addresses(v=6).map(str), ports),
)
words = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x01\x02"), min_size=1, max_size=40)
bodies = st.binary(max_size=300)
topics = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=31)  # at most 124 bytes
records = st.builds(
    Record,
    topic=topics,
    body=bodies,
    properties=st.binary(max_size=300),
    queue_id=int32,
    queue_offset=int64,
    physical_offset=int64,
    flag=int32,
    sys_flag=int32,
    born_timestamp=int64,
    born_host=hosts,
    store_timestamp=int64,
    store_host=hosts,
    reconsume_times=int32,
    prepared_transaction_offset=int64,
    magic=st.sampled_from([MAGIC, MAGIC_V2]),
)
entries = st.builds(BatchEntry, bodies, st.binary(max_size=100), int32)
kinds = st.sampled_from([0, sysflag.COMPRESSION_LZ4, sysflag.COMPRESSION_ZSTD, sysflag.COMPRESSION_ZLIB])


def as_read(record: Record) -> Record:
    _, host_bits = layout_for(record.born_host, record.store_host)
    return msgspec.structs.replace(record, sys_flag=record.sys_flag & ~HOST_BITS | host_bits, body_crc=body_crc32(record.body))


@given(records)
def test_a_record(record: Record):
    encoded = encode_record(record)
    assert decode_record(encoded) == as_read(record)
    assert encode_record(decode_record(encoded)) == encoded


@given(records, topics | st.just("t" * 200), int32)
def test_a_record_for_another_address_is_that_record_and_nothing_else(record: Record, topic: str, queue_id: int):
    moved = msgspec.structs.replace(record, topic=topic, queue_id=queue_id, magic=magic_for(topic), prepared_transaction_offset=0)
    assert rewrite_address(memoryview(encode_record(record)), topic, queue_id) == encode_record(moved)


@given(st.lists(records, max_size=5))
def test_records_one_after_another(several: list[Record]):
    assert list(iterate_records(b"".join(map(encode_record, several)))) == list(map(as_read, several))


@given(records, st.data())
def test_a_record_with_bytes_changed(record: Record, data: st.DataObject):
    damaged = bytearray(encode_record(record))
    for at in data.draw(st.lists(st.integers(0, len(damaged) - 1), min_size=1, max_size=8)):
        damaged[at] = data.draw(st.integers(0, 255))
    with suppress(RecordError):
        decode_record(bytes(damaged), check_crc=data.draw(st.booleans()))


@settings(deadline=None)  # the first use of a library takes long
@given(st.binary(max_size=400))
def test_bytes_that_are_nothing(data: bytes):
    with suppress(RecordError):
        list(iterate_records(data))
    with suppress(RecordError):
        decode_batch(data)
    with suppress(RecordError):
        decode_properties(data)
    for kind in range(0, 0x800, 0x100):
        with suppress(CompressionError):
            decompress(data, kind, limit=10_000)


@given(st.lists(entries, min_size=1, max_size=8))
def test_a_batch(several: list[BatchEntry]):
    encoded = encode_batch(several)
    assert decode_batch(encoded) == several
    assert len(encoded) == sum(22 + len(entry.body) + len(entry.properties) for entry in several)


@given(st.lists(entries, min_size=1, max_size=8), records, st.integers(0, 1 << 62), st.integers(0, 1 << 62))
def test_a_batch_as_records(several: list[BatchEntry], like: Record, queue_offset: int, physical_offset: int):
    like = msgspec.structs.replace(like, queue_offset=queue_offset, physical_offset=physical_offset)
    expected = batch_records(several, like)
    assert list(iterate_records(b"".join(encode_batch_records(several, like)))) == expected
    assert [record.queue_offset - queue_offset for record in expected] == list(range(len(several)))


@given(st.dictionaries(words, words, max_size=8))
def test_properties(properties: dict[str, str]):
    assert decode_properties(encode_properties(properties)) == properties


@settings(deadline=None)  # the first use of a library takes long
@given(st.binary(max_size=5_000), kinds, st.integers(1, 9))
def test_compression(body: bytes, kind: int, level: int):
    assert decompress(compress(body, kind, level), kind, limit=len(body)) == body


@given(hosts)
def test_hosts(host: bytes):
    assert pack_host(*unpack_host(host)) == host


@given(
    address=st.sampled_from([4, 16]).flatmap(lambda size: st.binary(min_size=size, max_size=size)),
    process_id=st.integers(0, 1 << 22),
    salt=st.integers(0, (1 << 32) - 1),
    now_ms=st.integers(0, 4_000_000_000_000),
    age_ms=st.integers(1, 25 * 24 * 3_600_000),
    zone_ms=st.integers(-12, 14).map(lambda hours: hours * 3_600_000),
)
def test_unique_ids(*, address: bytes, process_id: int, salt: int, now_ms: int, age_ms: int, zone_ms: int):
    read = parse_unique_id(UniqueIdFactory(address, process_id, salt, utc_offset_ms=zone_ms).next(now_ms))
    assert (read.address, read.process_id, read.salt, read.counter) == (address, process_id & 0xFFFF, salt, 0)
    assert read.in_month_ms == now_ms - month_bounds_ms(now_ms, zone_ms)[0]
    assert read.approximate_born_ms(now_ms + age_ms, zone_ms) == now_ms


@given(hosts, st.integers(0, (1 << 63) - 1))
def test_offset_ids(host: bytes, physical_offset: int):
    assert decode_offset_id(encode_offset_id(host, physical_offset)) == (host, physical_offset)


@given(st.text(max_size=60))
def test_text_that_is_no_id(text: str):
    with suppress(IdError):
        parse_unique_id(text)
    with suppress(IdError):
        decode_offset_id(text)


@given(st.text(max_size=60))
def test_javas_hash_is_a_polynomial_over_utf_16(text: str):
    units = text.encode("utf-16-be", "surrogatepass")
    exact = 0
    for at in range(0, len(units), 2):
        exact = exact * 31 + int.from_bytes(units[at : at + 2], "big")
    assert java_hash(text) == (exact + (1 << 31)) % (1 << 32) - (1 << 31)
