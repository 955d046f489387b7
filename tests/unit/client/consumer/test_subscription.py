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


@pytest.mark.parametrize(
    "expression",
    [
        "amount > 100",
        "amount>100",
        "region = 'eu'",
        "a IS NOT NULL",
        "n between 1 and 3",
        "region IN ('eu', 'us')",
        "x CONTAINS 'y'",
    ],
)
def test_sql92_as_a_text_is_refused_because_it_would_be_taken_for_a_tag(expression: str):
    with pytest.raises(ConfigurationError, match="of topic 'orders' is SQL92") as caught:
        make_subscription("orders", expression, 0)
    assert f"Write sql({expression!r})" in str(caught.value)
    assert make_subscription("orders", sql(expression), 0).kind == SQL92


@pytest.mark.parametrize("expression", ["a | b", "a|b", "a || b | c"])
def test_single_bar_is_refused_with_the_corrected_expression(expression: str):
    with pytest.raises(ConfigurationError, match="has a single") as caught:
        make_subscription("orders", expression, 0)
    assert "'a || b" in str(caught.value)


@pytest.mark.parametrize("expression", ["a, b", "a or b"])
def test_list_of_tags_with_another_separator_is_warned_of(expression: str, caplog: pytest.LogCaptureFixture):
    assert make_subscription("orders", expression, 0).tags == {expression}
    assert "separate them with ||" in caplog.text


@pytest.mark.parametrize("expression", ["*", "", "web", "web || app", "new york || is-null", "order|| between"])
def test_tags_are_accepted_without_a_word(expression: str, caplog: pytest.LogCaptureFixture):
    make_subscription("orders", expression, 0)
    assert caplog.text == ""


def test_expression_of_another_type_is_refused():
    with pytest.raises(ConfigurationError, match=r"is \['a', 'b'\]"):
        make_subscription("t", ["a", "b"], 0)  # type: ignore[arg-type]
