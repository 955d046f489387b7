"""What is an overload: long rounds one behind another, for a second of the broker's own work or ten seconds of any delay."""

from __future__ import annotations

import pytest

from skyrocket.broker.load.overload import DELAY_LASTS_MS, WORK_LASTS_MS, Overload
from skyrocket.net.lateness import WATCH_MS

LIMIT_MS = 200


class Broker:
    """Rounds of an event loop, one behind another, with an injected clock."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000
        self.overload = Overload()

    def round(self, late_ms: int, worked_ms: int) -> None:
        self.now_ms += WATCH_MS + late_ms
        self.overload.record_round(late_ms, worked_ms, LIMIT_MS, self.now_ms)

    def rounds(self, span_ms: int, late_ms: int, worked_ms: int) -> None:
        end_ms = self.now_ms + span_ms
        while self.now_ms < end_ms:
            self.round(late_ms, worked_ms)

    def judged_ms(self, late_ms: int, worked_ms: int) -> int:
        """What is judged of a request in the next round, when that is so late."""
        now_ms = self.now_ms + WATCH_MS + late_ms
        judged_ms = self.overload.judged_ms(late_ms, worked_ms, now_ms)
        assert self.overload.lasts(late_ms, now_ms) == bool(judged_ms)
        return judged_ms


@pytest.fixture
def broker() -> Broker:
    return Broker()


def test_first_round_is_no_overload_however_long(broker: Broker):
    assert broker.judged_ms(60_000, 60_000) == 0


def test_one_long_round_before_is_no_overload(broker: Broker):
    broker.round(60_000, 60_000)
    assert broker.judged_ms(WORK_LASTS_MS - WATCH_MS - 1, WORK_LASTS_MS - WATCH_MS - 1) == 0


def test_second_of_long_rounds_is_an_overload(broker: Broker):
    broker.rounds(WORK_LASTS_MS + 500, LIMIT_MS, LIMIT_MS)
    assert broker.judged_ms(250, 249) == 249


def test_rounds_below_the_limit_are_never_an_overload(broker: Broker):
    broker.rounds(60_000, LIMIT_MS - 1, LIMIT_MS - 1)
    assert broker.judged_ms(250, 250) == 0


def test_one_round_below_the_limit_ends_an_overload(broker: Broker):
    broker.rounds(30_000, 500, 500)
    broker.round(LIMIT_MS - 1, LIMIT_MS - 1)
    assert broker.judged_ms(500, 500) == 0


def test_loop_that_had_nothing_to_do_ends_an_overload(broker: Broker):
    broker.rounds(30_000, 500, 500)
    broker.now_ms += WATCH_MS
    assert broker.judged_ms(500, 500) == 500, "as long as the timer takes, nothing is known"
    broker.now_ms += 1
    assert broker.judged_ms(500, 500) == 0
    broker.round(500, 500)
    assert broker.judged_ms(500, 500) == 0, "the streak begins again"


def test_pauses_of_the_machine_are_no_overload(broker: Broker):
    """SIGSTOP, steal, other processes: the rounds are late, and the broker hardly worked in them."""
    for _ in range(3):
        broker.rounds(DELAY_LASTS_MS - 2_000, 900, 30)
        assert broker.judged_ms(900, 30) == 0
        broker.round(0, 0)


def test_delay_of_any_cause_that_lasts_ten_seconds_is_an_overload(broker: Broker):
    """A disk that blocks each write: the broker does not work, and the backlog does not drain."""
    broker.rounds(DELAY_LASTS_MS + 1_500, 900, 30)
    assert broker.judged_ms(700, 20) == 700


def test_pause_within_an_overload_does_not_count_as_work(broker: Broker):
    broker.rounds(5_000, 500, 500)
    assert broker.judged_ms(3_000, 150) == 150
