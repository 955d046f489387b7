"""Twins of the scan into Arrow return the same as their references, and read nothing outside the bytes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("pyarrow")

import numpy as np

import skyrocket.columnar.queue  # and with it most of what has a twin here
from skyrocket.columnar.rows import ChecksumScope
from skyrocket.compiled import TWINS
from skyrocket.protocol.message.record import FIXED_BYTES_MIN, MAGIC, MAGIC_V2, Record, encode_record, magic_for
from skyrocket.protocol.sysflag import BORN_HOST_V6, STORE_HOST_V6
from tests.support.twins import needs_twins

assert skyrocket.columnar.queue
pytestmark = needs_twins


def assert_same(name: str, *arguments: Any) -> Any:
    twins = TWINS[name]
    reference = twins.reference(*arguments)
    assert twins.compiled(*arguments) == reference
    return reference


def a_record(size: int, magic: int) -> bytes:
    return (size.to_bytes(4, signed=True) + magic.to_bytes(4, signed=True)).ljust(max(size, 8), b".")


words = st.sampled_from([b"KEYS", b"TAGS", b"UNIQ_KEY", b"TAG", b"", b"x", "größe".encode(), b"\xff", b"\1", b"\2"])
packed_properties = st.lists(words | st.sampled_from([b"\1", b"\2"]), max_size=30).map(b"".join)

sizes = st.integers(FIXED_BYTES_MIN - 2, FIXED_BYTES_MIN + 40) | st.sampled_from([0, -1, 2**31 - 1 - 10**6])
magics = st.sampled_from([MAGIC, MAGIC, MAGIC, MAGIC_V2, 0, MAGIC + 1])
logs = st.lists(st.builds(lambda size, magic: a_record(min(size, 200), magic), sizes, magics), max_size=8).map(b"".join)


@given(log=logs, cut=st.integers(0, 150), at=st.integers(0, 200), stop=st.integers(0, 1500), count=st.integers(0, 9))
@settings(max_examples=400)
def test_record_starts_are_equal(log: bytes, cut: int, at: int, stop: int, count: int):
    assert_same("columnar.find_record_starts", memoryview(log[: len(log) - cut]), at, stop, count)
    assert_same("columnar.find_record_starts", memoryview(log[: len(log) - cut]), 0, stop, count)


hosts = st.sampled_from([bytes(8), b"\x7f\0\0\1\0\0\x1f\x90", bytes(15) + b"\1\0\0\x1f\x90"])


@st.composite
def some_records(draw: st.DrawFn) -> tuple[bytes, list[int]]:
    """Sound records, and some with a flipped bit; other bytes lie in between."""
    data, starts = bytearray(), []
    for _ in range(draw(st.integers(0, 5))):
        data += draw(st.binary(max_size=5))
        starts.append(len(data))
        born, store = draw(hosts), draw(hosts)
        flags = (BORN_HOST_V6 if len(born) > 8 else 0) | (STORE_HOST_V6 if len(store) > 8 else 0)
        topic = draw(st.sampled_from(["t", "größe", "o" * 127, "o" * 200]))
        record = bytearray(
            encode_record(
                Record(
                    topic,
                    draw(st.binary(max_size=20)),
                    draw(packed_properties),
                    magic=magic_for(topic),
                    queue_id=3,
                    queue_offset=draw(st.integers(0, 2**40)),
                    physical_offset=len(data) + draw(st.sampled_from([0, 0, 0, 1])),
                    sys_flag=flags,
                    born_host=born,
                    store_host=store,
                )
            )
        )
        if draw(st.integers(0, 3)) == 0:
            record[draw(st.integers(0, len(record) - 1))] ^= 1 << draw(st.integers(0, 7))
        data += record
    return bytes(data) + bytes(draw(st.sampled_from([0, 0, 91, 200]))), starts


@given(
    found=some_records(),
    segment_start=st.none() | st.just(0) | st.just(1),
    cut=st.sampled_from([0, 0, 0, 1, 30]),
    summed=st.sampled_from(list(ChecksumScope)),
)
@settings(max_examples=600)
def test_fields_of_records_are_located_equally(
    found: tuple[bytes, list[int]], segment_start: int | None, cut: int, summed: ChecksumScope
):
    data, starts = found
    data = data[: len(data) - cut]
    starts = [start for start in starts if start + FIXED_BYTES_MIN <= len(data)]
    assert_same("columnar.locate_fields", np.frombuffer(data, np.uint8), segment_start, np.array(starts, np.int64), summed)


@pytest.mark.parametrize("start", [-1, 110, 2**40])
def test_a_record_outside_the_bytes_is_refused(start: int):
    for each in TWINS["columnar.locate_fields"]:
        with pytest.raises(ValueError, match="a record lies outside the bytes"):
            each(np.zeros(200, np.uint8), None, np.array([0, start], np.int64), 0)


def bounds(size: int, cuts: list[int]) -> tuple[Any, Any]:
    places = sorted(cut % (size + 1) for cut in cuts)
    return np.array(places[:-1], np.int64), np.array(places[1:], np.int64)


@given(data=st.binary(max_size=400), cuts=st.lists(st.integers(0, 500), min_size=1, max_size=8))
def test_crcs_are_equal(data: bytes, cuts: list[int]):
    assert_same("columnar.compute_crcs", memoryview(data), *bounds(len(data), cuts))


@given(
    data=st.binary(max_size=400), cuts=st.lists(st.integers(0, 500), min_size=1, max_size=8), missing=st.sets(st.integers(0, 7))
)
def test_gathered_ranges_are_equal(data: bytes, cuts: list[int], missing: set[int]):
    first, last = bounds(len(data), cuts)
    for row in missing:
        first[row : row + 1] = -1
    assert_same("columnar.gather", np.frombuffer(data, np.uint8), first, last)
    assert_same("columnar.gather", np.frombuffer(data, np.uint8), first[::-1].copy(), last[::-1].copy())


@given(data=st.text("ab", max_size=300).map(str.encode), cuts=st.lists(st.integers(0, 400), min_size=1, max_size=200))
def test_distinct_ranges_are_equal(data: bytes, cuts: list[int]):
    assert_same("columnar.find_distinct", np.frombuffer(data, np.uint8), *bounds(len(data), cuts))


@given(data=packed_properties, cuts=st.lists(st.integers(0, 200), min_size=1, max_size=6))
@settings(max_examples=400)
def test_ranges_of_properties_are_equal(data: bytes, cuts: list[int]):
    names = (b"UNIQ_KEY", b"TAGS", b"KEYS")
    assert_same("columnar.find_property_ranges", np.frombuffer(data, np.uint8), *bounds(len(data), cuts), names)


@given(data=packed_properties, cuts=st.lists(st.integers(0, 200), min_size=1, max_size=6))
@settings(max_examples=400)
def test_pieces_of_properties_are_equal(data: bytes, cuts: list[int]):
    assert_same("columnar.find_property_pieces", np.frombuffer(data, np.uint8), *bounds(len(data), cuts))


@pytest.mark.parametrize("count", [64, 65])
def test_a_row_of_very_many_properties_is_left_to_the_reference(count: int):
    data = np.frombuffer(b"".join(b"n%d\1v\2" % number for number in range(count)) * 2, np.uint8)
    found = assert_same("columnar.find_property_pieces", data, np.array([0], np.int64), np.array([len(data)], np.int64))
    assert (found is None) == (count > 64)


@pytest.mark.parametrize("places", [(-1, 3), (3, 1), (0, 11)])
@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("columnar.compute_crcs", ()),
        ("columnar.find_property_ranges", ((b"KEYS",),)),
        ("columnar.find_distinct", ()),
        ("columnar.find_property_pieces", ()),
    ],
)
def test_a_range_outside_the_bytes_is_refused(name: str, more: tuple[Any, ...], places: tuple[int, int]):
    first, last = (np.array([place], np.int64) for place in places)
    with pytest.raises(ValueError, match="a range lies outside the bytes"):
        TWINS[name].compiled(memoryview(bytes(10)), first, last, *more)
