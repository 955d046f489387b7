"""Where a request goes: every code of the table, and the names that clients of 5.x write."""

from __future__ import annotations

import pytest

from skyrocket.protocol.bodies import LockBatchRequestBody, MessageQueue
from skyrocket.protocol.command import Command
from skyrocket.protocol.fastjson.codec import encode
from skyrocket.protocol.requests import REQUESTS, Direction, RequestCode
from skyrocket.proxy.destination import Destination, Receiver, find_destination

ALONE = Destination(Receiver.ONLY_BROKER)


def named(name: str) -> Destination:
    return Destination(Receiver.NAMED_BROKER, name)


@pytest.mark.parametrize(
    ("code", "fields", "expected"),
    [
        (RequestCode.PULL_MESSAGE, {"bname": "a"}, named("a")),
        (RequestCode.PULL_MESSAGE, {}, ALONE),
        (RequestCode.SEND_MESSAGE, {"bname": "a"}, named("a")),
        (RequestCode.SEND_MESSAGE_V2, {"n": "a"}, named("a")),
        (RequestCode.SEND_BATCH_MESSAGE, {"n": "a"}, named("a")),
        (RequestCode.SEND_REPLY_MESSAGE_V2, {"n": "a"}, named("a")),
        (RequestCode.SEND_MESSAGE_V2, {"bname": "a"}, ALONE),
        (RequestCode.POP_MESSAGE, {"bname": "a"}, named("a")),
        (RequestCode.END_TRANSACTION, {"bname": "a"}, named("a")),
        (RequestCode.GET_ROUTEINFO_BY_TOPIC, {"bname": "a"}, Destination(Receiver.NAMESERVER)),
        (RequestCode.GET_BROKER_CLUSTER_INFO, {}, Destination(Receiver.NAMESERVER)),
        (RequestCode.HEART_BEAT, {}, Destination(Receiver.EVERY_BROKER)),
        (RequestCode.UNREGISTER_CLIENT, {}, Destination(Receiver.EVERY_BROKER)),
        (RequestCode.GET_CONSUMER_LIST_BY_GROUP, {}, Destination(Receiver.EVERY_BROKER)),
        (RequestCode.CHECK_CLIENT_CONFIG, {}, Destination(Receiver.ANY_BROKER)),
        (RequestCode.UPDATE_AND_CREATE_TOPIC, {}, ALONE),
        (31_999, {"bname": "a"}, named("a")),
        (31_999, {}, ALONE),
    ],
)
def test_a_request_goes_to_whom_it_is_for(code: int, fields: dict[str, str], expected: Destination):
    assert find_destination(Command(code, fields=fields)) == expected


@pytest.mark.parametrize("code", [RequestCode.LOCK_BATCH_MQ, RequestCode.UNLOCK_BATCH_MQ])
def test_locks_name_the_broker_in_their_body(code: int):
    body = encode(LockBatchRequestBody(consumer_group="g", client_id="c", mq_set=[MessageQueue("t", "a", 1)]))
    assert find_destination(Command(code, body=body)) == named("a")
    assert find_destination(Command(code, body=encode(LockBatchRequestBody()))) == ALONE
    assert find_destination(Command(code, body=b"{")) == ALONE


def test_what_only_servers_send_goes_nowhere():
    clients = Direction.CLIENT_TO_BROKER | Direction.ADMIN_TO_BROKER
    clients |= Direction.CLIENT_TO_NAMESERVER | Direction.ADMIN_TO_NAMESERVER
    for code, spec in REQUESTS.items():
        goes_nowhere = find_destination(Command(code)).receiver is Receiver.NOBODY
        assert goes_nowhere == (not spec.direction & clients), spec.name
    for code in (RequestCode.REGISTER_BROKER, RequestCode.BROKER_HEARTBEAT, RequestCode.GET_ALL_CONSUMER_OFFSET):
        assert find_destination(Command(code, fields={"bname": "a"})).receiver is Receiver.NOBODY


def test_what_changes_a_nameserver_and_its_settings_are_for_administrators():
    admin = {code for code in REQUESTS if find_destination(Command(code)).receiver is Receiver.NAMESERVER_ADMIN}
    assert admin == {
        *(RequestCode.PUT_KV_CONFIG, RequestCode.DELETE_KV_CONFIG, RequestCode.DELETE_TOPIC_IN_NAMESRV),
        *(RequestCode.WIPE_WRITE_PERM_OF_BROKER, RequestCode.ADD_WRITE_PERM_OF_BROKER),
        *(RequestCode.UPDATE_NAMESRV_CONFIG, RequestCode.GET_NAMESRV_CONFIG),
    }
