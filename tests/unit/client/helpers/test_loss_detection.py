"""Loss detection from sequence stamps: gaps, repeats, disorder."""

from __future__ import annotations

import json
import random

from hypothesis import given
from hypothesis import strategies as st

from skyrocket.client.helpers import LossDetector, StreamReport
from skyrocket.client.helpers.loss_detection import Gap
from skyrocket.client.producer.sequence import SequenceStamps
from skyrocket.client.queues import Queue

ORDERS = Queue("orders", "broker-a", 0)


def report_after(*numbers: int, **options) -> StreamReport:
    detector = LossDetector(**options)
    for number in numbers:
        detector.record_number("p1", ORDERS, number)
    return detector.report().streams[0]


def test_numbers_in_order_are_clean():
    report = report_after(*range(1, 1_001))
    assert report.is_clean
    assert report.sentence() == "Producer p1 in queue 0 of orders at broker-a: 1000 messages seen, each once and in order."


def test_skipped_numbers_are_missing():
    report = report_after(1, 2, 5, 6, 9)
    assert (report.missing, report.gaps, report.repeated, report.late) == (4, (Gap(3, 4), Gap(7, 8)), 0, 0)


def test_number_seen_before_is_a_repeat():
    assert report_after(1, 2, 2, 1, 3).repeated == 2


def test_late_number_is_disorder_and_not_loss():
    report = report_after(1, 4, 2, 3, 5)
    assert (report.missing, report.late, report.repeated) == (0, 2, 0)


def test_counting_begins_at_the_first_number_seen_or_at_begins_at():
    assert report_after(7, 8).missing == 0
    assert report_after(7, 8, begins_at=1).gaps == (Gap(1, 6),)
    assert report_after(1, 2, begins_at=1).is_clean


def test_producers_and_queues_are_counted_separately():
    detector = LossDetector(begins_at=1)
    one, two = SequenceStamps("one"), SequenceStamps("two")
    other = Queue("orders", "broker-a", 1)
    for producer in (one, two):
        for queue in (ORDERS, other, ORDERS):
            detector.record(queue, producer.next(queue))
    report = detector.report()
    assert report.is_clean
    assert len(report.streams) == 4
    assert report.sentences() == ["6 messages of 4 streams seen, each once and in order."]


def test_messages_without_a_valid_stamp_are_only_counted():
    detector = LossDetector()
    for properties in (
        {},
        {"SR_PID": "p"},
        {"SR_SEQ": "1"},
        *({"SR_PID": "p", "SR_SEQ": number} for number in ("-1", "x", "٣", "1" * 20)),
    ):
        detector.record(ORDERS, properties)
    assert detector.report().unstamped == 7
    assert detector.report().streams == ()


def test_report_as_sentences_and_as_dict():
    detector = LossDetector()
    for number in (1, 3, 3, 5, 4, 9, 11, 13, 15, 17, 19):
        detector.record_number("p1", ORDERS, number)
    detector.record(ORDERS, {})
    report = detector.report()
    findings, unread = report.sentences()
    assert findings.startswith(
        "Producer p1 in queue 0 of orders at broker-a: 10 messages seen; missing: 9 (2, 6–8, 10, 12, 14 and"
    )
    assert findings.endswith("2 more gaps), repeated: 1, late: 1.")
    assert unread == "1 message had no valid stamp and could not be checked."
    plain = json.loads(json.dumps(report.as_dict()))
    assert (plain["missing"], plain["repeated"], plain["late"], plain["unstamped"]) == (9, 1, 1, 1)
    assert plain["streams"][0]["gaps"][:2] == [[2, 2], [6, 8]]
    assert plain["streams"][0]["queue"] == {"topic": "orders", "broker_name": "broker-a", "queue_id": 0}


def test_ranges_are_bounded_and_dropped_gaps_still_count_as_missing():
    detector = LossDetector(ranges_max=10)
    for number in range(1, 2_001, 2):
        detector.record_number("p1", ORDERS, number)
    (report,) = detector.report().streams
    assert len(report.gaps) == 9
    assert report.missing == 999


def test_streams_beyond_the_bound_are_dropped_and_reported():
    detector = LossDetector(streams_max=2)
    for producer in ("a", "b", "a", "c"):
        detector.record_number(producer, ORDERS, 1)
    report = detector.report()
    assert [stream.producer_id for stream in report.streams] == ["a", "c"]
    assert not report.is_clean
    assert report.sentences()[-1].startswith("The detector dropped 1 stream beyond its bound;")


@given(st.lists(st.integers(1, 30), min_size=1, max_size=60))
def test_any_order_of_numbers_matches_a_direct_count(numbers: list[int]):
    report = report_after(*numbers)
    seen = set(numbers)
    missing = set(range(min(seen), max(seen))) - seen
    assert {n for gap in report.gaps for n in range(gap.first, gap.last + 1)} == missing
    assert (report.missing, report.seen, report.repeated) == (len(missing), len(seen), len(numbers) - len(seen))
    assert report.late == sum(n < max(numbers[:at], default=0) and n not in numbers[:at] for at, n in enumerate(numbers))


def test_shuffled_stream_is_complete_in_the_end():
    numbers = list(range(1, 5_001))
    random.Random(7).shuffle(numbers)
    report = report_after(*numbers, ranges_max=5_000)
    assert (report.missing, report.seen, report.gaps) == (0, 5_000, ())
