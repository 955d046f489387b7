"""A following audit between looks: what it tells, what a failed look changes, and what its state file keeps."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path

import pytest

from skyrocket.client.queues import Queue
from skyrocket.pipelines.audit.findings import NumberRun, StreamKey, audit_stream
from skyrocket.pipelines.audit.following import FollowingAudit, Runs
from skyrocket.pipelines.errors import ArgumentError

A, B = Queue("orders", "broker-a", 0), Queue("orders", "broker-b", 0)
FIRSTS = {A: 0, B: 0}


class Topic:
    """Queues whose messages are numbers of producer p1."""

    def __init__(self) -> None:
        self.numbers: dict[Queue, list[int]] = {A: [], B: []}
        self.reads: list[dict[Queue, tuple[int, int]]] = []
        self.error: Exception | None = None

    def stops(self) -> dict[Queue, int]:
        return {queue: len(numbers) for queue, numbers in self.numbers.items()}

    def read(self, starts: Mapping[Queue, int], stops: Mapping[Queue, int]) -> Runs:
        if self.error is not None:
            raise self.error
        self.reads.append({queue: (starts[queue], stop) for queue, stop in stops.items()})
        return {
            StreamKey("p1", queue): runs
            for queue, stop in stops.items()
            if (runs := [NumberRun(self.numbers[queue][at], self.numbers[queue][at], at) for at in range(starts[queue], stop)])
        }


def test_a_look_that_fails_is_made_up_for():
    topic, audit = Topic(), FollowingAudit()
    topic.numbers[A] = [1, 2]
    assert audit.look(FIRSTS, topic.stops(), topic.read) == []
    topic.numbers[A] += [4, 5]
    topic.error = OSError("away")
    with pytest.raises(OSError, match="away"):
        audit.look(FIRSTS, topic.stops(), topic.read)
    topic.error = None
    (news,) = audit.look(FIRSTS, topic.stops(), topic.read)
    assert (news.gaps, news.repeated_count) == ([(3, 3)], 0)


def test_the_queues_of_a_broker_that_is_away_for_a_look_are_not_read_again():
    topic, audit = Topic(), FollowingAudit()
    topic.numbers = {A: [1, 2], B: [1, 2]}
    audit.look(FIRSTS, topic.stops(), topic.read)
    audit.look({A: 0}, {A: 2}, topic.read)
    topic.numbers[B] += [3]
    assert audit.look(FIRSTS, topic.stops(), topic.read) == []
    assert topic.reads[-1] == {A: (2, 2), B: (2, 3)}


@pytest.mark.parametrize("seed", range(20))
def test_an_audit_that_is_restarted_from_its_file_finds_what_one_run_finds(tmp_path: Path, seed: int):
    chance, topic, path = random.Random(seed), Topic(), tmp_path / "state.json"
    numbers = [number for number in range(1, 300) if chance.random() > 0.05]
    for _ in range(10):
        at = chance.randrange(len(numbers) - 5)
        numbers.insert(at + 5, numbers.pop(at) if chance.random() < 0.5 else numbers[at])
    told = []
    while len(topic.numbers[A]) < len(numbers):
        topic.numbers[A] = numbers[: len(topic.numbers[A]) + chance.randrange(1, 60)]
        told += FollowingAudit("orders", path).look(FIRSTS, topic.stops(), topic.read)
    expected = audit_stream(StreamKey("p1", A), [NumberRun(number, number, at) for at, number in enumerate(numbers)])
    found = told[-1]
    assert (found.gaps, found.repeated_count, found.late_count, found.stored) == (
        *(expected.gaps, expected.repeated_count, expected.late_count),
        found.stored,
    )
    assert (list(found.repeated), list(found.late)) == (list(expected.repeated), list(expected.late))
    assert FollowingAudit("orders", path).look(FIRSTS, topic.stops(), topic.read) == [], "everything has been told"


def test_the_state_of_another_audit_is_refused(tmp_path: Path):
    topic, path = Topic(), tmp_path / "state.json"
    topic.numbers[A] = [1]
    FollowingAudit("orders at a:1", path).look(FIRSTS, topic.stops(), topic.read)
    with pytest.raises(ArgumentError, match=r"has the state of another audit \(orders at a:1\)"):
        FollowingAudit("bills at a:1", path)
    path.write_bytes(b"{")
    with pytest.raises(ArgumentError, match="is not the state of an audit"):
        FollowingAudit("orders at a:1", path)
