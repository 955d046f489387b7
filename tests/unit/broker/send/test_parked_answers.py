"""Answers that wait for the horizon: when they leave, when they expire, how many may wait, and what happens to the others."""

from __future__ import annotations

from typing import Any, cast

import pytest

from skyrocket.broker.send.parked_answers import ConfirmedAnswers, ParkedAnswer, ParkedAnswers
from skyrocket.broker.send.responses import send_response
from skyrocket.net import outside_log
from skyrocket.net.connection import Connection
from skyrocket.net.router import RefusedError
from skyrocket.protocol.command import CommandDecoder
from skyrocket.protocol.headers import SendMessageResponseHeader
from skyrocket.protocol.responses import ResponseCode
from skyrocket.store.horizon import MAJORITY, REPLICAS, Horizon


class Writes:
    """A connection that keeps what is sent."""

    def __init__(self) -> None:
        self.sent: list[Any] = []

    def send(self, data: bytes) -> None:
        self.sent.append(data)

    send_now = send

    @property
    def connection(self) -> Connection:
        return cast("Connection", self)


def an_answer(position: int, since_ms: int = 0, answer: bytes = b"") -> ParkedAnswer:
    return ParkedAnswer(position, since_ms, Writes().connection, answer)


def a_success(opaque: int) -> bytes:
    return send_response(opaque, 3, 17, (b"0A000007", b"U1"), "DefaultRegion", True)


def test_answers_are_released_up_to_the_confirmed_position():
    parked = ParkedAnswers()
    for position in (100, 200, 300):
        assert parked.park(an_answer(position))
    assert [one.position for one in parked.release(200)] == [100, 200]
    assert len(parked) == 1
    assert parked.release(299) == []


def test_answers_expire_in_the_order_in_which_they_were_parked():
    parked = ParkedAnswers()
    for since_ms in (1_000, 2_000):
        parked.park(an_answer(100, since_ms))
    assert parked.expire(6_000, 5_000) == [], "exactly the timeout is not too long"
    assert [one.since_ms for one in parked.expire(6_001, 5_000)] == [1_000]
    assert len(parked) == 1


def test_a_full_table_takes_no_answer():
    parked = ParkedAnswers(answers_max=1)
    assert parked.park(an_answer(100))
    assert not parked.park(an_answer(200))
    assert len(parked) == 1


def test_answers_are_bounded_by_their_bytes_too():
    parked = ParkedAnswers(bytes_max=10)
    assert parked.park(an_answer(100, answer=b"123456"))
    assert not parked.park(an_answer(200, answer=b"12345"))
    assert parked.park(an_answer(200, answer=b"1234"))
    assert not parked.has_room
    parked.release(100)
    assert (parked.has_room, parked.size_bytes) == (True, 4)
    parked.expire(10_000, 5_000)
    assert (len(parked), parked.size_bytes) == (0, 0)


@pytest.mark.parametrize("is_last", [True, False])
def test_a_confirmed_answer_leaves_at_once_if_the_connection_gets_no_other_in_this_turn(*, is_last: bool):
    connection, horizon = Writes(), Horizon(100)
    now: list[bytes] = []
    connection.send_now = now.append  # type: ignore[method-assign]
    ConfirmedAnswers(horizon, lambda: 0).send(100, connection.connection, b"answer", is_last=is_last)
    assert (now, connection.sent) == (([b"answer"], []) if is_last else ([], [b"answer"]))


def test_an_answer_that_finds_no_place_to_wait_is_no_success():
    horizon, peer = Horizon(0, ["flushed"]), Writes()
    answers = ConfirmedAnswers(horizon, lambda: 0, ParkedAnswers(answers_max=1))
    horizon.append(300)
    horizon.flush(100)
    confirmed, waits, crowded = a_success(1), a_success(2), a_success(3) + a_success(4)
    for position, answer in ((100, confirmed), (200, waits), (300, crowded)):
        answers.send(position, peer.connection, answer)
    assert peer.sent[0] == confirmed
    left = CommandDecoder().feed(b"".join(peer.sent[1:]))
    assert [(one.opaque, one.code) for one in left] == [
        (3, ResponseCode.FLUSH_DISK_TIMEOUT),
        (4, ResponseCode.FLUSH_DISK_TIMEOUT),
    ]
    horizon.flush(200)
    answers.release()
    assert peer.sent[2:] == [waits]


def test_a_late_answer_still_says_where_the_message_is():
    horizon, peer = Horizon(0, ["flushed"]), Writes()
    answers = ConfirmedAnswers(horizon, lambda: 0)
    horizon.append(100)
    answers.send(100, peer.connection, a_success(1))
    answers.check_time(5_001)
    (late,) = CommandDecoder().feed(b"".join(peer.sent))
    header = late.header(SendMessageResponseHeader)
    assert late.code == ResponseCode.FLUSH_DISK_TIMEOUT
    assert (header.msg_id, header.queue_id, header.queue_offset, header.transaction_id) == ("0A000007", 3, 17, "U1")


@pytest.mark.parametrize(("slow_ms", "lines"), [(0, 0), (701, 0), (700, 1)])
def test_answers_that_wait_long_are_logged(slow_ms: int, lines: int, caplog: pytest.LogCaptureFixture):
    horizon, peer, now = Horizon(0, ["flushed"]), Writes(), [0]
    answers = ConfirmedAnswers(horizon, lambda: now[0], slow_ms=lambda: slow_ms)
    horizon.append(200)
    for position in (100, 150, 200):
        answers.send(position, peer.connection, a_success(1))
    now[0] = 700
    horizon.flush(150)
    answers.release()
    texts = [record.getMessage() for record in caplog.records]
    assert texts == ["Sends were confirmed after 700 ms: the disk, or the copies, take long."] * lines
    answers.check_time(5_001)
    assert len(peer.sent) == 3
    assert ("1 answers to sends left after 5001 ms without a confirmation." in caplog.text) is (slow_ms != 0)


