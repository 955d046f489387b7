from __future__ import annotations

import pytest

from skyrocket.protocol.bodies import ConsumerOffsetSerializeWrapper
from skyrocket.protocol.command import ONEWAY_FLAG, Command
from skyrocket.protocol.responses import ResponseCode
from tests.support.stores.store_messages import expire_oldest
from tests.unit.broker.parts import WALL_MS, Parts


@pytest.fixture
def parts() -> Parts:
    """Build parts with five messages, one a second, in queue 0 of `orders`, none in queue 1, and group `billing`."""
    parts = Parts()
    parts.a_topic()
    parts.groups.for_consumer("billing")
    parts.messages(5)
    return parts


def query(parts: Parts, queue_id: int = 0, **more: object) -> Command:
    return parts.ask(14, consumerGroup="billing", topic="orders", queueId=queue_id, **more)


def commit(parts: Parts, offset: int, **more: object) -> Command:
    return parts.ask(15, **{"consumerGroup": "billing", "topic": "orders", "queueId": 0, "commitOffset": offset, **more})


def test_committed_offset_is_found(parts: Parts):
    assert commit(parts, 3).code == ResponseCode.SUCCESS
    answer = query(parts)
    assert (answer.code, answer.fields) == (ResponseCode.SUCCESS, {"offset": "3"})


def test_new_group_starts_at_zero_if_the_queue_is_complete(parts: Parts):
    assert query(parts).fields == {"offset": "0"}
    assert query(parts, setZeroIfNotFound=True).fields == {"offset": "0"}


def test_new_group_starts_at_zero_if_the_queue_never_had_a_message(parts: Parts):
    assert query(parts, queue_id=1).fields == {"offset": "0"}
    assert query(parts, queue_id=1, setZeroIfNotFound=True).fields == {"offset": "0"}


def test_new_group_gets_no_offset_if_it_asks_for_none_or_the_queue_is_unknown_or_incomplete(parts: Parts):
    assert query(parts, setZeroIfNotFound=False).code == ResponseCode.QUERY_NOT_FOUND
    assert query(parts, queue_id=1, setZeroIfNotFound=False).code == ResponseCode.QUERY_NOT_FOUND
    assert query(parts, queue_id=2).code == ResponseCode.QUERY_NOT_FOUND
    assert query(parts, queue_id=-1).code == ResponseCode.QUERY_NOT_FOUND
    assert parts.ask(14, consumerGroup="billing", topic="nowhere", queueId=0).code == ResponseCode.QUERY_NOT_FOUND
    while parts.store.log.start == 0:
        parts.messages(5)
        expire_oldest(parts.store)
    assert query(parts).code == ResponseCode.QUERY_NOT_FOUND


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"consumerGroup": "nobody"}, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST),
        ({"topic": "nowhere"}, ResponseCode.TOPIC_NOT_EXIST),
        ({"queueId": -3}, ResponseCode.INVALID_PARAMETER),
        ({"queueId": 70_000}, ResponseCode.INVALID_PARAMETER),
        ({"commitOffset": "x"}, ResponseCode.SYSTEM_ERROR),
    ],
)
def test_commit_for_an_unknown_group_topic_or_queue_is_refused(parts: Parts, fields: dict[str, object], code: ResponseCode):
    assert commit(parts, 3, **fields).code == code
    assert parts.offsets.changes == 0


def test_oneway_commit_is_not_answered(parts: Parts):
    fields = {"consumerGroup": "billing", "topic": "orders", "queueId": "0", "commitOffset": "4"}
    parts.router.handle(parts.peer.connection, [Command(15, flag=ONEWAY_FLAG, fields=fields)])
    parts.router.handle(parts.peer.connection, [Command(15, flag=ONEWAY_FLAG, fields={**fields, "topic": "nowhere"})])
    assert parts.peer.sent == []
    assert parts.offsets.query("billing", "orders", 0) == 4


def test_commit_from_before_a_reset_is_dropped(parts: Parts):
    parts.offsets.reset("billing", "orders", 0, 1)
    assert commit(parts, 5).code == ResponseCode.SUCCESS
    assert query(parts).fields == {"offset": "1"}
    parts.offsets.take_reset("billing", "orders", 0)
    assert commit(parts, 5).code == ResponseCode.SUCCESS
    assert query(parts).fields == {"offset": "1"}, "the commit was on its way when a pull was told"
    parts.offsets.take_reset("billing", "orders", 0)
    commit(parts, 5)
    assert query(parts).fields == {"offset": "5"}


def test_bounds_of_a_queue_and_zero_for_an_unknown_queue(parts: Parts):
    assert parts.ask(30, topic="orders", queueId=0).fields == {"offset": "5"}
    assert parts.ask(31, topic="orders", queueId=0).fields == {"offset": "0"}
    for topic, queue_id in (("orders", 1), ("orders", -1), ("nowhere", 0), ("../..", 0)):
        for code in (30, 31):
            answer = parts.ask(code, topic=topic, queueId=queue_id)
            assert (answer.code, answer.fields) == (ResponseCode.SUCCESS, {"offset": "0"})
        assert parts.ask(32, topic=topic, queueId=queue_id).fields == {"timestamp": "-1"}
    assert parts.ask(32, topic="orders", queueId=0).fields == {"timestamp": str(WALL_MS)}


@pytest.mark.parametrize(
    ("after_ms", "boundary", "offset"),
    [(0, "LOWER", 0), (1_500, "LOWER", 2), (1_500, "UPPER", 1), (99_000, "LOWER", 5), (99_000, "UPPER", 4), (-9_000, "UPPER", 0)],
)
def test_an_offset_is_found_by_time(parts: Parts, after_ms: int, boundary: str, offset: int):
    answer = parts.ask(29, topic="orders", queueId=0, timestamp=WALL_MS + after_ms, boundaryType=boundary)
    assert answer.fields == {"offset": str(offset)}


def test_all_offsets_are_readable_for_an_apache_slave(parts: Parts):
    commit(parts, 3)
    parts.offsets.set_pull_offset("billing", "orders", 0, 4)
    answer = parts.ask(43)
    assert b"pullOffsetTable" not in answer.body
    found = parts.answer(ConsumerOffsetSerializeWrapper, 43)
    assert found.offset_table == {"orders@billing": {0: 3}}


def test_offsets_are_cloned_in_one_topic_or_in_all(parts: Parts):
    parts.a_topic("returns")
    commit(parts, 3)
    commit(parts, 2, topic="returns")
    assert parts.ask(314, srcGroup="billing", destGroup="audit", topic="orders").code == ResponseCode.SUCCESS
    assert parts.offsets.topics_of("audit") == ["orders"]
    assert parts.ask(314, srcGroup="billing", destGroup="archive").code == ResponseCode.SUCCESS
    assert sorted(parts.offsets.topics_of("archive")) == ["orders", "returns"]
    assert parts.ask(314, srcGroup="billing", destGroup="a/b", topic="orders").code == ResponseCode.INVALID_PARAMETER
    assert parts.ask(314, srcGroup="nobody", destGroup="x", topic="orders").code == ResponseCode.SUCCESS
    assert parts.offsets.topics_of("x") == []


def test_topics_without_subscription_are_cloned_only_on_request(parts: Parts):
    parts.a_topic("returns")
    commit(parts, 2, topic="returns")
    parts.joins("billing", topics=("orders",))
    parts.ask(314, srcGroup="billing", destGroup="audit", topic="returns")
    assert parts.offsets.topics_of("audit") == []
    parts.ask(314, srcGroup="billing", destGroup="audit", topic="returns", offline=True)
    assert parts.offsets.topics_of("audit") == ["returns"]
