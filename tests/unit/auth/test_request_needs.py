"""What requests need, by the request table. `tests/interop/test_access_control.py` compares it with a live Apache."""

from __future__ import annotations

import json

import pytest

from skyrocket.auth.request_needs import UNCHECKED_BY_APACHE, needs_of
from skyrocket.protocol.command import Command
from skyrocket.protocol.requests import REQUESTS, TO_BROKER

PULL = {"topic": "T", "consumerGroup": "G"}
HEARTBEAT = {
    "clientID": "c",
    "consumerDataSet": [{"groupName": "G", "subscriptionDataSet": [{"topic": "T"}, {"topic": "%RETRY%G"}]}],
    "producerDataSet": [{"groupName": "P"}],
}


def needs(code: int, fields: dict[str, str] | None = None, body: object = None, *, is_compatible: bool = False) -> str:
    command = Command(code, fields=fields, body=b"" if body is None else json.dumps(body).encode())
    found = needs_of(command, "C", is_compatible=is_compatible)
    return "; ".join(f"{need} {'|'.join(action.name or '' for action in need.actions)}" for need in found)


@pytest.mark.parametrize(
    ("code", "fields", "body", "expected"),
    [
        (310, {"b": "T"}, None, "Topic:T PUB"),
        (310, {"b": "%RETRY%G"}, None, "Group:G SUB"),
        (310, {"b": "%DLQ%G"}, None, "Topic:%DLQ%G PUB"),
        (325, {"b": "T"}, None, "Topic:T PUB"),
        (11, PULL, None, "Topic:T SUB; Group:G SUB"),
        (361, PULL, None, "Topic:T SUB; Group:G SUB"),
        (11, {**PULL, "topic": "%RETRY%G"}, None, "Group:G SUB"),
        (15, PULL, None, "Topic:T SUB|UPDATE; Group:G SUB|UPDATE"),
        (105, {"topic": "%RETRY%G"}, None, "Group:G SUB|GET"),
        (208, {"consumerGroup": "G", "topicList": "A;B"}, None, "Group:G GET; Topic:A GET; Topic:B GET"),
        (34, {}, HEARTBEAT, "Group:G SUB; Topic:T SUB"),
        (34, {}, {"clientID": "c", "producerDataSet": [{"groupName": "P"}]}, ""),
        (34, {}, "nonsense", "Cluster:C SUB"),
        (35, {"clientID": "c", "producerGroup": "P"}, None, ""),
        (37, {}, None, ""),
        (33, {"offset": "7"}, None, "Cluster:C GET"),
        (33, {"offset": "7", "topic": "T"}, None, "Topic:T GET"),
        (25, {}, None, "Cluster:C UPDATE"),
        (26, {}, None, "Cluster:C GET"),
        (21, {}, None, "Topic:* GET"),
        (200, {}, {"groupName": "G"}, "Group:G CREATE"),
        (18, {}, {"topicConfigList": [{"topicName": "A"}, {"topicName": "B"}]}, "Topic:A CREATE; Topic:B CREATE"),
        (3001, {"username": "x"}, None, "Cluster:C UPDATE"),
        (9999, {}, None, ""),
    ],
)
def test_needs(code: int, fields: dict[str, str], body: object, expected: str):
    assert needs(code, fields, body) == expected


def test_compatible_means_that_what_apache_does_not_check_needs_nothing():
    for code in UNCHECKED_BY_APACHE:
        assert needs(code, {}, is_compatible=True) == ""
    assert needs(310, {"b": "T"}, is_compatible=True) == "Topic:T PUB"
    assert needs(33, {"offset": "7"}, is_compatible=True) == ""


def test_every_request_to_a_broker_needs_something_by_default():
    free = {code for code, spec in REQUESTS.items() if spec.direction & TO_BROKER and not needs(code)}
    assert free == {35, 37}, "what names neither topic nor group is about the cluster"