def test_a_slow_disk_does_not_fill_the_log(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(outside_log, "LINES_MAX", 10)
    horizon, peer, now = Horizon(0, ["flushed"]), Writes(), [0]
    answers = ConfirmedAnswers(horizon, lambda: now[0], slow_ms=lambda: 1)
    for position in range(1, 101):
        horizon.append(position)
        answers.send(position, peer.connection, a_success(1))
        now[0] += 5
        horizon.flush(position)
        answers.release()
    assert len(peer.sent) == 100
    assert len(caplog.records) <= 10


def test_new_messages_are_refused_while_the_table_is_full():
    horizon = Horizon(0, ["flushed"])
    answers = ConfirmedAnswers(horizon, lambda: 0, ParkedAnswers(answers_max=1))
    answers.check_room()
    horizon.append(100)
    answers.send(100, Writes().connection, a_success(1))
    assert not answers.has_room
    with pytest.raises(RefusedError, match=r"1 answers .* wait for a flush") as refused:
        answers.check_room()
    assert refused.value.code == ResponseCode.SYSTEM_BUSY
    horizon.flush(100)
    answers.release()
    answers.check_room()


# --- slaves


def codes(peer: Writes) -> list[tuple[int, int]]:
    return [(one.opaque, one.code) for one in CommandDecoder().feed(b"".join(peer.sent))]


def test_an_answer_that_lacks_copies_at_slaves_says_so_after_their_time_out():
    horizon, peer = Horizon(0, ["flushed", REPLICAS]), Writes()
    answers = ConfirmedAnswers(horizon, lambda: 0, slave_timeout_ms=lambda: 3_000)
    horizon.append(300)
    for position in (100, 200, 300):
        answers.send(position, peer.connection, a_success(position))
    horizon.flush(200)
    horizon.reach(REPLICAS, 100)
    answers.release()
    assert codes(peer) == [(100, ResponseCode.SUCCESS)]
    answers.check_time(3_000)
    assert len(peer.sent) == 1
    answers.check_time(3_001)
    assert codes(peer)[1:] == [(200, ResponseCode.FLUSH_SLAVE_TIMEOUT), (300, ResponseCode.FLUSH_SLAVE_TIMEOUT)], (
        "the second one is on disk, the third one is not"
    )


def test_an_answer_that_only_lacks_the_flush_waits_longer_than_those_behind_it_that_lack_copies():
    horizon, peer = Horizon(0, ["flushed", REPLICAS]), Writes()
    parked = ParkedAnswers()
    answers = ConfirmedAnswers(horizon, lambda: 0, parked, slave_timeout_ms=lambda: 3_000)
    horizon.append(300)
    for position in (100, 200, 300):
        answers.send(position, peer.connection, a_success(position))
    horizon.reach(REPLICAS, 200)
    answers.check_time(3_001)
    assert codes(peer) == [(300, ResponseCode.FLUSH_SLAVE_TIMEOUT)]
    assert (len(parked), parked.size_bytes) == (2, len(a_success(100) + a_success(200)))
    horizon.flush(100)
    answers.release()
    answers.check_time(5_001)
    assert codes(peer)[1:] == [(100, ResponseCode.SUCCESS), (200, ResponseCode.FLUSH_DISK_TIMEOUT)]


def test_too_many_answers_that_wait_for_slaves_refuse_new_messages():
    horizon, peer = Horizon(0, [REPLICAS]), Writes()
    answers = ConfirmedAnswers(horizon, lambda: 0, ParkedAnswers(answers_max=1))
    horizon.append(200)
    horizon.flush(200)
    for position in (100, 200):
        answers.send(position, peer.connection, a_success(position))
    assert codes(peer) == [(200, ResponseCode.FLUSH_SLAVE_TIMEOUT)]
    with pytest.raises(RefusedError, match=r"The slaves are busy: 1 answers .* wait for slaves"):
        answers.check_room()


def codes_of(written: list[bytes]) -> list[int]:
    return [command.code for data in written for command in CommandDecoder().feed(data)]


def test_in_a_group_an_answer_waits_for_the_majority_and_then_says_that_there_is_none():
    horizon, writes = Horizon(0, (MAJORITY,)), Writes()
    answers = ConfirmedAnswers(horizon, lambda: 0)
    horizon.append(200)
    for position in (100, 200):
        answers.send(position, writes.connection, a_success(position))
    horizon.reach(MAJORITY, 100)
    answers.release()
    assert codes_of(writes.sent) == [ResponseCode.SUCCESS]
    answers.check_time(2_500)
    assert len(writes.sent) == 1
    answers.check_time(2_501)
    assert codes_of(writes.sent) == [ResponseCode.SUCCESS, ResponseCode.SYSTEM_ERROR]


def test_a_deposed_leader_answers_everything_that_waits_with_an_error():
    horizon, writes = Horizon(0, (MAJORITY,)), Writes()
    answers = ConfirmedAnswers(horizon, lambda: 0)
    horizon.append(200)
    for position in (100, 200):
        answers.send(position, writes.connection, a_success(position))
    answers.fail_all("node n0 does not lead any more.")
    assert codes_of(writes.sent) == [ResponseCode.SYSTEM_ERROR] * 2
    horizon.reach(MAJORITY, 200)
    answers.release()
    assert len(writes.sent) == 2
