"""From options to queues and offsets, by a cluster of which the test says what it has."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import ClassVar

import pytest

from skyrocket.client.queues import Queue
from skyrocket.spark.cluster.resolution import check_filter, check_order, ending_offsets, selected_queues, starting_offsets
from skyrocket.spark.errors import DataLossError, OffsetsError, OptionError, RefusedError
from skyrocket.spark.options.source_options import SourceOptions, source_options

A0, A1, B0 = Queue("orders", "a", 0), Queue("orders", "a", 1), Queue("orders", "b", 0)
QUEUES = (A0, A1, B0)


class KnownCluster:
    """Offsets 10 to 50 in each queue, one message each second."""

    has: ClassVar = {"orders": QUEUES, "users": (Queue("users", "a", 0),), "orderly": (Queue("orderly", "a", 0),)}
    first_offset, last_offset = 10, 50
    refuses = ""

    def topics(self) -> list[str]:
        return sorted(self.has)

    def queues(self, topics: Iterable[str]) -> dict[str, tuple[Queue, ...]]:
        return {topic: self.has.get(topic, ()) for topic in topics}

    def first(self, queues: Iterable[Queue]) -> dict[Queue, int]:
        return dict.fromkeys(queues, self.first_offset)

    def last(self, queues: Iterable[Queue]) -> dict[Queue, int]:
        return dict.fromkeys(queues, self.last_offset)

    def at(self, moments: Mapping[Queue, int]) -> dict[Queue, int]:
        """And one more has come since anyone asked for the last."""
        return {queue: min(max(-(-moment // 1000), 10), 51) for queue, moment in moments.items()}

    def check(self, *_: object) -> None:
        if self.refuses:
            raise RefusedError(self.refuses)


def options(**given: object) -> SourceOptions:
    way = {} if {"subscribePattern", "assign"} & set(given) else {"subscribe": "orders"}
    every = {"nameserver": "n:1", **way, **given}
    return source_options({name: value if isinstance(value, str) else json.dumps(value) for name, value in every.items()})


def queues(**given: object) -> tuple[Queue, ...]:
    return selected_queues(options(**given), KnownCluster())  # type: ignore[arg-type]


def starts(**given: object) -> list[int]:
    return list(starting_offsets(options(**given), KnownCluster(), QUEUES).values())  # type: ignore[arg-type]


def stops(**given: object) -> list[int]:
    return list(ending_offsets(options(**given), KnownCluster(), QUEUES).values())  # type: ignore[arg-type]


def test_topics_are_read_whole_or_by_queue():
    assert queues() == QUEUES
    assert queues(subscribePattern="order.*") == (Queue("orderly", "a", 0), *QUEUES)
    assert queues(assign={"orders": ["b:0", 1]}) == (A1, B0)
    assert queues(assign={"orders": [0]}) == (A0, B0)


def test_a_pattern_may_match_nothing_yet_where_that_is_said():
    assert selected_queues(options(subscribePattern="x"), KnownCluster(), may_be_none=True) == ()  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="Option 'subscribePattern': no topic's name matches 'x'"):
        queues(subscribePattern="x")


def test_earliest_and_latest_are_asked_for():
    assert starts() == [10, 10, 10]
    assert stops() == [50, 50, 50]
    assert starts(startingOffsets={"orders": {"0": -2, "a:1": 12, "b:0": 50}}) == [10, 12, 50]


def test_moments_become_offsets_and_an_end_is_not_moved_by_what_came_meanwhile():
    assert starts(startingTimestamp="20500") == [21, 21, 21]
    assert stops(endingTimestamp="20500") == [21, 21, 21]
    assert stops(endingTimestamp="99999999") == [50, 50, 50]
    assert starts(startingOffsetsByTimestamp={"orders": {"0": 0, "1": 30_000}}) == [10, 30, 10]


def test_a_moment_that_nothing_is_as_late_as_is_an_error_or_the_end():
    with pytest.raises(OffsetsError, match="Option 'startingTimestamp': queue 0 of orders at a has no message"):
        starts(startingTimestamp="99999999")
    assert starts(startingTimestamp="99999999", startingOffsetsByTimestampStrategy="latest") == [50, 50, 50]


@pytest.mark.parametrize(("offset", "error"), [(9, DataLossError), (51, OffsetsError)])
def test_offsets_that_are_not_there_are_an_error_or_the_nearest_that_is(offset: int, error: type[Exception]):
    given = {"orders": {"0": offset, "1": 20}}
    with pytest.raises(
        error, match=f"Option 'startingOffsets' is {offset} for queue 0 of orders at a, which has offsets 10 to 50"
    ):
        starts(startingOffsets=given)
    nearest = 10 if offset < 10 else 50
    assert starts(startingOffsets=given, failOnDataLoss="false") == [nearest, 20, nearest]
    with pytest.raises(error, match="Option 'endingOffsets'"):
        stops(endingOffsets=given)


def test_an_end_before_the_start_is_an_error_where_both_were_written():
    given = options(startingOffsets={"orders": {"0": 20, "1": 20}}, endingOffsets={"orders": {"0": 19, "1": 20}})
    with pytest.raises(OffsetsError, match="Option 'endingOffsets' is 19 for queue 0 of orders at a, before the 20 of option"):
        check_order(given, dict.fromkeys(QUEUES, 20), {A0: 19, A1: 20, B0: 19})
    check_order(options(), {A0: 51}, {A0: 50})  # the queue was emptied meanwhile


def test_an_expression_that_a_broker_does_not_take_is_told_with_its_option():
    class Refusing(KnownCluster):
        refuses = "127.0.0.1:1 answered no"

    check_filter(options(sql="n > 1"), KnownCluster(), QUEUES)  # type: ignore[arg-type]
    check_filter(options(tags="a"), Refusing(), QUEUES)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match=r"Option 'sql' is 'n > 1', and a broker does not take it: 127.0.0.1:1 answered no"):
        check_filter(options(sql="n > 1"), Refusing(), QUEUES)  # type: ignore[arg-type]
