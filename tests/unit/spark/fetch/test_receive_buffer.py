"""The receive buffer finds the responses in the bytes of a socket."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyrocket.protocol.command import RESPONSE_FLAG, Command, encode_command
from skyrocket.protocol.errors import FrameError
from skyrocket.protocol.frame import Serialization
from skyrocket.protocol.message.record import Record, encode_record
from skyrocket.spark.fetch.pull_window import PlannedPull
from skyrocket.spark.fetch.receive_buffer import FIRST_BYTES, SPARE_BYTES_MAX, PullResponse, ReceiveBuffer


def frame(number: int, body: bytes, serialization: Serialization = Serialization.JSON) -> bytes:
    fields = {"nextBeginOffset": str(number)}
    return encode_command(Command(0, opaque=number, flag=RESPONSE_FLAG, fields=fields, body=body, serialization=serialization))


def in_pieces(data: bytes, sizes: list[int]) -> Callable[[memoryview], int]:
    rest, turn = memoryview(data), iter(sizes)

    def receive_into(room: memoryview) -> int:
        nonlocal rest
        count = min(len(room), len(rest), next(turn, len(rest)))
        room[:count] = rest[:count]
        rest = rest[count:]
        return count

    return receive_into


def receive(buffer: ReceiveBuffer, source: Callable[[memoryview], int]) -> list[PullResponse]:
    buffer.receive(source)
    return buffer.responses()


def body_of(buffer: ReceiveBuffer, response: PullResponse) -> bytes:
    return bytes(buffer.view[response.start : response.end])


@given(
    st.lists(st.tuples(st.binary(max_size=2_000), st.sampled_from(list(Serialization))), min_size=1, max_size=8),
    st.lists(st.integers(1, 3_000), max_size=30),
)
def test_responses_do_not_depend_on_how_bytes_arrive(bodies: list[tuple[bytes, Serialization]], sizes: list[int]):
    buffer = ReceiveBuffer()
    source = in_pieces(b"".join(frame(number, *body) for number, body in enumerate(bodies)), sizes)
    found = []
    while len(found) < len(bodies):
        found += [(response.number, body_of(buffer, response)) for response in receive(buffer, source)]
    assert found == [(number, body) for number, (body, _) in enumerate(bodies)]


def test_buffer_grows_with_its_content():
    buffer = ReceiveBuffer()
    bodies = [bytes([number]) * 1_000_000 for number in range(12)]
    assert sum(map(len, bodies)) > FIRST_BYTES
    source = in_pieces(b"".join(frame(number, body) for number, body in enumerate(bodies)), [])
    responses: list[PullResponse] = []
    while len(responses) < 12:
        responses += receive(buffer, source)
    assert [body_of(buffer, response) for response in responses] == bodies


def test_memory_is_reused_unless_it_is_too_large():
    first = ReceiveBuffer()
    memory = first._memory
    first.close()
    assert ReceiveBuffer()._memory is memory
    large = ReceiveBuffer()
    large._use(bytearray(SPARE_BYTES_MAX + 1))
    large.close()
    assert len(ReceiveBuffer()._memory) <= SPARE_BYTES_MAX


def test_early_responses_and_incomplete_bytes_are_kept():
    buffer = ReceiveBuffer()
    frames = [frame(number, bytes([number]) * 100) for number in range(4)]
    data = b"".join(frames)
    source = in_pieces(data, [len(data) - 50])
    responses = receive(buffer, source)
    assert len(responses) == 3
    early = {2: responses[2], 0: responses[0]}
    buffer.discard_parsed(early)
    assert {number: body_of(buffer, response) for number, response in early.items()} == {0: b"\0" * 100, 2: b"\2" * 100}
    (last,) = receive(buffer, source)
    assert body_of(buffer, last) == b"\3" * 100
    assert body_of(buffer, early[2]) == b"\2" * 100


def test_closed_connection_is_an_error():
    with pytest.raises(ConnectionError):
        ReceiveBuffer().receive(lambda _: 0)


def test_expected_responses_are_taken_up_to_the_first_that_differs():
    buffer = ReceiveBuffer()
    record = encode_record(Record("orders", b"body", b"", born_host=bytes(8), store_host=bytes(8)))
    expected = [PlannedPull(1, 10, 12, 2), PlannedPull(2, 12, 14, 2), PlannedPull(3, 14, 16, 2), PlannedPull(4, 16, 18, 2)]
    counts = [2, 2, 1, 2]
    data = b"".join(response_frame(pull, record * count) for pull, count in zip(expected, counts, strict=True))
    buffer.receive(in_pieces(data, []))
    taken, packed = buffer.take_expected(0, expected)
    assert taken == 2
    starts = np.frombuffer(packed, np.int64).tolist()
    assert [bytes(buffer.view[start : start + len(record)]) for start in starts] == [record] * 4
    assert [(each.number, each.next_offset, body_of(buffer, each)) for each in buffer.responses()] == [
        (3, 16, record),
        (4, 18, record * 2),
    ]


def response_frame(pull: PlannedPull, body: bytes) -> bytes:
    fields = {"nextBeginOffset": str(pull.upto), "suggestWhichBrokerId": "0", "minOffset": "0", "maxOffset": "100"}
    return encode_command(Command(0, opaque=pull.number, flag=RESPONSE_FLAG, fields=fields, remark="FOUND", body=body))


@pytest.mark.parametrize("noise", [b"HTTP/1.1 400 Bad Request\r\n", b"\x7f" * 8, bytes(8)])
def test_bytes_that_are_no_response_are_refused(noise: bytes):
    with pytest.raises(FrameError):
        receive(ReceiveBuffer(), in_pieces(noise, []))
