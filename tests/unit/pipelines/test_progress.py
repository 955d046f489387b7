"""Progress over time, and the rates that follow from it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from skyrocket.pipelines.progress import JobProgress, ProgressHistory, record_progress


def history_of(*looks: tuple[int, int], most: int = 100) -> ProgressHistory:
    made = ProgressHistory(most)
    for at_ms, done in looks:
        made.add(at_ms, done)
    return made


def test_a_rate_is_what_was_done_between_two_looks():
    assert history_of((1_000, 0), (2_000, 500), (2_500, 500), (4_500, 1_500)).rates() == [(2_000, 500), (2_500, 0), (4_500, 500)]


def test_one_look_has_no_rate_and_neither_have_two_at_the_same_moment():
    assert history_of((1_000, 7)).rates() == []
    assert history_of((1_000, 7), (1_000, 9)).rates() == []


def test_a_job_that_counts_from_0_again_goes_on():
    assert history_of((0, 0), (1_000, 100), (2_000, 0), (3_000, 40)).rates() == [(1_000, 100), (2_000, 0), (3_000, 40)]


@given(st.lists(st.integers(0, 1_000), min_size=1, max_size=300), st.integers(2, 20))
def test_looks_are_bounded_and_the_whole_is_kept(steps: list[int], most: int):
    history, done = ProgressHistory(most), 0
    history.add(0, 0)
    for number, step in enumerate(steps, 1):
        done += step
        history.add(number * 1_000, done)
        assert len(history.rates()) <= most
    times = [0.0, *(at_ms for at_ms, _ in history.rates())]
    total = sum(rate * (end - begin) / 1000 for (_, rate), begin, end in zip(history.rates(), times, times[1:], strict=False))
    assert round(total) == done


def test_reports_of_unknown_length_are_passed_on_and_not_recorded():
    history, seen = ProgressHistory(), []
    report = record_progress(history, seen.append)
    report(JobProgress("starting"))
    report(JobProgress("archiving", 5, 10))
    assert [one.what for one in seen] == ["starting", "archiving"]
    assert history.rates() == []
