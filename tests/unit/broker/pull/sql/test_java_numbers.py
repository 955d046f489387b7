from __future__ import annotations

import math

import pytest

from skyrocket.broker.pull.sql.errors import UndecidedError
from skyrocket.broker.pull.sql.java_numbers import INTEGER_MAX, LONG_MAX, double, double_order, whole_number


@pytest.mark.parametrize(
    ("text", "value"),
    [("5", 5), ("+5", 5), ("-5", -5), ("007", 7), ("٥", 5), ("-2147483648", -(2**31)), ("2147483647", 2**31 - 1)],
)
def test_whole_numbers_are_parsed_like_java(text: str, value: int):
    assert whole_number(text, INTEGER_MAX) == whole_number(text, LONG_MAX) == value


@pytest.mark.parametrize(
    "text", ["", " 5", "5 ", "5.0", "5L", "1_0", "0x5", "+", "--5", "²", "𝟓", "2147483648", "-2147483649", "9" * 5000]
)
def test_invalid_whole_numbers_are_rejected_like_java(text: str):
    with pytest.raises(UndecidedError):
        whole_number(text, INTEGER_MAX)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5", 5.0),
        (" 5.5e1\t", 55.0),
        (".5", 0.5),
        ("5.", 5.0),
        ("5d", 5.0),
        ("5.5F", 5.5),
        ("0x1.8p1", 3.0),
        ("0x.8P1f", 1.0),
        ("Infinity", math.inf),
        ("-Infinity", -math.inf),
        ("1e400", math.inf),
        ("-0x1p9999", -math.inf),
        ("1e-400", 0.0),
    ],
)
def test_doubles_are_parsed_like_java(text: str, value: float):
    assert double(text) == value


@pytest.mark.parametrize(
    "text", ["", " ", "x", "inf", "nan", "infinity", "NaNd", "1_0", "0x10", "1e", "5L", "1 0", "٥", "5ff", "\u00a05"]
)
def test_invalid_doubles_are_rejected_like_java(text: str):
    with pytest.raises(UndecidedError):
        double(text)


def test_doubles_are_ordered_like_java():
    in_order = [-math.inf, -1.0, -0.0, 0.0, 1.0, math.inf, math.nan]
    for i, left in enumerate(in_order):
        for j, right in enumerate(in_order):
            assert double_order(left, right) == (i > j) - (i < j), (left, right)
