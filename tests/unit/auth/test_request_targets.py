"""What a request changes, in the words of the audit log."""

from __future__ import annotations

import pytest

from skyrocket.auth.request_targets import TARGETS_MAX, targets_of
from skyrocket.protocol.bodies import AclInfo, PolicyEntryInfo, PolicyInfo
from skyrocket.protocol.command import Command
from skyrocket.protocol.config_text import encode_config
from skyrocket.protocol.fastjson.codec import encode
from skyrocket.protocol.requests import RequestCode


def rules(*resources: str) -> bytes:
    entries = [PolicyEntryInfo(resource=resource, actions=["Pub"], decision="Allow") for resource in resources]
    return encode(AclInfo(subject="User:ann", policies=[PolicyInfo(entries=entries)]))


@pytest.mark.parametrize(
    ("code", "fields", "body", "targets"),
    [
        (RequestCode.AUTH_CREATE_USER, {"username": "ann"}, b'{"password":"s3cret"}', ["User:ann"]),
        (RequestCode.AUTH_DELETE_USER, {"username": "ann"}, b"", ["User:ann"]),
        (RequestCode.AUTH_UPDATE_ACL, {"subject": "User:ann"}, rules("Topic:a", "*"), ["User:ann", "Topic:a", "*"]),
        (RequestCode.AUTH_DELETE_ACL, {"subject": "User:ann", "resource": "Topic:a"}, b"", ["User:ann", "Topic:a"]),
        (RequestCode.AUTH_CREATE_ACL, {"subject": "User:ann"}, b"{", ["User:ann"]),
        (
            RequestCode.UPDATE_BROKER_CONFIG,
            {},
            encode_config({"brokerPermission": "4", "s3 cret": ""}),
            ["brokerPermission", "?"],
        ),
        (RequestCode.UPDATE_NAMESRV_CONFIG, {}, b"needWaitForService=true", ["needWaitForService"]),
        (RequestCode.PUT_KV_CONFIG, {"namespace": "n", "key": "k", "value": "s3cret"}, b"", ["n/k"]),
        (RequestCode.WIPE_WRITE_PERM_OF_BROKER, {"brokerName": "broker-a"}, b"", ["Broker:broker-a"]),
        (RequestCode.DELETE_TOPIC_IN_NAMESRV, {"topic": "orders"}, b"", ["Topic:orders"]),
        (RequestCode.UPDATE_AND_CREATE_TOPIC, {"topic": "orders"}, b"", []),
    ],
)
def test_targets_are_names_and_never_values(code: RequestCode, fields: dict[str, str], body: bytes, targets: list[str]):
    found = targets_of(Command(code, fields=fields, body=body))
    assert found == targets
    assert "s3cret" not in str(found)


def test_the_body_of_a_request_that_nobody_admitted_is_not_read():
    command = Command(RequestCode.AUTH_UPDATE_ACL, fields={"subject": "User:ann"}, body=rules("Topic:a"))
    assert targets_of(command, with_body=False) == ["User:ann"]


def test_targets_are_bounded():
    command = Command(RequestCode.UPDATE_BROKER_CONFIG, body="".join(f"a{number}=1\n" for number in range(1000)).encode())
    assert len(targets_of(command)) == TARGETS_MAX
