"""Load shedding and rate limits: which messages are skipped, what is counted, and when the next one may begin."""

from __future__ import annotations

from datetime import timedelta

import pytest

from skyrocket.client.consumer.dispatch.load_shedding import LoadShedding, Skipped, make_shedding
from skyrocket.client.consumer.dispatch.rate_limit import RateLimit
from skyrocket.client.errors import ConfigurationError
from skyrocket.client.received import Received, split_pulled_messages
from skyrocket.protocol.hosts import pack_host
from skyrocket.protocol.message.record import Record, encode_record

HOST = pack_host("127.0.0.1", 10911)


def pulled(*offsets: int, queue_end: int = 0, stored_ms: int = 0, topic: str = "pushes") -> list[Received]:
    records = [Record("wire", b"x", queue_offset=offset, store_timestamp=stored_ms, store_host=HOST) for offset in offsets]
    data = b"".join(map(encode_record, records))
    return split_pulled_messages(data, "wire", broker_name="b", topic=topic, arrived_ms=5, queue_end=queue_end)


def offsets(messages: list[Received]) -> list[int]:
    return [message.queue_offset for message in messages]


def test_behind_counts_the_newer_messages_of_the_queue():
    assert [message.behind for message in pulled(0, 7, 9, queue_end=10)] == [9, 2, 0]


def test_a_message_that_did_not_come_from_a_pull_is_not_behind():
    assert Received(Record("t", b"", queue_offset=3)).behind == 0


def test_messages_with_more_newer_ones_than_the_bound_are_skipped():
    kept, dropped = LoadShedding(when_behind=2).select(pulled(6, 7, 8, 9, queue_end=10), 0)
    assert (offsets(kept), offsets(dropped)) == ([7, 8, 9], [6])


def test_messages_that_were_stored_longer_ago_are_skipped():
    shedding = LoadShedding(older_than_ms=1_000)
    messages = pulled(0, stored_ms=5_000)
    assert shedding.select(messages, 6_000) == (messages, [])
    assert shedding.select(messages, 6_001) == ([], messages)


def test_skipped_messages_are_counted_by_topic_and_reason():
    shedding = LoadShedding(when_behind=1, older_than_ms=1_000)
    shedding.select(pulled(0, 1, 2, queue_end=3, stored_ms=10_000), 10_500)
    shedding.select(pulled(0, queue_end=1, stored_ms=1, topic="mails"), 10_500)
    assert shedding.skipped == {"pushes": Skipped(when_behind=1), "mails": Skipped(too_old=1)}
    assert shedding.skipped["pushes"].total == 1


def test_changes_are_reported_once():
    shedding = LoadShedding(when_behind=0)
    shedding.select(pulled(0, 1, 2, queue_end=3), 0)
    assert shedding.take_changes() == {"pushes": 2}
    assert shedding.take_changes() == {}
    shedding.select(pulled(4, queue_end=9), 0)
    assert shedding.take_changes() == {"pushes": 1}


def test_without_bounds_there_is_no_shedding():
    assert make_shedding(None, None) is None


def test_an_age_is_a_timedelta_or_milliseconds():
    for age in (timedelta(seconds=2), 2_000):
        shedding = make_shedding(None, age)
        assert shedding is not None
        assert offsets(shedding.select(pulled(0, stored_ms=1), 2_002)[1]) == [0]
        assert offsets(shedding.select(pulled(0, stored_ms=1), 2_001)[0]) == [0]


@pytest.mark.parametrize(
    ("behind", "age", "sentence"),
    [
        (-1, None, "skip_when_behind must not be negative, but is -1."),
        (None, 0, "skip_older_than must be a positive timedelta or number of milliseconds, not 0."),
    ],
)
def test_bounds_that_make_no_sense_are_refused(behind: int | None, age: int | None, sentence: str):
    with pytest.raises(ConfigurationError, match=sentence):
        make_shedding(behind, age)


# --- rates


def test_rate_limit_lets_messages_begin_in_even_steps():
    limit = RateLimit(5)
    begun: list[int] = []
    for now_ms in range(1_000):
        if limit.available(now_ms):
            limit.use(1)
            begun.append(now_ms)
    assert begun == [0, 200, 400, 600, 800]


def test_rate_limit_says_how_long_to_wait():
    limit = RateLimit(2)
    limit.use(limit.available(1_000))
    assert limit.available(1_100) == 0
    assert limit.wait_ms() == 400
    assert limit.available(1_500) == 1


def test_idle_time_gives_a_tenth_of_a_second_and_no_more():
    limit = RateLimit(100)
    assert limit.available(3_600_000) == 10


def test_a_clock_that_goes_back_gives_nothing():
    limit = RateLimit(10)
    limit.use(limit.available(1_000))
    assert limit.available(500) == 0
    assert limit.available(1_100) == 1


@pytest.mark.parametrize("rate", [0, -1, float("inf"), float("nan")])
def test_rates_that_make_no_sense_are_refused(rate: float):
    with pytest.raises(ConfigurationError, match="rate_limit must be a positive number of messages a second"):
        RateLimit(rate)
