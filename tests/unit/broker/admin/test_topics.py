from __future__ import annotations

import errno
import json
from typing import Any

import pytest

from skyrocket.protocol.bodies import (
    GroupList,
    MessageQueue,
    TopicConfig,
    TopicConfigAndMappingSerializeWrapper,
    TopicConfigAndQueueMapping,
    TopicList,
    TopicOffset,
    TopicStatsTable,
)
from skyrocket.protocol.command import Command
from skyrocket.protocol.fastjson.codec import encode
from skyrocket.protocol.responses import ResponseCode
from tests.unit.broker.parts import WALL_MS, Parts


def put(parts: Parts, **fields: Any) -> Command:
    every = {
        "topic": "orders",
        "defaultTopic": "TBW102",
        "readQueueNums": 2,
        "writeQueueNums": 3,
        "perm": 6,
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": 0,
        "order": False,
        "attributes": "",
        **fields,
    }
    return parts.ask(17, **every)


def test_topic_is_created_and_described():
    parts = Parts()
    assert put(parts, order=True, attributes="+message.type=FIFO").code == ResponseCode.SUCCESS
    shown = parts.answer(TopicConfigAndQueueMapping, 351, topic="orders", lo=True)
    assert (shown.topic_name, shown.read_queue_nums, shown.write_queue_nums, shown.order) == ("orders", 2, 3, True)
    assert shown.attributes == {"message.type": "FIFO"}


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"topic": "../../etc"}, ResponseCode.INVALID_PARAMETER),
        ({"topic": ""}, ResponseCode.INVALID_PARAMETER),
        ({"topic": "TBW102"}, ResponseCode.INVALID_PARAMETER),
        ({"readQueueNums": -1}, ResponseCode.INVALID_PARAMETER),
        ({"perm": 99}, ResponseCode.INVALID_PARAMETER),
        ({"topicFilterType": "ODD"}, ResponseCode.SYSTEM_ERROR),
        ({"attributes": "+nope=1"}, ResponseCode.SYSTEM_ERROR),
        ({"attributes": "odd"}, ResponseCode.SYSTEM_ERROR),
        ({"readQueueNums": "many"}, ResponseCode.SYSTEM_ERROR),
    ],
)
def test_invalid_topic_is_refused_with_a_remark(fields: dict[str, Any], code: ResponseCode):
    parts = Parts()
    answer = put(parts, **fields)
    assert answer.code == code
    assert (answer.remark or "").endswith(".")
    assert "orders" not in parts.topics


def test_several_topics_are_created_at_once_even_if_one_exists():
    parts = Parts()
    both = {"topicConfigList": [{"topicName": "orders", "readQueueNums": 3}, {"topicName": "returns", "perm": 4}]}
    assert parts.ask(18, {"topicConfigList": both["topicConfigList"][:1]}).code == ResponseCode.SUCCESS
    assert parts.ask(18, both).code == ResponseCode.SUCCESS
    assert parts.topics.configs["returns"] == TopicConfig(topic_name="returns", perm=4)
    assert parts.ask(18, {"topicConfigList": []}).code == ResponseCode.SUCCESS
    assert (
        parts.ask(18, {"topicConfigList": [{"topicName": "x"}, {"topicName": "TBW102"}]}).code == ResponseCode.INVALID_PARAMETER
    )
    assert "x" not in parts.topics
    assert parts.ask(18).code == parts.ask(18, {}).code == ResponseCode.SYSTEM_ERROR


def test_deleting_a_topic_removes_its_queues_and_offsets():
    parts = Parts()
    parts.a_topic()
    parts.messages(3)
    parts.offsets.commit("billing", "orders", 0, 2)
    assert parts.ask(215, topic="orders").code == ResponseCode.SUCCESS
    assert "orders" not in parts.topics
    assert parts.store.queues.get("orders", 0) is None
    assert parts.offsets.topics_of("billing") == []
    assert parts.ask(215, topic="orders").code == ResponseCode.SUCCESS, "deleting a missing topic succeeds"


