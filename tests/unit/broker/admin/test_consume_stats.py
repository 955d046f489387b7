from __future__ import annotations

import pytest

from skyrocket.protocol.bodies import (
    ConsumeStats,
    ConsumeStatsList,
    MessageQueue,
    OffsetWrapper,
    QueryConsumeQueueResponseBody,
    QueryConsumeTimeSpanBody,
)
from skyrocket.protocol.responses import ResponseCode
from tests.unit.broker.parts import WALL_MS, Parts


def queue(queue_id: int, topic: str = "orders") -> MessageQueue:
    return MessageQueue(topic, "broker-a", queue_id)


@pytest.fixture
def parts() -> Parts:
    """Build parts where group `billing` has consumed three of five messages in queue 0 and pulled four; queue 1 is empty."""
    parts = Parts()
    parts.a_topic()
    parts.groups.for_consumer("billing")
    parts.messages(5, tags="red")
    parts.offsets.commit("billing", "orders", 0, 3)
    parts.offsets.set_pull_offset("billing", "orders", 0, 4)
    return parts


DONE = OffsetWrapper(broker_offset=5, consumer_offset=3, pull_offset=4, last_timestamp=WALL_MS + 2_000)


def test_consume_stats_of_a_group_list_each_queue(parts: Parts):
    found = parts.answer(ConsumeStats, 208, consumerGroup="billing")
    assert found.offset_table == {queue(0): DONE, queue(1): OffsetWrapper()}


def test_consume_stats_cover_the_requested_topics(parts: Parts):
    parts.a_topic("returns", queues=1)
    listed = parts.answer(ConsumeStats, 208, consumerGroup="billing", topicList="orders;returns;nowhere;")
    assert set(listed.offset_table) == {queue(0), queue(1), queue(0, "returns")}
    assert parts.answer(ConsumeStats, 208, consumerGroup="billing", topic="nowhere").offset_table == {}
    unknown = parts.answer(ConsumeStats, 208, consumerGroup="nobody", topic="orders")
    assert unknown.offset_table[queue(0)] == OffsetWrapper(broker_offset=5)
    parts.joins("billing", topics=("returns",))
    assert parts.answer(ConsumeStats, 208, consumerGroup="billing").offset_table == {}, "the group no longer subscribes to orders"


def test_consume_stats_of_all_groups_add_up(parts: Parts):
    found = parts.answer(ConsumeStatsList, 317, isOrder=False)
    of_groups = {group: stats for entry in found.consume_stats_list for group, stats in entry.items()}
    assert set(of_groups) == set(parts.groups)
    (stats,) = of_groups["billing"]
    assert stats.offset_table[queue(0)].consumer_offset == 3
    assert (found.total_diff, found.total_inflight_diff) == (2, -3), "like Apache's, without pull offsets"
    assert found.broker_addr == "127.0.0.1:10911"
    ordered = parts.answer(ConsumeStatsList, 317, isOrder=True)
    assert not any(stats for entry in ordered.consume_stats_list for stats in entry.values())


def test_time_span_of_consumed_messages(parts: Parts, monkeypatch: pytest.MonkeyPatch):
    parts.wall_ms = WALL_MS + 60_000
    first, second = parts.answer(QueryConsumeTimeSpanBody, 303, topic="orders", group="billing").consume_time_span_set
    times = (first.min_time_stamp, first.consume_time_stamp, first.max_time_stamp)
    assert times == (WALL_MS, WALL_MS + 2_000, WALL_MS + 4_000)
    assert first.delay_time == 57_000
    assert (first.min_time_stamp_str or "").endswith(":000")
    assert (second.min_time_stamp, second.max_time_stamp, second.consume_time_stamp, second.delay_time) == (-1, -1, -1, 0)
    new, _ = parts.answer(QueryConsumeTimeSpanBody, 303, topic="orders", group="nobody").consume_time_span_set
    assert (new.consume_time_stamp, new.delay_time) == (WALL_MS, 60_000)
    assert parts.ask(303, topic="nowhere", group="billing").code == ResponseCode.TOPIC_NOT_EXIST


def test_consume_queue_entries_are_returned(parts: Parts):
    found = parts.answer(QueryConsumeQueueResponseBody, 321, topic="orders", queueId=0, index=1, count=2)
    assert found.queue_data is not None
    assert [entry.tags_code for entry in found.queue_data] == [112785, 112785]  # Java's hash of "red"
    assert found.queue_data[1].physic_offset == 2 * found.queue_data[0].physic_size
    assert (found.min_queue_index, found.max_queue_index, found.filter_data) == (0, 5, None)
    parts.messages(20)
    across = parts.answer(QueryConsumeQueueResponseBody, 321, topic="orders", queueId=0, index=3, count=15)
    assert len(across.queue_data or ()) == 15, "across two files"
    assert parts.answer(QueryConsumeQueueResponseBody, 321, topic="orders", queueId=0, index=0, count=-4).queue_data == []


def test_consume_queue_entries_come_with_the_groups_subscription(parts: Parts):
    fields = {"topic": "orders", "queueId": 0, "index": 0, "count": 1, "consumerGroup": "billing"}
    away = parts.answer(QueryConsumeQueueResponseBody, 321, **fields)
    assert away.subscription_data is None
    assert "no consumer" in (away.filter_data or "")
    parts.joins("billing")
    here = parts.answer(QueryConsumeQueueResponseBody, 321, **fields)
    assert here.subscription_data is not None
    assert here.subscription_data.topic == "orders"


@pytest.mark.parametrize("index", [99, -4])
def test_query_of_a_missing_entry_is_empty_with_a_remark(parts: Parts, index: int):
    answer = parts.ask(321, topic="orders", queueId=0, index=index, count=5)
    assert (answer.code, answer.body) == (ResponseCode.SUCCESS, b"")
    assert answer.remark


@pytest.mark.parametrize(("topic", "queue_id"), [("orders", 9), ("nowhere", 0)])
def test_query_of_a_missing_queue_is_refused(parts: Parts, topic: str, queue_id: int):
    answer = parts.ask(321, topic=topic, queueId=queue_id, index=0, count=5)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert answer.remark
