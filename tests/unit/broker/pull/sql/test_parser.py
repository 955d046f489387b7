"""Which texts are expressions, and the position and reason of each error."""

from __future__ import annotations

import pytest

from skyrocket.broker.pull.sql.errors import ExpressionError
from skyrocket.broker.pull.sql.limits import EXPRESSION_LENGTH_MAX, IN_WORDS_MAX, NESTING_MAX, NODES_MAX
from skyrocket.broker.pull.sql.parser import parse
from skyrocket.broker.pull.sql.syntax import (
    Among,
    Cast,
    Condition,
    Equal,
    Every,
    Has,
    Not,
    Number,
    Numeral,
    Order,
    Ordered,
    Property,
    Some,
    StringMatch,
    Text,
    Truth,
)

A, B, C = Property("a"), Property("b"), Property("c")
FIVE = Numeral(5, Number.INTEGER)


def tree(expression: str) -> Condition:
    return parse(expression).tree


def refused(expression: str) -> ExpressionError:
    with pytest.raises(ExpressionError) as caught:
        parse(expression)
    return caught.value


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("a > 5", Ordered(Order.GREATER, A, FIVE, 2)),
        ("a >= 5", Ordered(Order.GREATER_OR_EQUAL, A, FIVE, 2)),
        ("a < 5", Ordered(Order.LESS, A, FIVE, 2)),
        ("a <= b", Ordered(Order.LESS_OR_EQUAL, A, B, 2)),
        ("a = 'eu'", Equal(A, Text("eu"), 2)),
        ("a <> 'eu'", Not(Equal(A, Text("eu"), 2), 3)),
        ("a = TRUE", Equal(A, Truth(True), 2)),
        ("a IS NULL", Equal(A, Truth(None), 2)),
        ("a IS NOT NULL", Not(Equal(A, Truth(None), 2), 3)),
        ("a IN ('x', 'y', 'x')", Among(A, frozenset("xy"), negated=False)),
        ("a NOT IN ('x')", Among(A, frozenset("x"), negated=True)),
        ("a CONTAINS 'x'", Has(StringMatch.CONTAINS, A, "x", False, 2)),
        ("a NOT STARTSWITH 'x'", Has(StringMatch.STARTSWITH, A, "x", True, 2)),
        ("a ENDSWITH 'x'", Has(StringMatch.ENDSWITH, A, "x", False, 2)),
        ("a", Cast(A)),
        ("TRUE", Truth(True)),
        ("null", Truth(None)),
        ("(((a)))", Cast(A)),
        ("NOT (a > 5)", Not(Ordered(Order.GREATER, A, FIVE, 2), 3)),
    ],
)
def test_each_row_of_the_grammar_is_parsed(expression: str, expected: Condition):
    assert tree(expression) == expected


def test_between_is_two_comparisons():
    assert tree("a BETWEEN 5 AND b") == tree("a >= 5 AND a <= b")
    assert tree("a NOT BETWEEN 5 AND b") == tree("a < 5 OR a > b")


def test_and_binds_more_tightly_than_or_and_brackets_more_than_both():
    a, b, c = Cast(A), Cast(B), Cast(C)
    assert tree("a OR b AND c") == Some((a, Every((b, c), 3)), 4)
    assert tree("(a OR b) AND c") == Every((Some((a, b), 3), c), 4)
    assert tree("a OR b OR c") == Some((a, b, c), 3)


def test_not_binds_more_tightly_than_a_comparison():
    assert tree("NOT a = 5") == Equal(Not(Cast(A), 3), FIVE, 4)
    assert "neither less nor more" in refused("NOT a > 5").reason


def test_keywords_ignore_case_and_names_do_not():
    assert tree("a In ('x') aNd nOt (b iS nUlL)") == tree("a IN ('x') AND NOT (b IS NULL)")
    assert tree("A = 'x'") != tree("a = 'x'")
    assert tree("$_9x = 'x'") == Equal(Property("$_9x"), Text("x"), 2)
    assert tree("notes = 'x'") == Equal(Property("notes"), Text("x"), 2)


def test_comments_and_blanks_separate_tokens():
    assert tree("/* a * / b **/a--c\n=/**/'x'\t-- no end of line, so these are signs behind a whole condition") == tree("a = 'x'")


def test_a_quote_in_a_string_is_written_twice():
    assert tree("a = 'it''s -- /* é'") == Equal(A, Text("it's -- /* é"), 2)


@pytest.mark.parametrize(
    ("text", "value", "number"),
    [
        ("0", 0, Number.INTEGER),
        ("2147483647", 2**31 - 1, Number.INTEGER),
        ("5L", 5, Number.INTEGER),
        ("2147483648", 2**31, Number.LONG),
        ("9223372036854775807l", 2**63 - 1, Number.LONG),
        ("5.", 5.0, Number.DOUBLE),
        (".5e-1", 0.05, Number.DOUBLE),
        ("00.5", 0.5, Number.DOUBLE),
        ("5E2", 500.0, Number.DOUBLE),
    ],
)
def test_numbers_have_javas_types(text: str, value: float, number: Number):
    assert tree(f"a > {text}") == Ordered(Order.GREATER, A, Numeral(value, number), 2)


