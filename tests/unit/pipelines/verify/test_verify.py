"""What a verification decides and shows without Spark: byte ranges of replicas, common offsets of archives, results."""

from __future__ import annotations

import shutil
from pathlib import Path

from skyrocket.client.queues import Queue
from skyrocket.pipelines.archive.coverage import QueueRows
from skyrocket.pipelines.archive.plan import QueueBounds
from skyrocket.pipelines.verify.archive_check import GAPS_NAMED, common_ranges, expected_ranges, remark_gaps
from skyrocket.pipelines.verify.presentation import verify_document, verify_lines, verify_page, verify_rows
from skyrocket.pipelines.verify.replica_check import LogRange, compare_range, describe_bounds, log_range, plan_ranges
from skyrocket.pipelines.verify.result import PROBLEMS_MAX, VerifyResult
from skyrocket.report import render_page
from skyrocket.store.offline.offline_store import OfflineStore
from tests.support.stores.sample_stores import flip, sample_store

A, B = Queue("orders", "broker-a", 0), Queue("orders", "broker-a", 1)


def test_the_common_part_of_two_logs_is_divided():
    assert plan_ranges(LogRange(0, 1_000), LogRange(300, 900), 250) == [(300, 550), (550, 800), (800, 900)]
    assert plan_ranges(LogRange(0, 100), LogRange(100, 200)) == []


def test_bounds_that_differ_are_remarks_unless_the_replica_is_ahead():
    assert describe_bounds(LogRange(0, 500), LogRange(0, 500)) == ([], [])
    problems, remarks = describe_bounds(LogRange(0, 500), LogRange(100, 450))
    assert (problems, [remark.split(":")[0] for remark in remarks[:1]]) == ([], ["The replica is behind by 50 bytes"])
    assert remarks[1].startswith("The replica's log begins at 100;")
    (problem,), _ = describe_bounds(LogRange(0, 500), LogRange(0, 510))
    assert "10 bytes behind the master's end" in problem
    assert "no byte in common" in describe_bounds(LogRange(0, 500), LogRange(700, 700))[1][0]


def test_every_flipped_byte_is_found_and_nothing_else(tmp_path: Path):
    master, replica = sample_store(tmp_path / "master"), tmp_path / "replica"
    shutil.copytree(master, replica)
    with OfflineStore(master) as store:
        whole = log_range(store)
        starts = store.log.starts
    places = sorted({whole.start, starts[1] - 1, starts[1], starts[2] + 5_000, whole.stop - 1})
    for place in places:
        start = max(one for one in starts if one <= place)
        flip(replica / "commitlog" / f"{start:020}", place - start)
    found = [compare_range(str(master), str(replica), *part) for part in plan_ranges(whole, whole, 10_000)]
    assert sum(one.compared for one in found) == whole.stop - whole.start
    assert sum(one.different for one in found) == len(places)
    named = [problem.split(" differ")[0] for one in found for problem in one.problems]
    border = f"Log offsets {starts[1] - 1} to {starts[1]}"  # neighbours of one part are one range
    assert [named[0], named[-1]] == [f"Log offsets {at} to {at}" for at in (places[0], places[-1])]
    assert border in named


def test_what_topic_and_archive_both_have_is_compared():
    archived = {A: QueueBounds(5, 100), B: QueueBounds(0, 10)}
    assert common_ranges(archived, {A: QueueBounds(50, 200)}) == {A: QueueBounds(50, 100)}
    assert common_ranges(archived, {A: QueueBounds(100, 200), B: QueueBounds(0, 7)}) == {B: QueueBounds(0, 7)}


def test_what_the_files_have_does_not_shorten_what_is_expected():
    counted = {A: QueueRows(3, 3, 7, 9)}
    assert expected_ranges({A: 10, B: 4}, {A: 5, B: 0}, counted) == ({A: QueueBounds(5, 10), B: QueueBounds(0, 4)}, 0)
    assert expected_ranges({A: 10, B: 4}, {B: 0}, counted) == ({A: QueueBounds(7, 10), B: QueueBounds(0, 4)}, 1)


def test_gaps_are_named_up_to_a_limit():
    assert remark_gaps({A: [QueueBounds(3, 5)]}) == [
        f"{A}: offsets 3 to 4 were deleted before they were archived (--skip-missing)."
    ]
    many = remark_gaps({A: [QueueBounds(10 * one, 10 * one + 1) for one in range(GAPS_NAMED + 2)]})
    assert (len(many), many[-1]) == (GAPS_NAMED + 1, "2 more gaps of that kind.")


def test_results_are_bounded_and_shown():
    sound = VerifyResult("store", "/a", {"messages": 1_200}, remarks=["A broker has it open."])
    broken = VerifyResult("store", "/b", {"messages": 7})
    broken.add_problems([f"problem {number}" for number in range(PROBLEMS_MAX + 5)], more=2)
    assert (len(broken.problems), broken.more, broken.is_sound, sound.is_sound) == (PROBLEMS_MAX, 7, False, True)
    assert verify_rows([sound]) == [("store /a", "1,200 messages", 0, "sound")]
    lines = verify_lines([sound, broken])
    assert lines[0] == "/a: (remark) A broker has it open."
    assert lines[-1] == f"/b: {PROBLEMS_MAX + 7 - 50:,} more problems; --json and --report have them."
    assert verify_document([sound, broken])["isSound"] is False
    assert "problem 3" in render_page(verify_page([sound, broken]))
