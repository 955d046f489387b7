"""Subscriptions: parsing, heartbeats and the filter by tag."""

from __future__ import annotations

import pytest

from skyrocket.client.consumer.subscription import SQL92, TAG, make_subscription, parse_topics, sql
from skyrocket.client.errors import ConfigurationError
from skyrocket.client.received import Received
from skyrocket.protocol.message.record import Record
from skyrocket.protocol.message.tags import tags_code


def tagged(tag: str) -> Received:
    return Received(Record(topic="t", body=b"b", properties=f"TAGS\x01{tag}\x02".encode() if tag else b""))


def test_topics_may_be_one_name_several_names_or_names_with_expressions():
    assert parse_topics(None) == {}
    assert parse_topics("a") == {"a": "*"}
    assert parse_topics(["a", "b"]) == {"a": "*", "b": "*"}
    assert parse_topics({"a": "x || y", "b": sql("n > 1")}) == {"a": "x || y", "b": sql("n > 1")}


def test_invalid_topic_name_is_refused():
    with pytest.raises(ConfigurationError, match="Topic 'a/b' cannot be subscribed to"):
        parse_topics("a/b")


def test_heartbeat_carries_tags_with_their_hash_codes():
    body = make_subscription("t", "web || app", 7).as_body()
    assert (body.sub_string, body.tags_set, body.expression_type, body.sub_version) == ("web || app", ["app", "web"], TAG, 7)
    assert body.code_set == [tags_code("app"), tags_code("web")]


def test_heartbeat_carries_an_sql92_expression_unchanged():
    body = make_subscription("t", sql("n > 1"), 7).as_body()
    assert (body.sub_string, body.tags_set, body.code_set, body.expression_type) == ("n > 1", [], [], SQL92)


def test_filter_distinguishes_tags_with_the_same_hash_code():
    assert tags_code("Aa") == tags_code("BB")
    one, other, none = tagged("Aa"), tagged("BB"), tagged("")
    assert make_subscription("t", "Aa", 0).filter([one, other, none]) == [one]
    assert make_subscription("t", "*", 0).filter([one, other, none]) == [one, other, none]


def test_empty_expressions_are_refused():
    with pytest.raises(ConfigurationError, match="no tag between its bars"):
        make_subscription("t", "||", 0)
    with pytest.raises(ConfigurationError, match="must not be empty"):
        sql(" ")
