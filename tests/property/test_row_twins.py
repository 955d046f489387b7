"""The compiled twins of the scan into Arrow return what their references return, and look at nothing outside the bytes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("pyarrow")

import numpy as np

import skyrocket.store.arrow_queue  # and with it all that has a twin here
from skyrocket.compiled import TWINS
from skyrocket.protocol.record import FIXED_BYTES_MIN, MAGIC, MAGIC_V2
from tests.support.twins import needs_twins

assert skyrocket.store.arrow_queue
pytestmark = needs_twins


def assert_same(name: str, *arguments: Any) -> Any:
    twins = TWINS[name]
    reference = twins.reference(*arguments)
    assert twins.compiled(*arguments) == reference
    return reference


def a_record(size: int, magic: int) -> bytes:
    return (size.to_bytes(4, signed=True) + magic.to_bytes(4, signed=True)).ljust(max(size, 8), b".")


sizes = st.integers(FIXED_BYTES_MIN - 2, FIXED_BYTES_MIN + 40) | st.sampled_from([0, -1, 2**31 - 1 - 10**6])
magics = st.sampled_from([MAGIC, MAGIC, MAGIC, MAGIC_V2, 0, MAGIC + 1])
logs = st.lists(st.builds(lambda size, magic: a_record(min(size, 200), magic), sizes, magics), max_size=8).map(b"".join)


@given(log=logs, cut=st.integers(0, 150), at=st.integers(0, 200), stop=st.integers(0, 1500), count=st.integers(0, 9))
@settings(max_examples=400)
def test_chains_are_the_same(log: bytes, cut: int, at: int, stop: int, count: int):
    assert_same("rows.chain", memoryview(log[: len(log) - cut]), at, stop, count)
    assert_same("rows.chain", memoryview(log[: len(log) - cut]), 0, stop, count)


def bounds(size: int, cuts: list[int]) -> tuple[Any, Any]:
    places = sorted(cut % (size + 1) for cut in cuts)
    return np.array(places[:-1], np.int64), np.array(places[1:], np.int64)


@given(data=st.binary(max_size=400), cuts=st.lists(st.integers(0, 500), min_size=1, max_size=8))
def test_sums_are_the_same(data: bytes, cuts: list[int]):
    assert_same("rows.sums", memoryview(data), *bounds(len(data), cuts))


words = st.sampled_from([b"KEYS", b"TAGS", b"UNIQ_KEY", b"TAG", b"", b"x", "größe".encode(), b"\xff", b"\1", b"\2"])
packed_properties = st.lists(words | st.sampled_from([b"\1", b"\2"]), max_size=30).map(b"".join)


@given(data=packed_properties, cuts=st.lists(st.integers(0, 200), min_size=1, max_size=6))
@settings(max_examples=400)
def test_properties_are_found_in_the_same_places(data: bytes, cuts: list[int]):
    names = (b"UNIQ_KEY", b"TAGS", b"KEYS")
    assert_same("rows.property_ranges", np.frombuffer(data, np.uint8), *bounds(len(data), cuts), names)


@pytest.mark.parametrize("places", [(-1, 3), (3, 1), (0, 11)])
@pytest.mark.parametrize(("name", "more"), [("rows.sums", ()), ("rows.property_ranges", ((b"KEYS",),))])
def test_a_range_outside_the_bytes_is_refused(name: str, more: tuple[Any, ...], places: tuple[int, int]):
    first, last = (np.array([place], np.int64) for place in places)
    with pytest.raises(ValueError, match="a range lies outside the bytes"):
        TWINS[name].compiled(memoryview(bytes(10)), first, last, *more)
