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
        ({"topic": "SCHEDULE_TOPIC_XXXX"}, "is reserved for the broker"),
        ({"body": b""}, "empty"),
        ({"body": "text"}, "type str; it must be bytes"),
        ({"keys": ["a b"]}, "no white space"),
        ({"keys": [""]}, "at least one character"),
        ({"properties": {"KEYS": "k"}}, "is reserved"),
        ({"properties": {"a": ""}}, "empty name or value"),
        ({"properties": {"a": 1}}, "must be str"),
        ({"properties": {"a": "x\x02y"}}, "separate properties"),
        ({"tag": "x\x01y"}, "separate properties"),
        ({"tag": "\ud800"}, "cannot be encoded as UTF-8"),
        ({"delay_level": -1}, "1 or more"),
        ({"delay_level": 1, "deliver_in": timedelta(seconds=1)}, "only one of"),
        ({"deliver_at": datetime(2030, 1, 1)}, "time zone"),  # noqa: DTZ001 — the missing time zone is the point
    ],
)
def test_constructor_refuses_what_no_broker_accepts(given: dict[str, Any], sentence: str):
    with pytest.raises(InvalidMessageError, match=sentence):
        Message(**{"topic": "t", "body": b"b", **given})


def test_fields_become_the_properties_of_the_java_client():
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
def test_delivery_time_is_a_property(given: dict[str, Any], properties: dict[str, str]):
    assert properties.items() <= decode_properties(properties_text(Message("t", b"b", **given), "ID")).items()


def test_properties_too_long_for_a_record_are_refused():
    with pytest.raises(InvalidMessageError, match="32767"):
        properties_text(Message("t", b"b", properties={"long": "ü" * 20_000}), "ID")
    properties_text(Message("t", b"b", properties={"long": "u" * 20_000}), "ID")


def test_body_can_be_any_bytes_like_object():
    assert Message("t", memoryview(b"abc")).body == b"abc"


def test_too_large_body_is_refused():
    with pytest.raises(InvalidMessageError, match="11 bytes; at most 10 are allowed"):
        check_size(Message("t", b"x" * 11), 10)


@pytest.mark.parametrize("group", ["", " ", "g" * 121, "a b"])
def test_invalid_group_name_is_refused(group: str):
    with pytest.raises(ConfigurationError):
        check_group(group)


def test_message_without_properties_can_be_copied_and_its_properties_cannot_be_changed():
    message: Any = Message("orders", b"body")
    assert message.properties == {}
    assert pickle.loads(pickle.dumps(message)) == copy.deepcopy(message) == message
    for change in (lambda: message.properties.update(a="b"), lambda: message.properties.__setitem__("a", "b")):
        with pytest.raises(InvalidMessageError, match="when it is made"):
            change()
    assert Message("orders", b"body").properties == {}


def test_delay_level_that_no_broker_has_by_default_is_warned_of(caplog: pytest.LogCaptureFixture):
    Message("t", b"b", delay_level=18)
    assert caplog.text == ""
    Message("t", b"b", delay_level=99)
    assert "delay_level is 99, but a broker has 18 levels" in caplog.text
    caplog.clear()
    Message("t", b"b", delay_level=99)
    assert caplog.text == "", "once for each level"


@pytest.mark.parametrize(
    "wrong",
    [{"topic": {"name": "t"}}, {"topic": 5}, {"topic": None}, {"tag": 5}, {"tag": ["a"]}, {"keys": [5]}, {"delay_level": "3"}],
)
def test_field_of_a_wrong_type_is_an_invalid_message(wrong: dict[str, Any]):
    with pytest.raises(InvalidMessageError, match=r"it must be (str|int)\."):
        Message(**{"topic": "t", "body": b"b", **wrong})