def test_system_topics_and_names_that_are_paths_are_not_deleted():
    parts = Parts()
    before = parts.store._files.contents()  # type: ignore[attr-defined]
    assert parts.ask(215, topic="TBW102").code == ResponseCode.INVALID_PARAMETER
    assert parts.ask(215, topic=" ").code == ResponseCode.INVALID_PARAMETER
    assert parts.ask(215, topic="..").code == ResponseCode.SUCCESS, "deleting a missing topic succeeds"
    assert parts.ask(215, topic="../commitlog").code == ResponseCode.SUCCESS
    assert parts.store._files.contents() == before  # type: ignore[attr-defined]


def test_all_topics_are_listed_at_once_or_by_page():
    parts = Parts()
    parts.a_topic()
    answer = parts.ask(21)
    assert answer.fields == {"totalTopicNum": str(len(parts.topics))}
    everything = parts.answer(TopicConfigAndMappingSerializeWrapper, 21)
    assert everything.topic_config_table == dict(parts.topics.configs)
    assert everything.data_version == parts.topics.version
    version = encode(parts.topics.version).decode()
    names: list[str] = []
    while len(names) < len(parts.topics):
        page = parts.answer(
            TopicConfigAndMappingSerializeWrapper, 21, topicSeq=len(names), maxTopicNum=4, dataVersion=version if names else ""
        )
        names += page.topic_config_table
    assert names == sorted(parts.topics)
    parts.a_topic("returns")
    again = parts.answer(TopicConfigAndMappingSerializeWrapper, 21, topicSeq=8, maxTopicNum=2, dataVersion=version)
    assert list(again.topic_config_table) == sorted(parts.topics)[:2], "after a change, paging restarts"


def test_topic_stats_are_the_bounds_of_its_queues():
    parts = Parts()
    parts.a_topic()
    parts.messages(3)
    shown = parts.answer(TopicStatsTable, 202, topic="orders")
    assert shown.offset_table == {
        MessageQueue("orders", "broker-a", 0): TopicOffset(max_offset=3, last_update_timestamp=WALL_MS + 2_000),
        MessageQueue("orders", "broker-a", 1): TopicOffset(),
    }
    for code in (202, 351):
        assert parts.ask(code, topic="nowhere").code == ResponseCode.TOPIC_NOT_EXIST


def test_system_topics_are_listed():
    listed = Parts().answer(TopicList, 305).topic_list
    assert {"TBW102", "Lab", "broker-a", "Lab_REPLY_TOPIC", "RMQ_SYS_TRACE_TOPIC", "rmq_sys_wheel_timer"} <= set(listed)


def test_groups_consume_a_topic_by_subscription_or_by_offsets():
    parts = Parts()
    parts.a_topic()
    parts.joins("billing")
    parts.offsets.commit("audit", "orders", 0, 1)
    parts.offsets.commit("billing", "orders", 0, 1)
    assert parts.answer(GroupList, 300, topic="orders").group_list == ["billing", "audit"]
    assert parts.answer(GroupList, 300, topic="nowhere").group_list == []


def test_clean_up_removes_only_queues_of_unknown_topics():
    parts = Parts()
    parts.a_topic()
    parts.messages(1)
    parts.messages(1, "forgotten")
    parts.messages(1, "rmq_sys_of_someone")
    assert parts.ask(316).code == ResponseCode.SUCCESS
    assert {key.topic for key, _ in parts.store.queues} == {"orders", "rmq_sys_of_someone"}
    assert parts.ask(306).code == ResponseCode.SUCCESS
    assert parts.ask(30, topic="orders", queueId=0).fields == {"offset": "1"}


def test_full_disk_is_answered_with_service_not_available():
    parts = Parts()
    parts.messages(1, "forgotten")
    parts.store._files.fail("move", number=errno.ENOSPC, lasting=True)  # type: ignore[attr-defined]
    assert parts.ask(316).code == ResponseCode.SERVICE_NOT_AVAILABLE


def test_bodies_are_written_as_apache_writes_them():
    parts = Parts()
    parts.a_topic(queues=1)
    shown = json.loads(parts.ask(351, topic="orders").body)
    assert list(shown) == sorted(shown)
    stats = parts.ask(202, topic="orders").body
    assert stats == (
        b'{"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"orders"}:'
        b'{"lastUpdateTimestamp":0,"maxOffset":0,"minOffset":0}},"topicPutTps":0.0}'
    )
