from __future__ import annotations

import pytest

from skyrocket.broker.errors import AttributeChangeError, UnsupportedAttributeError
from skyrocket.broker.tables.attributes import GROUP_ATTRIBUTES, TOPIC_ATTRIBUTES, apply_changes, parse_changes


def test_changes_are_written_with_plus_and_minus():
    assert parse_changes("+message.type=FIFO,-reserve.time") == {"+message.type": "FIFO", "-reserve.time": ""}
    assert parse_changes("") == parse_changes(None) == {}


@pytest.mark.parametrize("text", ["message.type=FIFO", "+message.type", "-a=1", "+", ",", "+a=1,+a=2", "+a=" + "1" * 9_000])
def test_parse_changes_rejects_other_syntax(text: str):
    with pytest.raises(AttributeChangeError):
        parse_changes(text)


def test_attribute_is_set_changed_and_removed():
    made = apply_changes(TOPIC_ATTRIBUTES, None, {"+message.type": "FIFO", "+reserve.time": "5"})
    assert made == {"message.type": "FIFO", "reserve.time": "5"}
    assert apply_changes(TOPIC_ATTRIBUTES, made, {"+message.type": "NORMAL", "-reserve.time": ""}) == {"message.type": "NORMAL"}
    assert apply_changes(GROUP_ATTRIBUTES, None, {"+priority.factor": "100", "+lite.bind.topic": "anything"})


@pytest.mark.parametrize(
    ("current", "change", "says"),
    [
        (None, {"+nope": "1"}, "no attribute"),
        (None, {"message.type": "FIFO"}, "before its name"),
        (None, {"+message.type": "ODD"}, "must be one of"),
        (None, {"+message.type": "MIXED"}, "with this broker"),
        (None, {"+cleanup.policy": "COMPACTION"}, "with this broker"),
        (None, {"+queue.type": "BatchCQ"}, "with this broker"),
        (None, {"+reserve.time": "-2"}, "must be a number"),
        (None, {"+reserve.time": "9" * 30}, "must be a number"),
        (None, {"-message.type": ""}, "is not set"),
        ({}, {"+queue.type": "SimpleCQ"}, "cannot be changed"),
        ({}, {"-message.type": ""}, "is not set"),
    ],
)
def test_invalid_change_is_rejected_with_its_reason(current: dict[str, str] | None, change: dict[str, str], says: str):
    with pytest.raises((AttributeChangeError, UnsupportedAttributeError), match=says):
        apply_changes(TOPIC_ATTRIBUTES, current, change)
