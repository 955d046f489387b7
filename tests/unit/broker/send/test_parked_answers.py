"""Answers that wait for the horizon: when they leave, when they expire, and how many may wait."""

from __future__ import annotations

from typing import Any, cast

from skyrocket.broker.send.parked_answers import ConfirmedAnswers, ParkedAnswer, ParkedAnswers
from skyrocket.net.connection import Connection
from skyrocket.protocol.command import Command
from skyrocket.store.horizon import Horizon


class Writes:
    """A connection that keeps what is sent."""

    def __init__(self) -> None:
        self.sent: list[Any] = []

    def send(self, data: bytes) -> None:
        self.sent.append(data)

    @property
    def connection(self) -> Connection:
        return cast("Connection", self)


def an_answer(position: int, since_ms: int = 0, answer: bytes = b"") -> ParkedAnswer:
    return ParkedAnswer(position, since_ms, Writes().connection, lambda: (), answer)


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


def test_an_answer_leaves_at_once_when_its_position_is_confirmed_or_the_table_is_full():
    horizon, peer = Horizon(0, ["flushed"]), Writes()
    answers = ConfirmedAnswers(horizon, lambda: 0, ParkedAnswers(answers_max=1))
    horizon.append(300)
    horizon.flush(100)
    for position, answer in ((100, b"confirmed"), (200, b"parked"), (300, b"one too many")):
        answers.send(position, peer.connection, Command(310), answer)
    assert peer.sent == [b"confirmed", b"one too many"]
    horizon.flush(200)
    answers.release()
    assert peer.sent == [b"confirmed", b"one too many", b"parked"]
