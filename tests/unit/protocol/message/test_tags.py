"""A tag's hash is Java's, and an expression means what it means to Java."""

from __future__ import annotations

import pytest

from skyrocket.protocol.errors import SubscriptionError
from skyrocket.protocol.message.tags import java_hash, subscription_codes, subscription_tags, tags_code


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", 0),
        ("a", 97),
        ("TagA", 2_598_919),
        ("polygenelubricants", -(1 << 31)),
        ("Aa", 2112),
        ("BB", 2112),
        ("é", 233),
        ("\uffff", 65_535),
        ("🚀", 31 * 0xD83D + 0xDE80),
        ("\ud800", 0xD800),
        ("TagA||B", 115_107_675),
    ],
)
def test_javas_hash(text: str, code: int):
    assert java_hash(text) == tags_code(text) == code


def test_long_text_wraps_as_javas_ints_do():
    exact = sum(122 * 31**i for i in range(500))
    assert java_hash("z" * 500) == tags_code("z" * 500) == (exact + (1 << 31)) % (1 << 32) - (1 << 31)


@pytest.mark.parametrize("tags", [None, ""])
def test_a_message_without_a_tag(tags: str | None):
    assert tags_code(tags) == 0


@pytest.mark.parametrize("expression", [None, "", "*"])
def test_expressions_for_all_messages(expression: str | None):
    assert subscription_tags(expression) is None
    assert subscription_codes(expression) is None


@pytest.mark.parametrize(
    ("expression", "tags"),
    [
        ("A", {"A"}),
        ("A || B", {"A", "B"}),
        ("A||B", {"A", "B"}),
        (" A ||\t|| B ", {"A", "B"}),
        ("||A", {"A"}),
        ("A||A", {"A"}),
        ("A|B", {"A|B"}),
        ("|||", {"|"}),
        ("A|||B", {"A", "|B"}),
        ("* || A", {"*", "A"}),
        ("\u3000A||B", {"\u3000A", "B"}),  # Java's trim leaves blanks beyond ASCII alone
        (" ", set()),  # nothing, not everything
    ],
)
def test_expressions_with_tags(expression: str, tags: set[str]):
    assert subscription_tags(expression) == tags
    assert subscription_codes(expression) == {java_hash(tag) for tag in tags}


@pytest.mark.parametrize("expression", ["||", "||||"])
def test_bars_alone_are_an_error(expression: str):
    with pytest.raises(SubscriptionError, match="no tag"):
        subscription_tags(expression)
