"""Options become queues and offsets, by the answers of a simulated cluster."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import ClassVar

import pytest

from skyrocket.client.queues import Queue
from skyrocket.spark.cluster.resolution import (
    check_filter,
    check_order,
    resolve_ending_offsets,
    resolve_starting_offsets,
    select_queues,
)
from skyrocket.spark.errors import DataLossError, OffsetsError, OptionError, RequestRefusedError
from skyrocket.spark.options.source_options import SourceOptions, source_options

A0, A1, B0 = Queue("orders", "a", 0), Queue("orders", "a", 1), Queue("orders", "b", 0)
QUEUES = (A0, A1, B0)


class KnownCluster:
    """A cluster with offsets 10 to 50 in each queue, and one message per second."""

    has: ClassVar = {"orders": QUEUES, "users": (Queue("users", "a", 0),), "orderly": (Queue("orderly", "a", 0),)}
    first_offset, last_offset = 10, 50
    refuses = ""

    def topics(self) -> list[str]:
        return sorted(self.has)

    def queues(self, topics: Iterable[str]) -> dict[str, tuple[Queue, ...]]:
        return {topic: self.has.get(topic, ()) for topic in topics}

    def first_offsets(self, queues: Iterable[Queue]) -> dict[Queue, int]:
        return dict.fromkeys(queues, self.first_offset)

    def last_offsets(self, queues: Iterable[Queue]) -> dict[Queue, int]:
        return dict.fromkeys(queues, self.last_offset)

    def offsets_at(self, timestamps: Mapping[Queue, int]) -> dict[Queue, int]:
        """Return offsets as if one more message had arrived since the caller asked for the last offset."""
        return {queue: min(max(-(-timestamp // 1000), 10), 51) for queue, timestamp in timestamps.items()}

    def check_subscription(self, *_: object) -> None:
        if self.refuses:
            raise RequestRefusedError(self.refuses)


def options(**given: object) -> SourceOptions:
    way = {} if {"subscribePattern", "assign"} & set(given) else {"subscribe": "orders"}
    every = {"nameserver": "n:1", **way, **given}
    return source_options({name: value if isinstance(value, str) else json.dumps(value) for name, value in every.items()})


def queues(**given: object) -> tuple[Queue, ...]:
    return select_queues(options(**given), KnownCluster())  # type: ignore[arg-type]


def starts(**given: object) -> list[int]:
    return list(resolve_starting_offsets(options(**given), KnownCluster(), QUEUES).values())  # type: ignore[arg-type]


def stops(**given: object) -> list[int]:
    return list(resolve_ending_offsets(options(**given), KnownCluster(), QUEUES).values())  # type: ignore[arg-type]


def test_selection_by_topic_pattern_and_queue():
    assert queues() == QUEUES
    assert queues(subscribePattern="order.*") == (Queue("orderly", "a", 0), *QUEUES)
    assert queues(assign={"orders": ["b:0", 1]}) == (A1, B0)
    assert queues(assign={"orders": [0]}) == (A0, B0)


def test_pattern_without_a_match_is_refused_unless_allowed():
    assert select_queues(options(subscribePattern="x"), KnownCluster(), may_be_none=True) == ()  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="Option 'subscribePattern' is 'x', which matches no topic"):
        queues(subscribePattern="x")


def test_earliest_and_latest_become_offsets():
    assert starts() == [10, 10, 10]
    assert stops() == [50, 50, 50]
    assert starts(startingOffsets={"orders": {"0": -2, "a:1": 12, "b:0": 50}}) == [10, 12, 50]


def test_timestamps_become_offsets_and_new_messages_do_not_move_the_end():
    assert starts(startingTimestamp="20500") == [21, 21, 21]
    assert stops(endingTimestamp="20500") == [21, 21, 21]
    assert stops(endingTimestamp="99999999") == [50, 50, 50]
    assert starts(startingOffsetsByTimestamp={"orders": {"0": 0, "1": 30_000}}) == [10, 30, 10]


def test_timestamp_after_every_message_is_an_error_or_the_end():
    with pytest.raises(OffsetsError, match="Option 'startingTimestamp': queue 0 of orders at a has no message"):
        starts(startingTimestamp="99999999")
    assert starts(startingTimestamp="99999999", startingOffsetsByTimestampStrategy="latest") == [50, 50, 50]


@pytest.mark.parametrize(("offset", "error"), [(9, DataLossError), (51, OffsetsError)])
def test_offset_outside_the_queue_is_an_error_or_the_nearest_offset(offset: int, error: type[Exception]):
    given = {"orders": {"0": offset, "1": 20}}
    with pytest.raises(
        error, match=f"Option 'startingOffsets' is {offset} for queue 0 of orders at a, which has offsets 10 to 50"
    ):
        starts(startingOffsets=given)
    nearest = 10 if offset < 10 else 50
    assert starts(startingOffsets=given, failOnDataLoss="false") == [nearest, 20, nearest]
    with pytest.raises(error, match="Option 'endingOffsets'"):
        stops(endingOffsets=given)


def test_end_before_the_start_is_an_error_if_the_user_wrote_both():
    given = options(startingOffsets={"orders": {"0": 20, "1": 20}}, endingOffsets={"orders": {"0": 19, "1": 20}})
    with pytest.raises(
        OffsetsError, match="Option 'endingOffsets' is 19 for queue 0 of orders at a, which is before offset 20 of option"
    ):
        check_order(given, dict.fromkeys(QUEUES, 20), {A0: 19, A1: 20, B0: 19})
    check_order(options(), {A0: 51}, {A0: 50})  # the queue was emptied between the two requests


def test_expression_that_a_broker_refuses_is_an_error_of_option_sql():
    class Refusing(KnownCluster):
        refuses = "127.0.0.1:1 answered no"

    check_filter(options(sql="n > 1"), KnownCluster(), QUEUES)  # type: ignore[arg-type]
    check_filter(options(tags="a"), Refusing(), QUEUES)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match=r"Option 'sql' is 'n > 1', which a broker refuses: 127.0.0.1:1 answered no"):
        check_filter(options(sql="n > 1"), Refusing(), QUEUES)  # type: ignore[arg-type]
