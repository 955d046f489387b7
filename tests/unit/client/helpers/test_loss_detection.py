"""What is found out from stamps: gaps, repeats, disorder."""

from __future__ import annotations

import json
import random

from hypothesis import given
from hypothesis import strategies as st

from skyrocket.client.helpers.loss_detection import Gap, LossDetector, StreamReport
from skyrocket.client.producer.sequence import Sequences
from skyrocket.client.queues import Queue

ORDERS = Queue("orders", "broker-a", 0)


def after(*numbers: int, **options) -> StreamReport:
    detector = LossDetector(**options)
    for number in numbers:
        detector.saw_number("p1", ORDERS, number)
    return detector.report().streams[0]


def test_all_in_order_is_clean():
    report = after(*range(1, 1_001))
    assert report.is_clean
    assert report.sentence() == "Of producer p1 in queue 0 of orders at broker-a, 1000 messages came, each once and in order."


def test_what_later_numbers_leave_out_is_missing():
    report = after(1, 2, 5, 6, 9)
    assert (report.missing, report.gaps, report.repeated, report.late) == (4, (Gap(3, 4), Gap(7, 8)), 0, 0)


def test_what_came_before_is_a_repeat():
    assert after(1, 2, 2, 1, 3).repeated == 2


def test_what_comes_late_is_disorder_and_not_loss():
    report = after(1, 4, 2, 3, 5)
    assert (report.missing, report.late, report.repeated) == (0, 2, 0)


def test_counting_begins_with_the_first_seen_unless_the_detector_is_told():
    assert after(7, 8).missing == 0
    assert after(7, 8, begins_at=1).gaps == (Gap(1, 6),)
    assert after(1, 2, begins_at=1).is_clean


def test_producers_and_queues_are_counted_apart():
    detector = LossDetector(begins_at=1)
    one, two = Sequences("one"), Sequences("two")
    other = Queue("orders", "broker-a", 1)
    for producer in (one, two):
        for queue in (ORDERS, other, ORDERS):
            detector.saw(queue, producer.next(queue))
    report = detector.report()
    assert report.is_clean
    assert len(report.streams) == 4
    assert report.sentences() == ["6 messages of 4 streams came, each once and in order."]


def test_messages_without_a_readable_stamp_are_counted_and_let_be():
    detector = LossDetector()
    for properties in (
        {},
        {"SR_PID": "p"},
        {"SR_SEQ": "1"},
        *({"SR_PID": "p", "SR_SEQ": number} for number in ("-1", "x", "٣", "1" * 20)),
    ):
        detector.saw(ORDERS, properties)
    assert detector.report().unstamped == 7
    assert detector.report().streams == ()


def test_a_report_speaks_to_people_and_to_programs():
    detector = LossDetector()
    for number in (1, 3, 3, 5, 4, 9, 11, 13, 15, 17, 19):
        detector.saw_number("p1", ORDERS, number)
    detector.saw(ORDERS, {})
    report = detector.report()
    findings, unread = report.sentences()
    assert findings.startswith(
        "Of producer p1 in queue 0 of orders at broker-a, 10 messages came; missing: 9 (2, 6–8, 10, 12, 14 and"
    )
    assert findings.endswith("2 more gaps), repeated: 1, late: 1.")
    assert unread == "1 message without a stamp that can be read could not be looked at."
    plain = json.loads(json.dumps(report.as_dict()))
    assert (plain["missing"], plain["repeated"], plain["late"], plain["unstamped"]) == (9, 1, 1, 1)
    assert plain["streams"][0]["gaps"][:2] == [[2, 2], [6, 8]]
    assert plain["streams"][0]["queue"] == {"topic": "orders", "broker_name": "broker-a", "queue_id": 0}


def test_memory_is_bounded_and_gaps_given_up_are_still_counted():
    detector = LossDetector(ranges_max=10)
    for number in range(1, 2_001, 2):
        detector.saw_number("p1", ORDERS, number)
    (report,) = detector.report().streams
    assert len(report.gaps) == 9
    assert report.missing == 999


def test_streams_beyond_the_bound_are_forgotten_and_that_is_said():
    detector = LossDetector(streams_max=2)
    for producer in ("a", "b", "a", "c"):
        detector.saw_number(producer, ORDERS, 1)
    report = detector.report()
    assert [stream.producer_id for stream in report.streams] == ["a", "c"]
    assert not report.is_clean
    assert report.sentences()[-1].startswith("There was no room to remember 1 stream;")


@given(st.lists(st.integers(1, 30), min_size=1, max_size=60))
def test_any_order_of_numbers_is_counted_as_one_would_by_hand(numbers: list[int]):
    report = after(*numbers)
    seen = set(numbers)
    missing = set(range(min(seen), max(seen))) - seen
    assert {n for gap in report.gaps for n in range(gap.first, gap.last + 1)} == missing
    assert (report.missing, report.seen, report.repeated) == (len(missing), len(seen), len(numbers) - len(seen))
    assert report.late == sum(n < max(numbers[:at], default=0) and n not in numbers[:at] for at, n in enumerate(numbers))


def test_a_shuffled_stream_of_many_is_whole_in_the_end():
    numbers = list(range(1, 5_001))
    random.Random(7).shuffle(numbers)
    report = after(*numbers, ranges_max=5_000)
    assert (report.missing, report.seen, report.gaps) == (0, 5_000, ())
