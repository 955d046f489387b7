"""Expressions of whatever clients may send: a filter or the typed error, and soon."""

from __future__ import annotations

import random
import time

from skyrocket.broker.pull.sql.errors import ExpressionError, UndecidedError
from skyrocket.broker.pull.sql.filter import SqlFilter
from skyrocket.broker.pull.sql.limits import EXPRESSION_LENGTH_MAX
from tests.support.sql_expressions import FLOATS, INTEGERS, KEYWORDS, NAMES, SIGNS, STRANGE_NUMBERS, cases

SECONDS_MAX = 5.0  # for one expression: a hang, not a slow machine


def tried(expression: str, properties: bytes) -> str:
    began = time.thread_time()
    try:
        verdict = str(SqlFilter(expression).decide(properties))
    except ExpressionError as error:
        verdict = "refused" if 1 <= error.position <= len(expression) + 1 else "nowhere"
    except UndecidedError:
        verdict = "undecided"
    assert verdict != "nowhere", expression
    assert time.thread_time() - began < SECONDS_MAX, expression[:200]
    return verdict


def test_random_bytes_are_refused_or_parsed():
    chance = random.Random(1)
    for _ in range(3_000):
        expression = chance.randbytes(chance.randint(0, 60)).decode("latin-1")
        tried(expression, chance.randbytes(chance.randint(0, 60)))


def test_random_words_are_refused_or_parsed():
    chance = random.Random(2)
    words = [*KEYWORDS, *SIGNS, *NAMES, *INTEGERS, *FLOATS, *STRANGE_NUMBERS, "'x'", "''"]
    verdicts = [tried(" ".join(chance.choices(words, k=chance.randint(1, 20))), b"a\x015\x02b\x01x\x02") for _ in range(10_000)]
    assert len(set(verdicts)) >= 3, "nothing of it is an expression"


def test_valid_expressions_evaluate_on_any_property_bytes():
    chance = random.Random(3)
    for case in cases(seed=3, count=2_000, sets=1):
        scratched = bytearray(case.properties[0] + b"a\x015\x02")
        for _ in range(3):
            scratched[chance.randrange(len(scratched))] = chance.randrange(256)
        tried(case.expression, bytes(scratched))


def test_hostile_expressions_do_not_hang():
    """What nests, repeats or looks ahead without end, as long as it may be."""
    pieces = [
        "(",
        ")",
        "-",
        "--",
        "+(",
        "NOT ",
        "NOT(",
        "a=",
        "a AND ",
        "a OR ",
        "a>1=",
        "-(a BETWEEN ",
        "/*",
        "/**",
        "*/",
        "'",
        "''",
    ]
    pieces += [
        "a IN('x',",
        "1e",
        "9",
        ".",
        "a b ",
        "a NOT IN ('x') AND ",
        "TRUE=",
        "-a=",
        "(a=1)=",
        "\n",
        "--\n",
        "a CONTAINS 'aaaa' OR ",
    ]
    for piece in pieces:
        for tail in ("", "a", "a = 1", ")", "'"):
            tried((piece * EXPRESSION_LENGTH_MAX)[: EXPRESSION_LENGTH_MAX - len(tail)] + tail, b"a\x01" + b"a" * 30_000)


def test_nested_between_does_not_double_the_work():
    nested = "a"
    for _ in range(20):
        nested = f"-({nested}) BETWEEN 1 AND 2"
    began = time.thread_time()
    assert tried(nested, b"a\x015\x02") == "None"
    assert time.thread_time() - began < 0.25, "a million steps instead of sixty"
