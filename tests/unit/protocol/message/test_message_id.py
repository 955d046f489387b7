"""Ids are made as Java makes them, and read back."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from skyrocket.protocol.errors import IdError
from skyrocket.protocol.hosts import pack_host
from skyrocket.protocol.message.message_id import (
    ID_SEPARATOR,
    OffsetId,
    UniqueId,
    UniqueIdFactory,
    decode_offset_id,
    encode_offset_id,
    encode_offset_ids,
    month_bounds_ms,
    parse_unique_id,
)

HOUR_MS = 3_600_000
V4, V6 = bytes((10, 1, 2, 3)), bytes.fromhex("fd000000000000000000000000000002")


def at(*date: int) -> int:
    return int(datetime(*date, tzinfo=UTC).timestamp() * 1000)


MARCH = at(2026, 3, 1)
APRIL = at(2026, 4, 1)


def a_factory(**given) -> UniqueIdFactory:
    return UniqueIdFactory(**{"address": V4, "process_id": 0x12345, "salt": 0xDEADBEEF, **given})


def test_a_unique_id_has_address_process_salt_time_and_counter():
    factory = a_factory()
    assert factory.next(MARCH + 1) == "0A010203" + "2345" + "DEADBEEF" + "00000001" + "0000"
    assert factory.next(MARCH + 255) == "0A010203" + "2345" + "DEADBEEF" + "000000FF" + "0001"


def test_ipv6_makes_it_longer():
    text = a_factory(address=V6).next(MARCH)
    assert len(text) == 56
    assert text.startswith("FD000000000000000000000000000002")


def test_a_unique_id_is_parsed():
    text = a_factory(address=V6).next(MARCH + 77)
    read = parse_unique_id(text)
    assert read == parse_unique_id(text.lower()) == UniqueId(V6, 0x2345, 0xDEADBEEF, 77, 0)
    assert read.address_text == "fd00::2"
    assert parse_unique_id(a_factory().next(MARCH)).address_text == "10.1.2.3"


def test_ids_within_a_millisecond_are_distinct():
    factory = a_factory()
    assert len({factory.next(MARCH) for _ in range(65_536)}) == 65_536


def test_next_ids_returns_the_ids_of_repeated_next():
    one_by_one, at_once = (UniqueIdFactory(bytes(4), 1, 2) for _ in range(2))
    for now_ms, count in ((5, 3), (5, 65_534), (6, 4), (6, 0)):
        assert at_once.next_ids(now_ms, count) == [one_by_one.next(now_ms) for _ in range(count)]
    assert at_once.next(7) == one_by_one.next(7)


def test_the_counter_starts_over():
    factory = a_factory()
    ids = [factory.next(MARCH) for _ in range(65_538)]
    assert ids[65_535].endswith("FFFF")
    assert ids[65_536].endswith("0000")


def test_the_time_starts_over_with_the_month():
    factory = a_factory()
    late, early = factory.next(APRIL - 1), factory.next(APRIL)
    assert parse_unique_id(late).in_month_ms == 31 * 24 * HOUR_MS - 1  # more than 31 bits hold
    assert parse_unique_id(early).in_month_ms == 0


def test_a_clock_set_back_over_the_months_start_gives_its_first_millisecond():
    factory = a_factory()
    factory.next(APRIL)
    assert parse_unique_id(factory.next(APRIL - 999_999)).in_month_ms == 0
    assert parse_unique_id(factory.next(APRIL - 1_000_000)).in_month_ms == 0x1_0000_0000 - 1_000_000


def test_the_month_is_that_of_the_zone():
    assert month_bounds_ms(APRIL - 1) == (MARCH, APRIL)
    assert month_bounds_ms(APRIL - 1, utc_offset_ms=8 * HOUR_MS) == (APRIL - 8 * HOUR_MS, at(2026, 5, 1) - 8 * HOUR_MS)
    assert month_bounds_ms(APRIL, utc_offset_ms=-5 * HOUR_MS) == (MARCH + 5 * HOUR_MS, APRIL + 5 * HOUR_MS)
    assert month_bounds_ms(at(2025, 12, 31)) == (at(2025, 12, 1), at(2026, 1, 1))
    assert month_bounds_ms(at(2028, 2, 29)) == (at(2028, 2, 1), at(2028, 3, 1))


@pytest.mark.parametrize("born", [MARCH, MARCH + 1, APRIL - 1, APRIL, APRIL + 12345])
@pytest.mark.parametrize("age", [1, 1000, 26 * 24 * HOUR_MS])
@pytest.mark.parametrize("zone", [0, 8 * HOUR_MS, -5 * HOUR_MS])
def test_the_time_of_an_id_is_known_for_a_month(born: int, age: int, zone: int):
    read = parse_unique_id(a_factory(utc_offset_ms=zone).next(born))
    assert read.approximate_born_ms(born + age, zone) == born


def test_a_time_outside_the_calendar():
    with pytest.raises(IdError, match="not a valid date"):
        a_factory().next(1 << 62)
    with pytest.raises(IdError, match="not a valid date"):
        month_bounds_ms(-(1 << 62))


@pytest.mark.parametrize("length", [0, 3, 5, 15, 17])
def test_an_address_of_another_length(length: int):
    with pytest.raises(IdError, match=f"address of {length} bytes"):
        a_factory(address=bytes(length))


@pytest.mark.parametrize("text", ["", "0", "0A" * 15, "0A" * 17, "0A" * 27, "0A" * 29, "0G" * 16, " " * 32, "é" * 32, "0A 0" * 8])
def test_invalid_ids_are_refused(text: str):
    with pytest.raises(IdError):
        parse_unique_id(text)
    with pytest.raises(IdError):
        decode_offset_id(text)


@pytest.mark.parametrize(
    ("host", "text"),
    [
        (pack_host("127.0.0.1", 10_911), "7F00000100002A9F00000000000004D2"),
        (pack_host("fd00::1", 10_911), "FD00000000000000000000000000000100002A9F00000000000004D2"),
    ],
)
def test_offset_ids(host: bytes, text: str):
    assert encode_offset_id(host, 1234) == text
    assert decode_offset_id(text) == decode_offset_id(text.lower()) == OffsetId(host, 1234)


def test_the_ids_of_a_batch():
    host = pack_host("127.0.0.1", 10_911)
    text = encode_offset_ids(host, [1539, 1742, 1945])
    assert text == "7F00000100002A9F0000000000000603,7F00000100002A9F00000000000006CE,7F00000100002A9F0000000000000799"
    assert [decode_offset_id(part).physical_offset for part in text.split(ID_SEPARATOR)] == [1539, 1742, 1945]


def test_invalid_offsets_are_refused():
    host = pack_host("127.0.0.1", 10_911)
    for offset in (-1, 1 << 63):
        with pytest.raises(IdError, match="does not fit"):
            encode_offset_id(host, offset)
    with pytest.raises(IdError, match="physical offset -1"):
        decode_offset_id("7F00000100002A9F" + "F" * 16)
    with pytest.raises(IdError, match="host has 4 bytes"):
        encode_offset_id(V4, 0)
