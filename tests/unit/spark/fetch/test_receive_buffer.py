"""What a socket gives, cut into answers where it lies."""

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
from skyrocket.spark.fetch.pull_window import Ask
from skyrocket.spark.fetch.receive_buffer import FIRST_BYTES, SPARE_BYTES_MAX, Answer, Intake


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


def received(intake: Intake, source: Callable[[memoryview], int]) -> list[Answer]:
    intake.receive(source)
    return intake.answers()


def body_of(intake: Intake, answer: Answer) -> bytes:
    return bytes(intake.view[answer.start : answer.end])


@given(
    st.lists(st.tuples(st.binary(max_size=2_000), st.sampled_from(list(Serialization))), min_size=1, max_size=8),
    st.lists(st.integers(1, 3_000), max_size=30),
)
def test_answers_are_the_same_in_pieces_of_any_size(bodies: list[tuple[bytes, Serialization]], sizes: list[int]):
    intake = Intake()
    source = in_pieces(b"".join(frame(number, *body) for number, body in enumerate(bodies)), sizes)
    found = []
    while len(found) < len(bodies):
        found += [(answer.number, body_of(intake, answer)) for answer in received(intake, source)]
    assert found == [(number, body) for number, (body, _) in enumerate(bodies)]


def test_the_buffer_grows_with_what_is_kept_in_it():
    intake = Intake()
    bodies = [bytes([number]) * 1_000_000 for number in range(12)]
    assert sum(map(len, bodies)) > FIRST_BYTES
    source = in_pieces(b"".join(frame(number, body) for number, body in enumerate(bodies)), [])
    answers: list[Answer] = []
    while len(answers) < 12:
        answers += received(intake, source)
    assert [body_of(intake, answer) for answer in answers] == bodies


def test_memory_is_used_again_unless_it_is_too_much():
    first = Intake()
    memory = first._memory
    first.close()
    assert Intake()._memory is memory
    large = Intake()
    large._hold(bytearray(SPARE_BYTES_MAX + 1))
    large.close()
    assert len(Intake()._memory) <= SPARE_BYTES_MAX


def test_answers_that_came_early_are_kept_and_what_is_not_complete_too():
    intake = Intake()
    frames = [frame(number, bytes([number]) * 100) for number in range(4)]
    data = b"".join(frames)
    source = in_pieces(data, [len(data) - 50])
    answers = received(intake, source)
    assert len(answers) == 3
    early = {2: answers[2], 0: answers[0]}
    intake.forget(early)
    assert {number: body_of(intake, answer) for number, answer in early.items()} == {0: b"\0" * 100, 2: b"\2" * 100}
    (last,) = received(intake, source)
    assert body_of(intake, last) == b"\3" * 100
    assert body_of(intake, early[2]) == b"\2" * 100


def test_a_connection_that_was_closed_is_an_error():
    with pytest.raises(ConnectionError):
        Intake().receive(lambda _: 0)


def test_answers_as_expected_are_taken_and_the_first_that_is_not_is_left():
    intake = Intake()
    record = encode_record(Record("orders", b"body", b"", born_host=bytes(8), store_host=bytes(8)))
    expected = [Ask(1, 10, 12, 2), Ask(2, 12, 14, 2), Ask(3, 14, 16, 2), Ask(4, 16, 18, 2)]
    counts = [2, 2, 1, 2]
    data = b"".join(answer(ask, record * count) for ask, count in zip(expected, counts, strict=True))
    intake.receive(in_pieces(data, []))
    taken, packed = intake.ordinary(0, expected)
    assert taken == 2
    starts = np.frombuffer(packed, np.int64).tolist()
    assert [bytes(intake.view[start : start + len(record)]) for start in starts] == [record] * 4
    assert [(each.number, each.next_offset, body_of(intake, each)) for each in intake.answers()] == [
        (3, 16, record),
        (4, 18, record * 2),
    ]


def answer(ask: Ask, body: bytes) -> bytes:
    fields = {"nextBeginOffset": str(ask.upto), "suggestWhichBrokerId": "0", "minOffset": "0", "maxOffset": "100"}
    return encode_command(Command(0, opaque=ask.number, flag=RESPONSE_FLAG, fields=fields, remark="FOUND", body=body))


@pytest.mark.parametrize("noise", [b"HTTP/1.1 400 Bad Request\r\n", b"\x7f" * 8, bytes(8)])
def test_what_is_no_answer_is_refused(noise: bytes):
    with pytest.raises(FrameError):
        received(Intake(), in_pieces(noise, []))
