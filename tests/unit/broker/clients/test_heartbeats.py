from __future__ import annotations

from skyrocket.protocol.bodies import (
    ConsumerConnection,
    GetConsumerListByGroupResponseBody,
    LockBatchResponseBody,
    MessageQueue,
    ProducerConnection,
    ProducerTableInfo,
    SubscriptionGroupConfig,
)
from skyrocket.protocol.responses import ResponseCode
from tests.unit.broker.parts import WALL_MS, Parts, Peer, heartbeat


def test_heartbeat_creates_group_and_retry_topic_and_notifies_members():
    parts, left, right = Parts(), Peer(1), Peer(2)
    answer = parts.joins("billing", "a", left)
    assert answer.code == ResponseCode.SUCCESS
    assert answer.fields == {"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": "true"}
    assert "billing" in parts.groups
    retry = parts.topics.configs["%RETRY%billing"]
    assert (retry.read_queue_nums, retry.write_queue_nums, retry.perm) == (1, 1, 6)
    assert left.told_groups == ["billing"]
    parts.joins("billing", "b", right)
    assert (left.told_groups, right.told_groups) == (["billing"] * 2, ["billing"])
    parts.joins("billing", "b", right)
    assert len(left.told) == 2, "nothing changed"


def test_disallowed_group_is_skipped_and_the_rest_of_the_heartbeat_counts():
    parts = Parts(auto_create_group=False)
    beat = heartbeat("a", "billing", producerDataSet=[{"groupName": "tills"}])
    assert parts.ask(34, beat).code == ResponseCode.SUCCESS
    assert not parts.clients.has_group("billing")
    assert "%RETRY%billing" not in parts.topics
    assert parts.clients.producers("tills") is not None


def test_a_heartbeat_without_a_body_or_with_nonsense_is_an_error():
    parts = Parts()
    assert parts.ask(34).code == ResponseCode.SYSTEM_ERROR
    assert parts.ask(34, b"xx").code == ResponseCode.SYSTEM_ERROR
    assert parts.ask(34, b"{}").code == ResponseCode.SUCCESS


def test_short_heartbeat_is_answered_when_subscriptions_are_needed():
    parts = Parts()
    long = {"heartbeatFingerprint": 7}
    short = {"heartbeatFingerprint": 7, "withoutSub": True}
    assert parts.joins("billing", **short).fields["IS_SUB_CHANGE"] == "true", "the broker has restarted and has no subscriptions"
    assert parts.joins("billing", **long).fields["IS_SUB_CHANGE"] == "false"
    assert parts.joins("billing", **short).fields["IS_SUB_CHANGE"] == "false"
    assert parts.clients.subscription("billing", "orders") is not None
    assert parts.joins("billing", heartbeatFingerprint=8, withoutSub=True).fields["IS_SUB_CHANGE"] == "true"


def test_retry_topic_is_ordered_if_the_group_subscribes_to_an_ordered_topic():
    parts = Parts()
    parts.a_topic("orders", order=True)
    parts.joins("billing")
    assert parts.topics.is_order("%RETRY%billing")


def test_group_with_notifications_disabled_is_not_notified():
    parts, peer = Parts(), Peer()
    parts.groups.put(SubscriptionGroupConfig(group_name="quiet", notify_consumer_ids_changed_enable=False))
    parts.joins("quiet", peer=peer)
    parts.joins("everyone", peer=peer, model="BROADCASTING")
    assert peer.told == []


def test_members_are_notified_when_one_leaves_disconnects_or_falls_silent():
    parts, stays, leaves, drops, sleeps = Parts(), Peer(1), Peer(2), Peer(3), Peer(4)
    for number, peer in enumerate((stays, leaves, drops, sleeps)):
        parts.joins("billing", f"c{number}", peer)
    stays.told.clear()
    assert parts.ask(35, peer=leaves, clientID="c1", consumerGroup="billing", producerGroup="none").code == ResponseCode.SUCCESS
    parts.heartbeats.drop_connection(drops.connection)
    assert stays.told_groups == ["billing"] * 2
    parts.now_ms += 119_000
    parts.joins("billing", "c0", stays)
    parts.now_ms += 2_000
    parts.heartbeats.check_time()
    assert stays.told_groups == ["billing"] * 3
    assert (sleeps.closed is not None, stays.closed) == (True, None)
    listed = parts.answer(GetConsumerListByGroupResponseBody, 38, consumerGroup="billing")
    assert listed.consumer_id_list == ["c0"]


