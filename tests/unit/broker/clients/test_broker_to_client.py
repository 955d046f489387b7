from __future__ import annotations

from skyrocket.net.errors import ConnectionLostError, RequestTimeoutError
from skyrocket.protocol.bodies import GetConsumerStatusBody, MessageQueue
from skyrocket.protocol.command import Command
from skyrocket.protocol.fastjson.codec import encode
from skyrocket.protocol.hosts import pack_host
from skyrocket.protocol.message.message_id import encode_offset_id
from skyrocket.protocol.responses import ResponseCode
from tests.unit.broker.parts import Parts, Peer

HERE = pack_host("127.0.0.1", 10911)


def a_consumer(parts: Parts) -> Peer:
    peer = Peer(2)
    parts.joins("billing", "a", peer)
    return peer


def test_running_info_of_a_consumer_is_returned_unchanged():
    parts = Parts()
    consumer = a_consumer(parts)
    consumer.answers.append(Command(0, fields={"x": "y"}, body=b'{"properties":{}}', remark="well"))
    answer = parts.ask(307, consumerGroup="billing", clientId="a", jstackEnable=False)
    assert (answer.code, answer.fields, answer.body, answer.remark) == (0, {"x": "y"}, b'{"properties":{}}', "well")
    assert answer.opaque == 7
    (question,) = consumer.asked
    assert (question.code, question.fields["clientId"]) == (307, "a")


def test_request_for_a_disconnected_consumer_is_refused():
    parts = Parts()
    a_consumer(parts)
    for fields in ({"consumerGroup": "billing", "clientId": "b"}, {"consumerGroup": "nobody", "clientId": "a"}):
        assert parts.ask(307, **fields).code == ResponseCode.SYSTEM_ERROR
        assert parts.ask(309, msgId=encode_offset_id(HERE, 0), **fields).code == ResponseCode.SYSTEM_ERROR
    assert parts.ask(223, group="nobody", topic="orders").code == ResponseCode.CONSUMER_NOT_ONLINE


def test_consumer_that_times_out_or_disconnects_has_its_own_error():
    parts = Parts()
    consumer = a_consumer(parts)
    consumer.answers += [RequestTimeoutError("late"), ConnectionLostError("gone")]
    assert parts.ask(307, consumerGroup="billing", clientId="a").code == ResponseCode.CONSUME_MSG_TIMEOUT
    assert parts.ask(307, consumerGroup="billing", clientId="a").code == ResponseCode.SYSTEM_ERROR


def test_consumer_receives_the_message_to_handle():
    parts = Parts()
    parts.a_topic()
    consumer = a_consumer(parts)
    parts.messages(1)
    consumer.answers.append(Command(0, body=b"{}"))
    message_id = encode_offset_id(HERE, 0)
    answer = parts.ask(309, consumerGroup="billing", clientId="a", msgId=message_id, topic="orders")
    assert answer.body == b"{}"
    (question,) = consumer.asked
    assert question.body == bytes(parts.store.reading.view_at(0) or b"")
    assert question.fields == {
        "consumerGroup": "billing",
        "clientId": "a",
        "msgId": message_id,
        "topic": "orders",
        "brokerName": "broker-a",
        "topicSysFlag": "0",
        "groupSysFlag": "0",
    }


def test_missing_message_is_sent_to_no_consumer():
    parts = Parts()
    consumer = a_consumer(parts)
    assert parts.ask(309, consumerGroup="billing", clientId="a", msgId=encode_offset_id(HERE, 999)).code == 1
    assert parts.ask(309, consumerGroup="billing", clientId="a", msgId="zz").code == ResponseCode.SYSTEM_ERROR
    assert parts.ask(309, consumerGroup="billing", clientId="a").code == ResponseCode.SYSTEM_ERROR
    assert consumer.asked == []


def test_offsets_are_collected_from_all_members_that_answer():
    parts = Parts()
    first, second, third = a_consumer(parts), Peer(3), Peer(4)
    parts.joins("billing", "b", second)
    parts.joins("billing", "c", third)
    queue = MessageQueue("orders", "broker-a", 0)
    first.answers += [Command(0, body=encode(GetConsumerStatusBody(message_queue_table={queue: 5}))) for _ in range(2)]
    second.answers.append(RequestTimeoutError("late"))
    third.answers.append(Command(0, body=b"nonsense"))
    found = parts.answer(GetConsumerStatusBody, 223, group="billing", topic="orders")
    assert found.consumer_table == {"a": {queue: 5}}
    assert (first.asked[0].code, first.asked[0].fields) == (221, {"topic": "orders", "group": "billing"})
    one = parts.answer(GetConsumerStatusBody, 223, group="billing", topic="orders", clientAddr="a")
    assert one.consumer_table == {"a": {queue: 5}}
    assert parts.answer(GetConsumerStatusBody, 223, group="billing", topic="orders", clientAddr="z").consumer_table == {}
