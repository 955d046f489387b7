"""What a replay decides without a cluster: properties, queues, the rate, conditions, whether it needs its progress."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyrocket.client.queues import Queue
from skyrocket.pipelines.clusters import runs_here
from skyrocket.pipelines.errors import ArgumentError, ReplayError
from skyrocket.pipelines.replay.job import ReplaySource, replay_messages
from skyrocket.pipelines.replay.origin import ReplayedFrom, parse_place, replayed_properties, user_properties
from skyrocket.pipelines.replay.pace import Pace
from skyrocket.pipelines.replay.queue_map import divide_queues, map_queues, share_rate, target_topics
from skyrocket.pipelines.replay.replay_task import SourceMessage, build_message
from skyrocket.pipelines.replay.selection import Selection, literal

A, B = Queue("orders", "broker-a", 0), Queue("orders", "broker-b", 1)
PLACE = ReplayedFrom("r1", A, 700)
STORED = {
    "UNIQ_KEY": "id",
    "WAIT": "true",
    "TAGS": "t",
    "KEYS": "k",
    "color": "red",
    "__transactionId__": "x",
    "TRAN_MSG": "true",
}


@pytest.mark.parametrize(("master", "is_here"), [("local[2]", True), ("local", True), ("spark://h:7077", False), ("yarn", False)])
def test_a_replay_on_a_cluster_of_spark_needs_its_progress(master: str, is_here: bool):
    spark = SimpleNamespace(sparkContext=SimpleNamespace(master=master))
    assert runs_here(spark) == is_here
    if not is_here:
        with pytest.raises(ArgumentError, match="needs --progress"):
            replay_messages(spark, ReplaySource("topic", "orders"), to="again", cluster={"nameserver": "h:1"})


def test_the_applications_properties_stay_and_those_of_rocketmq_do_not():
    assert user_properties(STORED) == {"color": "red"}


def test_the_place_of_a_message_is_found_again_in_its_properties():
    made = replayed_properties(STORED, PLACE, message_id="id", born_ms=5, store_ms=6)
    assert parse_place(made) == PLACE
    assert (made["SKYROCKET_ORIGIN_ID"], made["SKYROCKET_ORIGIN_BORN"], made["SKYROCKET_ORIGIN_STORE"]) == ("id", "5", "6")


def test_a_replay_of_a_replay_keeps_the_first_id_and_has_its_own_place():
    first = replayed_properties(STORED, PLACE, message_id="id", born_ms=5, store_ms=6)
    again = replayed_properties(first, ReplayedFrom("r2", B, 3), message_id="other", born_ms=7, store_ms=8)
    assert again["SKYROCKET_ORIGIN_ID"] == "id"
    assert again["color"] == "red"
    assert parse_place(again) == ReplayedFrom("r2", B, 3)


@pytest.mark.parametrize("text", ["", "a b", "broker x 5 orders", "broker 1 -5 orders", "broker 1 5 orders more"])
def test_another_message_has_no_place(text: str):
    assert parse_place({"SKYROCKET_REPLAY": "r1", "SKYROCKET_REPLAY_FROM": text}) is None
    assert parse_place({}) is None


def test_a_message_keeps_everything_that_its_sender_gave_it():
    stored = {**STORED, "__SHARDINGKEY": "u-1"}
    made = build_message(SourceMessage(A, 7, 6, 5, "id", "t", ("k",), stored, b"x"), "again", "r1")
    assert (made.topic, made.body, made.tag, made.keys, made.sharding_key) == ("again", b"x", "t", ("k",), "u-1")
    assert made.properties["color"] == "red"


# --- queues


def test_a_queue_of_the_same_broker_and_number_gets_the_messages():
    targets = {"again": [Queue("again", broker, number) for broker in ("broker-a", "broker-b") for number in (0, 1)]}
    assert map_queues([A, B], targets, "again") == {A: Queue("again", "broker-a", 0), B: Queue("again", "broker-b", 1)}


def test_another_cluster_of_one_broker_keeps_the_numbers():
    targets = {"orders": [Queue("orders", "new", number) for number in range(4)]}
    assert map_queues([A, B], targets, None) == {A: Queue("orders", "new", 0), B: Queue("orders", "new", 1)}


def test_queues_without_a_like_are_dealt_out_in_turn():
    sources = [Queue("orders", "broker-a", number) for number in (5, 6, 7)]
    targets = {"again": [Queue("again", "broker-a", number) for number in (0, 1)]}
    assert [queue.queue_id for queue in map_queues(sources, targets, "again").values()] == [0, 1, 0]


def test_a_topic_without_a_writable_queue_is_an_error():
    with pytest.raises(ReplayError, match="Topic 'again' has no queue that takes messages"):
        map_queues([A], {}, "again")
    assert target_topics([A, B], None) == {"orders": "orders"}


queues = st.builds(Queue, st.sampled_from(["x", "y"]), st.sampled_from(["a", "b"]), st.integers(0, 5))


@given(st.dictionaries(queues, st.integers(1, 1000), min_size=1), st.integers(1, 8))
def test_each_queue_goes_to_one_task_and_no_task_is_empty(counts: dict[Queue, int], tasks: int):
    parts = divide_queues(counts, tasks)
    assert sorted(queue for part in parts for queue in part) == sorted(counts)
    assert all(parts)
    assert len(parts) <= tasks


@given(st.dictionaries(queues, st.integers(0, 1000), min_size=1), st.integers(1, 8), st.floats(0.5, 1e6))
def test_tasks_share_the_rate_so_that_they_end_together(remaining: dict[Queue, int], tasks: int, rate: float):
    parts = divide_queues(remaining, tasks)
    shares = share_rate(rate, parts, remaining)
    assert shares.keys() == remaining.keys()
    assert all(len({shares[queue] for queue in part}) == 1 for part in parts), "the queues of a task have one rate"
    assert sum(shares[part[0]] for part in parts) == pytest.approx(rate)
    loads = [sum(remaining[queue] for queue in part) for part in parts]
    if all(loads):
        seconds = [load / shares[part[0]] for load, part in zip(loads, parts, strict=True)]
        assert seconds == pytest.approx([sum(loads) / rate] * len(parts))


# --- the rate


def test_messages_wait_until_those_before_them_have_had_their_time():
    pace = Pace(100)
    assert [pace.take(50, now_s=10.0) for _ in range(3)] == [0.0, 0.5, 1.0]


def test_no_burst_follows_a_pause():
    pace = Pace(100)
    pace.take(100, now_s=10.0)
    assert [pace.take(100, now_s=60.0) for _ in range(2)] == [0.0, 1.0]


def test_a_slow_rate_is_sent_in_small_requests():
    assert [Pace(rate).batch(1_000) for rate in (0.5, 50, 5_000, 1_000_000)] == [1, 5, 500, 1_000]


# --- conditions


def test_every_condition_is_sql_and_texts_are_escaped():
    selection = Selection(topics=["a"], from_ms=5, until_ms=9, keys=["k'1"], tags=["x", "y\\"], where="queueId = 1 OR true")
    assert selection.conditions() == [
        "topic IN ('a')",
        "storeTimestamp >= timestamp_millis(5)",
        "storeTimestamp < timestamp_millis(9)",
        "arrays_overlap(keys, array('k\\'1'))",
        "tags IN ('x', 'y\\\\')",
        "(queueId = 1 OR true)",
    ]
    assert Selection().conditions() == []
    assert literal("a") == "'a'"


def test_an_empty_time_range_is_an_error():
    with pytest.raises(ArgumentError, match="begins at 9 ms and ends at 9 ms"):
        Selection(from_ms=9, until_ms=9)