def test_a_group_without_consumers_has_no_list():
    parts = Parts()
    assert parts.ask(38, consumerGroup="billing").code == ResponseCode.SYSTEM_ERROR
    assert parts.ask(203, consumerGroup="billing").code == ResponseCode.CONSUMER_NOT_ONLINE
    assert parts.ask(204, producerGroup="tills").code == ResponseCode.SYSTEM_ERROR
    assert parts.ask(328).body == b'{"data":{}}'


def test_consumer_connections_come_with_their_subscriptions():
    parts, peer = Parts(), Peer(41_000)
    parts.joins("billing", "a", peer, topics=("orders", "returns"), producerDataSet=[{"groupName": "tills"}])
    shown = parts.answer(ConsumerConnection, 203, consumerGroup="billing")
    (connection,) = shown.connection_set
    assert (connection.client_id, connection.client_addr, connection.language) == ("a", "10.0.0.7:41000", "JAVA")
    assert set(shown.subscription_table) == {"orders", "returns"}
    assert (shown.consume_type, shown.message_model) == ("CONSUME_PASSIVELY", "CLUSTERING")
    assert parts.answer(ProducerConnection, 204, producerGroup="tills").connection_set == [connection]
    parts.now_ms += 500
    parts.wall_ms += 500
    table = parts.answer(ProducerTableInfo, 328).data
    assert table is not None
    (producer,) = table["tills"]
    assert (producer.remote_ip, producer.last_update_timestamp) == ("/10.0.0.7:41000", WALL_MS)


def test_tag_subscription_is_accepted_and_sql_only_with_filters_enabled():
    def checked(parts: Parts, expression: str, kind: str = "SQL92") -> tuple[int, str]:
        answer = parts.ask(46, {"subscriptionData": {"topic": "orders", "subString": expression, "expressionType": kind}})
        return answer.code, answer.remark or ""

    off, on = Parts(), Parts(property_filter=True)
    for parts in (off, on):
        assert checked(parts, "||", "TAG")[0] == checked(parts, "a", "")[0] == parts.ask(46).code == ResponseCode.SUCCESS
    for expression in ("a > 5", "a >"):
        code, sentence = checked(off, expression)
        assert code == ResponseCode.SYSTEM_ERROR
        assert "enablePropertyFilter" in sentence
    assert checked(on, "a > 5") == (ResponseCode.SUCCESS, "")
    assert checked(on, "a >") == (
        ResponseCode.SUBSCRIPTION_PARSE_FAILED,
        "The expression is wrong at character 4: a property, a constant or a bracket is missing before the end.",
    )
    assert checked(on, "a > 5", "XPATH")[0] == ResponseCode.SUBSCRIPTION_PARSE_FAILED


def test_queues_are_locked_and_unlocked():
    parts = Parts()
    queues = [{"topic": "orders", "brokerName": "broker-a", "queueId": number} for number in range(2)]

    def lock(client_id: str) -> list[MessageQueue]:
        body = {"consumerGroup": "billing", "clientId": client_id, "mqSet": queues}
        return parts.answer(LockBatchResponseBody, 41, body).lock_ok_mq_set

    assert lock("a") == [MessageQueue("orders", "broker-a", 0), MessageQueue("orders", "broker-a", 1)]
    assert lock("b") == []
    unlocked = parts.ask(42, {"consumerGroup": "billing", "clientId": "a", "mqSet": queues[:1]})
    assert unlocked.code == ResponseCode.SUCCESS
    assert lock("b") == [MessageQueue("orders", "broker-a", 0)]
    parts.now_ms += 60_001
    assert len(lock("c")) == 2
    assert parts.ask(41).code == parts.ask(42).code == ResponseCode.SYSTEM_ERROR