def test_text_behind_a_complete_condition_is_ignored_like_apaches():
    assert tree("a = 5 b") == tree("a = 5) OR") == tree("a = 5 , 'x' \"") == tree("a = 5")
    assert tree("a > 007") == tree("a > 0")
    assert refused('a = 5 "').position == 7, "the first token behind a complete condition is read"


@pytest.mark.parametrize(
    ("expression", "position", "reason"),
    [
        ("", 1, "missing before the end"),
        ("   ", 4, "missing before the end"),
        ("a >", 4, "missing before the end"),
        ("a = = 5", 5, "missing before '='"),
        ("a = 'eu", 5, "the string has no end"),
        ("a = 5 /* eu", 7, "the comment has no end"),
        ("a # 5", 3, "'#' means nothing here"),
        ("größe > 5", 3, "'ö' means nothing here"),
        ("(a > 5", 7, ") is missing before the end"),
        ("a IN 'x'", 6, "( is missing before ''x''"),
        ("a IN ()", 7, "a string in single quotes is missing before ')'"),
        ("a IN (5)", 7, "a string in single quotes is missing before '5'"),
        ("5 IN ('x')", 3, "only a property can be IN a list"),
        ("a CONTAINS b", 12, "a string in single quotes is missing before 'b'"),
        ("a NOT > 5", 7, "behind a value, NOT goes with BETWEEN"),
        ("a IS 5", 6, "NULL is missing before '5'"),
        ("a = NULL", 3, "IS NULL and IS NOT NULL ask for it"),
        ("NULL <> a", 6, "nothing is <> NULL"),
        ("TRUE = 'x'", 6, "a truth cannot be compared with the constant"),
        ("a > 'x'", 3, "a text is neither less nor more"),
        ("a > TRUE", 3, "a truth or NULL is neither less nor more"),
        ("a > 5 > 3", 7, "a truth or NULL is neither less nor more"),
        ("a BETWEEN 5 OR 6", 13, "AND is missing before 'OR'"),
        ("a BETWEEN 6 AND 5", 3, "the first must not be more than the second"),
        ("a BETWEEN 6 AND 5.5", 3, "the first must not be more than the second"),
        ("5", 1, "this is only a value"),
        ("'x'", 1, "this is only a value"),
        ("a = 1 AND -b", 7, "this is only a value"),
        ("NOT 5", 1, "this is only a value"),
        ("a = 9223372036854775808", 5, "more than a whole number can be"),
        ("a = 1e309", 5, "more than a constant with a fraction can be"),
        ("a = 0.0", 5, "less than a constant with a fraction can be"),
    ],
)
def test_syntax_error_has_its_position(expression: str, position: int, reason: str):
    error = refused(expression)
    assert (error.position, reason in error.reason) == (position, True), str(error)
    assert str(error) == f"The expression is wrong at character {position}: {error.reason}."


def brackets(count: int) -> str:
    return "(" * count + "a" + ")" * count


def words(count: int) -> str:
    return "a IN (" + ",".join(["'x'"] * count) + ")"


@pytest.mark.parametrize(
    ("within", "beyond", "reason"),
    [
        ("a = 'x'".ljust(EXPRESSION_LENGTH_MAX), "a = 'x'".ljust(EXPRESSION_LENGTH_MAX + 1), "characters"),
        (brackets(NESTING_MAX), brackets(NESTING_MAX + 1), "inside of each other"),
        ("NOT " * (NESTING_MAX - 2) + "a", "NOT " * (NESTING_MAX - 1) + "a", "inside of each other"),
        ("a > " + "- " * (NESTING_MAX - 2) + "5", "a > " + "- " * (NESTING_MAX - 1) + "5", "inside of each other"),
        ("a" + " = b" * (NESTING_MAX - 1), "a" + " = b" * NESTING_MAX, "inside of each other"),
        ("a OR " * (NODES_MAX // 2 - 2) + "a", "a OR " * (NODES_MAX // 2 - 1) + "a", "properties, constants and operators"),
        (words(IN_WORDS_MAX), words(IN_WORDS_MAX + 1), "words"),
    ],
    ids=["length", "brackets", "NOTs", "signs", "equalities", "nodes", "words"],
)
def test_every_bound_has_its_error(within: str, beyond: str, reason: str):
    parse(within)
    assert reason in refused(beyond).reason


def test_long_chain_of_signs_is_rejected_at_once():
    for bomb in (
        "(" * 16_000,
        "-" * 16_000,
        "NOT " * 4_000,
        "a=" * 8_000,
        "--" * 8_000,
        "/*" * 8_000,
        "'" * 15_999,
        "+(" * 8_000,
    ):
        refused(bomb)
