"""What a consumer wants of a topic."""

from __future__ import annotations

import pytest

from skyrocket.client.consumer.subscription import SQL92, TAG, sql, subscription, topics_wanted
from skyrocket.client.errors import ConfigurationError
from skyrocket.client.received import Received
from skyrocket.protocol.message.record import Record
from skyrocket.protocol.message.tags import tags_code


def tagged(tag: str) -> Received:
    return Received(Record(topic="t", body=b"b", properties=f"TAGS\x01{tag}\x02".encode() if tag else b""))


def test_topics_may_be_one_several_or_each_with_its_expression():
    assert topics_wanted(None) == {}
    assert topics_wanted("a") == {"a": "*"}
    assert topics_wanted(["a", "b"]) == {"a": "*", "b": "*"}
    assert topics_wanted({"a": "x || y", "b": sql("n > 1")}) == {"a": "x || y", "b": sql("n > 1")}


def test_a_topic_that_cannot_be_is_refused():
    with pytest.raises(ConfigurationError, match="Nobody can subscribe to 'a/b'"):
        topics_wanted("a/b")


def test_brokers_hear_tags_with_their_hashes():
    body = subscription("t", "web || app", 7).as_body()
    assert (body.sub_string, body.tags_set, body.expression_type, body.sub_version) == ("web || app", ["app", "web"], TAG, 7)
    assert body.code_set == [tags_code("app"), tags_code("web")]


def test_brokers_hear_an_sql92_expression_as_it_is():
    body = subscription("t", sql("n > 1"), 7).as_body()
    assert (body.sub_string, body.tags_set, body.code_set, body.expression_type) == ("n > 1", [], [], SQL92)


def test_tags_with_the_same_hash_are_told_apart_here():
    assert tags_code("Aa") == tags_code("BB")
    one, other, none = tagged("Aa"), tagged("BB"), tagged("")
    assert subscription("t", "Aa", 0).wanted([one, other, none]) == [one]
    assert subscription("t", "*", 0).wanted([one, other, none]) == [one, other, none]


def test_an_expression_of_bars_alone_is_refused():
    with pytest.raises(ConfigurationError, match="no tag between its bars"):
        subscription("t", "||", 0)
    with pytest.raises(ConfigurationError, match="is empty"):
        sql(" ")
