from __future__ import annotations

import copy
import pickle
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from skyrocket.client.errors import ConfigurationError, InvalidMessageError
from skyrocket.client.message import Message, check_size, properties_text
from skyrocket.client.session.names import check_group
from skyrocket.protocol.message.properties import decode_properties


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"topic": ""}, "needs a topic"),
        ({"topic": "t" * 128}, "128 characters"),
        ({"topic": "a/b"}, "letters, digits"),
        ({"topic": "SCHEDULE_TOPIC_XXXX"}, "belongs to the system"),
        ({"body": b""}, "empty"),
        ({"body": "text"}, "bytes, not str"),
        ({"keys": ["a b"]}, "no blanks"),
        ({"keys": [""]}, "at least one character"),
        ({"properties": {"KEYS": "k"}}, "belongs to the system"),
        ({"properties": {"a": ""}}, "empty name or value"),
        ({"properties": {"a": 1}}, "are text"),
        ({"properties": {"a": "x\x02y"}}, "separate properties"),
        ({"tag": "x\x01y"}, "separate properties"),
        ({"tag": "\ud800"}, "not Unicode"),
        ({"delay_level": -1}, "1 or more"),
        ({"delay_level": 1, "deliver_in": timedelta(seconds=1)}, "not several"),
        ({"deliver_at": datetime(2030, 1, 1)}, "time zone"),  # noqa: DTZ001 — that is what is wrong with it
    ],
)
def test_what_no_broker_would_take_is_refused_where_it_is_made(given: dict[str, Any], sentence: str):
    with pytest.raises(InvalidMessageError, match=sentence):
        Message(**{"topic": "t", "body": b"b", **given})


def test_its_fields_become_the_properties_that_javas_do():
    message = Message("t", b"b", tag="web", keys=["u-1", "o-2"], properties={"colour": "grün"}, sharding_key="u-1")
    assert decode_properties(properties_text(message, "ID")) == {
        "UNIQ_KEY": "ID",
        "WAIT": "true",
        "TAGS": "web",
        "KEYS": "u-1 o-2",
        "__SHARDINGKEY": "u-1",
        "colour": "grün",
    }


@pytest.mark.parametrize(
    ("given", "properties"),
    [
        ({"delay_level": 3}, {"DELAY": "3"}),
        ({"deliver_in": timedelta(seconds=1.5)}, {"TIMER_DELAY_MS": "1500"}),
        ({"deliver_at": datetime(2030, 1, 1, tzinfo=UTC)}, {"TIMER_DELIVER_MS": "1893456000000"}),
        ({"wait_until_stored": False}, {"WAIT": "false"}),
        ({"keys": "one"}, {"KEYS": "one"}),
    ],
)
def test_when_it_is_delivered_is_a_property(given: dict[str, Any], properties: dict[str, str]):
    assert properties.items() <= decode_properties(properties_text(Message("t", b"b", **given), "ID")).items()


def test_properties_that_no_record_could_hold_are_refused():
    with pytest.raises(InvalidMessageError, match="32767"):
        properties_text(Message("t", b"b", properties={"long": "ü" * 20_000}), "ID")
    properties_text(Message("t", b"b", properties={"long": "u" * 20_000}), "ID")


def test_a_body_may_come_in_any_kind_of_bytes():
    assert Message("t", memoryview(b"abc")).body == b"abc"


def test_a_body_that_is_too_large_is_refused():
    with pytest.raises(InvalidMessageError, match="11 bytes; 10 are allowed"):
        check_size(Message("t", b"x" * 11), 10)


@pytest.mark.parametrize("group", ["", " ", "g" * 121, "a b"])
def test_a_groups_name_is_checked(group: str):
    with pytest.raises(ConfigurationError):
        check_group(group)


def test_messages_without_properties_are_ordinary_in_every_way_but_take_none_afterwards():
    message: Any = Message("orders", b"body")
    assert message.properties == {}
    assert pickle.loads(pickle.dumps(message)) == copy.deepcopy(message) == message
    for change in (lambda: message.properties.update(a="b"), lambda: message.properties.__setitem__("a", "b")):
        with pytest.raises(InvalidMessageError, match="when it is made"):
            change()
    assert Message("orders", b"body").properties == {}
