"""Runs of consecutive numbers: short for clean queues, joined across batches, bounded."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from skyrocket.pipelines.audit import runs
from skyrocket.pipelines.audit.runs import RunCollector, TooManyRunsError


def collect(*batches: list[tuple[str | None, str | None]], consumed_before: int = 0) -> RunCollector:
    collector, offset = RunCollector(consumed_before), 0
    for batch in batches:
        producers, numbers = pa.array([one for one, _ in batch], pa.string()), pa.array([one for _, one in batch], pa.string())
        collector.add_stamps(producers, numbers, np.arange(offset, offset + len(batch)))
        offset += len(batch)
    return collector


def as_rows(collector: RunCollector) -> list[tuple[str, int, int, int, int, bool]]:
    found = collector.runs()
    return [(collector.producers[row[0]], *map(int, row[1:5]), bool(row[5])) for row in zip(*found, strict=True)]


def test_the_example_of_the_docstring():
    stamps = [("p1", "1"), ("p2", "1"), ("p1", "2"), ("p1", "3"), ("p2", "2"), ("p1", "5"), ("p1", "6"), ("p2", "2")]
    expected = [
        ("p1", 1, 3, 0, 3, False),
        ("p1", 5, 6, 5, 6, False),
        ("p2", 1, 2, 1, 4, False),
        ("p2", 2, 2, 7, 7, False),
    ]
    assert as_rows(collect(stamps)) == expected
    assert as_rows(collect(stamps[:3], stamps[3:6], stamps[6:])) == expected


def test_a_clean_queue_of_any_length_is_one_run_for_each_producer():
    collector = RunCollector()
    for start in range(0, 1_000_000, 50_000):
        numbers = np.arange(start, start + 50_000)
        collector.add_numbers(numbers % 2, numbers // 2 + 1, numbers)
    assert len(collector.runs()) == 2


def test_a_run_ends_at_the_committed_offset():
    assert as_rows(collect([("p", str(number)) for number in range(1, 11)], consumed_before=4)) == [
        ("p", 1, 4, 0, 3, True),
        ("p", 5, 10, 4, 9, False),
    ]


@pytest.mark.parametrize("number", [None, "", "x", "-1", "٣", "1" * 19, " 1"])
def test_messages_without_a_valid_stamp_are_counted(number: str | None):
    collector = collect([("p", "1"), ("p", number), (None, "2")])
    assert collector.unstamped == 2
    assert as_rows(collector) == [("p", 1, 1, 0, 0, False)]


def test_stamps_are_taken_from_properties():
    properties = pa.array(
        [[("SR_PID", "p"), ("SR_SEQ", "1"), ("x", "y")], [], [("SR_SEQ", "2"), ("SR_PID", "p")]],
        pa.map_(pa.string(), pa.string()),
    )
    collector = RunCollector()
    collector.add(properties, np.arange(3))
    assert as_rows(collector) == [("p", 1, 2, 0, 2, False)]
    assert collector.unstamped == 1


def test_numbers_without_any_order_are_refused_beyond_a_bound(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(runs, "RUNS_KEPT", 100)
    monkeypatch.setattr(runs, "RUNS_MAX", 200)
    collector = RunCollector()

    def add_disorder() -> None:
        for start in range(0, 10_000, 10):
            numbers = np.arange(start, start + 10)
            collector.add_numbers(numbers * 0, numbers * 3 % 7_919, numbers)

    with pytest.raises(TooManyRunsError, match="Audit a shorter time"):
        add_disorder()


def test_no_message_gives_no_run():
    assert len(RunCollector().runs()) == 0
