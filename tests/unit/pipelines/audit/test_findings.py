"""The audit's decision: it finds exactly the planted gaps, repeats and swaps, and nothing in clean histories."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyrocket.client.helpers import LossDetector
from skyrocket.client.queues import Queue
from skyrocket.pipelines.audit.findings import NumberRun, StreamAudit, StreamKey, audit_stream
from skyrocket.pipelines.audit.runs import RunCollector

QUEUES = [Queue("orders", "broker-a", number) for number in range(3)]
HISTORIES = 1_000

Stamp = tuple[str, int]  # producer, number


def numbers_in(ranges: Sequence[tuple[int, int]]) -> Counter[int]:
    return Counter(number for first, last in ranges for number in range(first, last + 1))


@dataclass
class History:
    """What producers stored in one queue, in its order, and what was planted in it."""

    stored: list[Stamp] = field(default_factory=list)
    missing: dict[str, Counter[int]] = field(default_factory=dict)
    repeated: dict[str, Counter[int]] = field(default_factory=dict)
    late: dict[str, Counter[int]] = field(default_factory=dict)


def make_history(random_: random.Random, *, with_faults: bool) -> History:
    """Interleave up to four producers. Each fault touches numbers of its own: no two of them overlap."""
    history = History()
    streams: list[list[Stamp]] = []
    for index in range(random_.randint(1, 4)):
        producer = f"p{index}"
        count = random_.randint(1, 120)
        order = list(range(1, count + 1))
        history.missing[producer], history.repeated[producer], history.late[producer] = Counter(), Counter(), Counter()
        if with_faults:
            order = plant(random_, order, history, producer)
        streams.append([(producer, number) for number in order])
    while any(streams):
        stream = random_.choice([one for one in streams if one])
        history.stored.append(stream.pop(0))
    return history


def plant(random_: random.Random, order: list[int], history: History, producer: str) -> list[int]:
    """Plant at most one fault in each piece of six numbers. The last number stays: its loss would be invisible."""
    planted: list[int] = []
    for start in range(0, len(order), 6):
        piece = order[start : start + 6]
        fault = (
            random_.choice(["none", "gap", "repeat", "swap", "late"]) if len(piece) == 6 and piece[-1] != order[-1] else "none"
        )
        if fault == "gap":
            first = random_.randint(0, 4)
            lost = piece[first : random_.randint(first + 1, 5)]
            history.missing[producer].update(lost)
            piece = [number for number in piece if number not in lost]
        elif fault == "repeat":
            number = random_.choice(piece)
            history.repeated[producer][number] += 1
            piece.insert(random_.randint(piece.index(number) + 1, 6), number)
        elif fault == "swap":
            at = random_.randint(0, 4)
            history.late[producer][piece[at]] += 1
            piece[at], piece[at + 1] = piece[at + 1], piece[at]
        elif fault == "late":
            number = piece.pop(random_.randint(0, 4))
            history.late[producer][number] += 1
            piece.append(number)
        planted += piece
    return planted


def audit_in_parts(random_: random.Random, history: History, consumed_before: int) -> dict[str, StreamAudit]:
    """Audit as Spark does: parts of the queue independently, each in batches, their runs put together in any order."""
    cuts = sorted(random_.sample(range(len(history.stored) + 1), min(3, len(history.stored))))
    runs: dict[str, list[NumberRun]] = {}
    for start, stop in zip([0, *cuts], [*cuts, len(history.stored)], strict=True):
        collector = RunCollector(consumed_before)
        for first in range(start, stop, 17):
            batch = history.stored[first : min(first + 17, stop)]
            producers = pa.array([producer for producer, _ in batch])
            numbers = pa.array([str(number) for _, number in batch])
            collector.add_stamps(producers, numbers, np.arange(first, first + len(batch)))
        found = collector.runs()
        for row in range(len(found)):
            run = NumberRun(*(int(column[row]) for column in found[1:4]), bool(found.is_consumed[row]))
            runs.setdefault(collector.producers[found.producer[row]], []).append(run)
    for found_runs in runs.values():
        random_.shuffle(found_runs)
    return {producer: audit_stream(StreamKey(producer, QUEUES[0]), runs[producer], has_group=True) for producer in runs}


@pytest.mark.parametrize("block", range(10))
def test_planted_gaps_repeats_and_swaps_are_found_exactly(block: int):
    for seed in range(block * HISTORIES // 10, (block + 1) * HISTORIES // 10):
        random_ = random.Random(seed)
        history = make_history(random_, with_faults=True)
        consumed_before = random_.randint(0, len(history.stored))
        found = audit_in_parts(random_, history, consumed_before)
        assert set(found) == set(history.missing), seed
        for producer, stream in found.items():
            assert numbers_in(stream.gaps) == history.missing[producer], (seed, producer)
            assert numbers_in(stream.repeated) == history.repeated[producer], (seed, producer)
            assert numbers_in(stream.late) == history.late[producer], (seed, producer)
            assert stream.missing == history.missing[producer].total()
            assert stream.repeated_count == history.repeated[producer].total()
            assert stream.late_count == history.late[producer].total()
            assert stream.stored == sum(who == producer for who, _ in history.stored)
            assert stream.consumed == sum(who == producer for who, _ in history.stored[:consumed_before])


def test_nothing_is_found_in_clean_histories():
    for seed in range(HISTORIES):
        random_ = random.Random(seed)
        history = make_history(random_, with_faults=False)
        found = audit_in_parts(random_, history, 0)
        assert all(stream.is_clean for stream in found.values()), seed


@given(st.lists(st.integers(1, 12), min_size=1, max_size=40))
def test_any_order_of_numbers_is_judged_as_by_the_loss_detector(order: list[int]):
    """The detector of the client looks at one number after another; the audit at runs. Both say the same."""
    detector = LossDetector(begins_at=1)
    for number in order:
        detector.record_number("p", QUEUES[0], number)
    (expected,) = detector.report().streams
    found = audit_in_parts(random.Random(1), History([("p", number) for number in order]), 0)["p"]
    assert (list(found.gaps), found.repeated_count, found.late_count) == (list(expected.gaps), expected.repeated, expected.late)


def test_the_example_of_the_docstring():
    numbers = [(1, 3), (5, 6), (4, 4), (6, 6), (9, 9)]
    runs = [NumberRun(first, last, offset) for offset, (first, last) in enumerate(numbers)]
    found = audit_stream(StreamKey("p", QUEUES[0]), runs)
    assert (found.gaps, found.late, found.repeated) == ([(7, 8)], [(4, 4)], [(6, 6)])


def test_messages_missing_at_the_end_are_found_when_the_producer_says_what_it_sent():
    key = StreamKey("p", QUEUES[0])
    assert audit_stream(key, [NumberRun(1, 90, 0)], sent=100).gaps == [(91, 100)]
    assert audit_stream(key, [], sent=4).gaps == [(1, 4)]
    assert audit_stream(key, [NumberRun(1, 90, 0)], sent=90).is_clean


def test_counting_begins_with_the_lowest_number_where_older_messages_are_gone():
    key = StreamKey("p", QUEUES[0])
    assert audit_stream(key, [NumberRun(51, 60, 7)], begins_at=None).is_clean
    assert audit_stream(key, [NumberRun(51, 60, 7)], begins_at=1).gaps == [(1, 50)]
    assert audit_stream(key, [NumberRun(52, 60, 7), NumberRun(51, 51, 20)], begins_at=None).late == [(51, 51)]
