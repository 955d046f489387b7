"""Evaluation to true, false, null or undecided, by Apache's rules, including the surprising ones."""

from __future__ import annotations

import pytest

from skyrocket.broker.pull.sql.errors import UndecidedError
from skyrocket.broker.pull.sql.filter import SqlFilter
from skyrocket.protocol.message.properties import encode_properties
from skyrocket.protocol.message.record import MAGIC, MAGIC_V2, Record, encode_record

UNDECIDED = "undecided"


def decided(expression: str, **properties: str) -> bool | str | None:
    try:
        return SqlFilter(expression).decide(encode_properties(properties))
    except UndecidedError:
        return UNDECIDED


@pytest.mark.parametrize(
    ("expression", "a", "verdict"),
    [
        ("a > 5", "6", True),
        ("a > 5", "5", False),
        ("a >= 5", "5", True),
        ("a < 5", "-6", True),
        ("a <= 5", "+5", True),
        ("a = 5", "005", True),
        ("a <> 5", "6", True),
        ("a > -5", "-4", True),
        ("5 < a", "6", True),
        ("a BETWEEN 5 AND 7", "7", True),
        ("a NOT BETWEEN 5 AND 7", "7", False),
        ("a NOT BETWEEN 5 AND 7", "8", True),
        ("a > 5.5", "5.6", True),
        ("a > 5.5", " 0x1p3 ", True),
        ("a > 5.5", "NaN", True),
        ("a = 'eu'", "eu", True),
        ("a = 'eu'", "EU", False),
        ("a <> 'eu'", "us", True),
        ("a IN ('eu', 'us')", "us", True),
        ("a NOT IN ('eu', 'us')", "us", False),
        ("a CONTAINS 'b'", "abc", True),
        ("a STARTSWITH 'b'", "abc", False),
        ("a ENDSWITH 'bc'", "abc", True),
        ("a NOT ENDSWITH 'bc'", "abc", False),
        ("a = TRUE", "TruE", True),
        ("a = FALSE", "anything", True),
        ("a = 'x' OR a = 'y' OR a = 'z'", "z", True),
        ("a > 1 AND a > 2 AND a > 3", "3", False),
    ],
)
def test_value_is_compared_by_the_type_of_the_other_operand(expression: str, a: str, verdict: bool):
    assert decided(expression, a=a) is verdict


@pytest.mark.parametrize(
    ("expression", "verdict"),
    [
        ("a > 5", None),
        ("a = 5", None),
        ("a <> 5", None),
        ("a = 'x'", None),
        ("a IN ('x')", None),
        ("a NOT IN ('x')", None),
        ("a BETWEEN 1 AND 2", None),
        ("a", None),
        ("NOT a", None),
        ("a IS NULL", True),
        ("a IS NOT NULL", False),
        # string matches of a missing property are false, not null
        ("a CONTAINS 'x'", False),
        ("a NOT CONTAINS 'x'", False),
        # null = null is true; a value = null is false
        ("a = b", True),
        ("a <> b", False),
        ("5 = a", False),
        ("5 <> a", True),
        ("a = -b", True),
        # three-valued logic
        ("a = 1 AND c = 'x'", None),
        ("a = 1 AND c = 'y'", False),
        ("a = 1 OR c = 'x'", True),
        ("a = 1 OR c = 'y'", None),
        ("c = 'y' OR c = 'z' OR a = 1", None),
        ("NOT (a = 1)", None),
        ("(a = 1) IS NULL", True),
        ("NULL", None),
        ("NULL IS NULL", True),
    ],
)
def test_a_missing_property_is_null(expression: str, verdict: bool | None):
    assert decided(expression, c="x") is verdict


@pytest.mark.parametrize(
    ("expression", "a"),
    [
        ("a = 5", "x"),
        ("a > 5", "5.5"),
        ("a > 5", " 6"),
        ("a > 5", "3000000000"),
        ("a > 3000000000", "9223372036854775808"),
        ("a > 5.5", "x"),
        ("a > b", "x"),
        ("NOT (a = 5)", "x"),
        ("a = 5 OR b = '1'", "x"),
        ("TRUE = a", "true"),
        ("(b = '1') = a", "true"),
        ("-(a = 5) IS NULL", "x"),
    ],
)
def test_incomparable_values_are_undecided(expression: str, a: str):
    assert decided(expression, a=a, b="1") == UNDECIDED


def test_first_deciding_term_skips_the_rest():
    assert decided("b = '2' AND a = 5", a="x", b="1") is False
    assert decided("b = '1' OR a = 5", a="x", b="1") is True


@pytest.mark.parametrize(
    ("expression", "verdict"),
    [
        ("a > b", True),  # properties are ordered as Doubles
        ("a = b", False),  # but compared for equality as texts
        ("a = '10'", True),
        ("NOT a = 5", False),  # NOT a is false, and false is not 5
        ("a", False),  # a text is never true
        ("5 = TRUE", False),
        ("(a = 10) = TRUE", True),
        ("'true' = (a = 10)", True),
        ("-a IS NULL", True),  # a text has no sign
        ("5 = 5.0", True),
        ("9007199254740993 = 9007199254740992.0", True),  # a Long becomes a Double
        ("a CONTAINS ''", False),
        ("a NOT CONTAINS ''", False),
        ("5 CONTAINS '5'", False),
        ("'abc' CONTAINS 'b'", True),
    ],
)
def test_surprising_results_equal_apaches(expression: str, verdict: bool):
    assert decided(expression, a="10", b="9.0") is verdict


def test_properties_are_found_as_in_the_decoded_message():
    wanted = SqlFilter("a = 'x'")
    assert wanted.decide(b"a\x01x\x02") is True
    assert wanted.decide(b"a\x01x") is True, "the last property needs no terminator"
    assert wanted.decide(b"aa\x01x\x02ba\x01x\x02") is None, "other names"
    assert wanted.decide(b"b\x01a\x01x\x02") is None, "the name occurs inside a value"
    assert wanted.decide(b"a\x01y\x02a\x01x\x02") is True, "the last of two counts"
    assert wanted.decide(b"a\x01x\x02a\x01\x02") is True, "a property without a value does not count"
    assert wanted.decide(b"a\x01\x02") is None
    assert wanted.decide(b"") is None
    assert SqlFilter("a = '\ufffd'").decide(b"a\x01\xff\x02") is True, "invalid UTF-8 becomes a replacement character"


@pytest.mark.parametrize("magic", [MAGIC, MAGIC_V2])
@pytest.mark.parametrize("born_host", [bytes(8), bytes(20)])
def test_the_properties_of_any_record_are_found_behind_its_body(magic: int, born_host: bytes):
    wanted = SqlFilter("a > 5 AND region = 'eu'")
    for a, verdict in (("6", True), ("5", False), ("x", False)):
        properties = encode_properties({"region": "eu", "a": a})
        record = Record("orders", b"\x02a\x0199\x02" * 50, properties, born_host=born_host, store_host=bytes(20), magic=magic)
        assert wanted.passes(memoryview(encode_record(record))) is verdict
    assert wanted.passes(memoryview(encode_record(Record("orders", b"", b"")))) is False


def test_long_expression_examines_fewer_messages_in_one_read():
    assert SqlFilter("a = 'x'").messages_per_read_max > 1024
    assert SqlFilter(" OR ".join(["a"] * 2_000)).messages_per_read_max < 100
