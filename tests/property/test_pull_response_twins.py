"""The compiled twin takes the same pull responses as its reference: those that hold exactly what their pulls asked for."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("pyarrow")

from skyrocket.compiled import TWINS
from skyrocket.protocol.command import RESPONSE_FLAG, Command, encode_command
from skyrocket.protocol.frame import Serialization
from skyrocket.protocol.message.record import Record, encode_record
from skyrocket.spark.fetch import fast_path
from skyrocket.spark.fetch.pull_window import PlannedPull
from tests.support.twins import needs_twins

assert fast_path
pytestmark = needs_twins

BROKER_ID = 0
bodies = st.binary(max_size=30)


@st.composite
def responses(draw: st.DrawFn) -> tuple[bytes, list[PlannedPull], list[bool]]:
    """Draw received bytes, the pulls in flight, and which responses are as expected."""
    data, pulls, fits = bytearray(), [], []
    offset = draw(st.integers(0, 2**40))
    for number in range(draw(st.integers(0, 5))):
        count = draw(st.integers(1, 4))
        pull = PlannedPull(number, offset, offset + count, count)
        given = count + draw(st.sampled_from([0, 0, 0, 0, 0, 1, -1]))
        records = b"".join(encode_record(Record("orders", draw(bodies), b"")) for _ in range(given))
        rest = draw(st.sampled_from([b"", b"", b"", b"", b"\0"]))
        code, said_number = draw(st.sampled_from([0, 0, 0, 0, 19])), number + draw(st.sampled_from([0, 0, 0, 0, 1]))
        said_broker, said_next = draw(st.sampled_from([0, 0, 0, 0, 1])), pull.upto + draw(st.sampled_from([0, 0, 0, 0, -1]))
        kind = draw(st.sampled_from([Serialization.JSON] * 4 + [Serialization.ROCKETMQ]))
        fields = {"nextBeginOffset": str(said_next), "suggestWhichBrokerId": str(said_broker), "maxOffset": "9", "minOffset": "0"}
        remark = draw(st.sampled_from(["FOUND", '"opaque":1,"code":0,', "größe", None]))
        data += encode_command(
            Command(
                code,
                opaque=said_number,
                flag=RESPONSE_FLAG,
                fields=fields,
                remark=remark,
                body=records + rest,
                serialization=kind,
            )
        )
        said = (given, rest, code, said_number, said_broker, said_next, kind)
        fits.append(said == (count, b"", 0, number, BROKER_ID, pull.upto, Serialization.JSON))
        pulls.append(pull)
        offset = pull.upto
    return bytes(data), pulls, fits


@given(came=responses(), cut=st.sampled_from([0, 0, 1, 9, 100]))
@settings(max_examples=500)
def test_twin_takes_the_same_responses(came: tuple[bytes, list[PlannedPull], list[bool]], cut: int):
    data, pulls, fits = came
    filled = max(0, len(data) - cut)
    reference, compiled = (each(memoryview(data), 0, filled, BROKER_ID, pulls) for each in TWINS["pull_responses.take_expected"])
    assert compiled == reference
    if not cut:
        assert reference[0] == (fits.index(False) if False in fits else len(fits))


@given(came=responses(), flipped=st.integers(0, 10**6))
@settings(max_examples=500)
def test_twin_takes_the_same_of_damaged_responses(came: tuple[bytes, list[PlannedPull], list[bool]], flipped: int):
    data, pulls, _ = came
    damaged = bytearray(data or b"\0")
    damaged[flipped // 8 % len(damaged)] ^= 1 << flipped % 8
    reference, compiled = (
        each(memoryview(damaged), 0, len(damaged), BROKER_ID, pulls) for each in TWINS["pull_responses.take_expected"]
    )
    assert compiled == reference


@pytest.mark.parametrize(("at", "filled"), [(-1, 10), (0, 1000), (5, 3)])
def test_twin_reads_nothing_outside_the_bytes(at: int, filled: int):
    assert TWINS["pull_responses.take_expected"].compiled(memoryview(bytes(10)), at, filled, 0, [PlannedPull(1, 0, 1, 1)]) == (
        0,
        at,
        b"",
    )
