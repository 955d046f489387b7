"""How long copies take is measured for one append at a time; the other stages are counted as they come."""

from __future__ import annotations

from collections.abc import Callable

from skyrocket.broker.metrics.stages import StageTimes
from skyrocket.client.admin.stage_times import STAGES
from skyrocket.metrics.histogram import HistogramState
from skyrocket.metrics.turn_times import PAUSE_SECONDS, STAGE_SECONDS


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def states(times: StageTimes) -> dict[str, HistogramState]:
    rows = {family: dict(rows) for family, rows in times.collect()}
    found = {stage: state for (stage,), state in rows[STAGE_SECONDS].items()}
    return {**found, "pause": rows[PAUSE_SECONDS][()]}  # type: ignore[dict-item]  # they are histograms


def test_copies_are_timed_from_the_append_until_they_have_it():
    clock = Clock()
    times = StageTimes(clock)
    times.watch_append(100)
    clock.now_s = 0.25
    times.watch_append(200)  # while the first is awaited
    times.record_copied(99)
    assert states(times)["replicate"].counts[-1] == 0
    clock.now_s = 0.5
    times.record_copied(150)
    times.record_copied(200)
    assert (states(times)["replicate"].counts[-1], states(times)["replicate"].total) == (1, 0.5)
    times.watch_append(300)
    clock.now_s = 2.5
    times.record_copied(300)
    assert (states(times)["replicate"].counts[-1], states(times)["replicate"].total) == (2, 2.5)


class Written:
    """The commit log, or the answers to sends."""

    on_written: Callable[[float], None] | None = None

    def write(self) -> None:
        if self.on_written is not None:
            self.on_written(0.125)


def test_one_append_and_its_answers_are_observed_for_each_turn_that_is():
    times, log, answers = StageTimes(), Written(), Written()
    times.watch_appends(log, answers)
    for _ in range(5):
        log.write()
        answers.write()
    assert states(times)["append"].counts[-1] == states(times)["answer"].counts[-1] == 1
    times.record_turn(0.5, None)
    for _ in range(5):
        log.write()
        answers.write()
    assert (states(times)["append"].counts[-1], states(times)["append"].total) == (2, 0.25)
    assert (states(times)["answer"].counts[-1], states(times)["answer"].total) == (2, 0.25)


def test_each_observation_is_in_its_stage():
    times = StageTimes()
    times.record_turn(0.5, 0.25)
    times.record_append(0.125)
    times.record_flush(2.0)
    times.record_parked(3_000)
    times.record_round(40)
    totals = {stage: state.total for stage, state in states(times).items()}
    assert totals == {"queue": 0.5, "answer": 0.25, "append": 0.125, "flush": 2.0, "park": 3.0, "replicate": 0.0, "pause": 0.04}


def test_runtime_rows_say_how_many_took_how_long():
    times = StageTimes()
    for seconds in (0.0002, 0.0002, 0.0004, 0.3, 60.0):
        times.record_append(seconds)
    rows = times.figures()
    assert rows["stageMillis_append"] == "0.25:2 0.5:1 500:1 inf:1"
    assert "stageMillis_flush" not in rows, "nothing was flushed"
    times.record_turn(0.001, 0.001)
    times.record_flush(0.001)
    times.record_parked(1)
    times.watch_append(1)
    times.record_copied(1)
    assert list(times.figures()) == [f"stageMillis_{stage}" for stage in STAGES], "the client knows the same stages"
