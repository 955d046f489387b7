"""SQL92 expressions and property sets, by seed: sound ones, strange ones, and broken ones."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import NamedTuple

from skyrocket.protocol.message.properties import encode_properties

NAMES = ["a", "b", "c", "region", "_x", "$y", "A", "TAGS", "null_", "inn", "Z9$_"]
INTEGERS = ["0", "1", "5", "7", "10", "5L", "2147483647", "2147483648", "3000000000l", "9223372036854775807", "9007199254740993"]
FLOATS = ["5.0", "5.", ".5", "1e1", "5E0", "0.5e+1", "1.5", "2147483648.0", "9007199254740992.0", "1e308", "4.9E-324", "007.5"]
STRANGE_NUMBERS = [
    "0.0",
    "00",
    "007",
    "0L",
    "9223372036854775808",
    "1e309",
    "1e-400",
    "5e",
    "1.5L",
    "0x10",
    "1..2",
    "5_0",
    "99" * 40,
]
WORDS = ["eu", "us", "EU", "", "it''s", "5", "true", "TRUE", "a b", "é€", "🚀", "--x", "/*x*/", "e", "u", "''", "x\ny", "%"]
VALUES = [
    *[
        "5",
        "5.0",
        "7",
        "-5",
        "+5",
        "0",
        "-0",
        "-0.0",
        "0.0",
        "10",
        "05",
        "5L",
        " 5",
        "5 ",
        "\t5.5\x1f",
        "\x075",
        "\u00a05",
        "1e1",
        "5d",
        "5.5f",
        ".5",
        "5.",
    ],
    *["2147483647", "2147483648", "-2147483648", "-2147483649", "3000000000", "9223372036854775807", "9223372036854775808"],
    *[
        "-9223372036854775808",
        "9007199254740993",
        "9007199254740992",
        "NaN",
        "-NaN",
        "Infinity",
        "-Infinity",
        "inf",
        "nan",
        "1e400",
    ],
    *[
        "0x1p3",
        "0x1.8P1",
        "0x.8p1f",
        "0x10",
        "1_0",
        "5",
        "٥",
        "𝟓",
        "1e",
        "e1",
        "--5",
        "+",
        "-",
        ".",
        "1.5.5",
        "１０",
        "1e-400",
        "0x1p9999",
    ],
    *[
        "eu",
        "us",
        "EU",
        "it's",
        "true",
        "TRUE",
        "True",
        "false",
        "trüe",
        " true",
        "a b",
        "é€",
        "🚀",
        "x\ny",
        "null",
        "NULL",
        "'",
        "eu us",
    ],
]
KEYWORDS = ["AND", "OR", "NOT", "BETWEEN", "IN", "IS", "NULL", "TRUE", "FALSE", "CONTAINS", "STARTSWITH", "ENDSWITH"]
SIGNS = [
    "=",
    "<>",
    "<",
    "<=",
    ">",
    ">=",
    "(",
    ")",
    ",",
    "+",
    "-",
    "!=",
    "==",
    "'",
    '"',
    "--",
    "/*",
    "*/",
    "*",
    "%",
    ".",
    ";",
    "\\",
    "é",
    "K",
]
BLANKS = [" "] * 12 + ["", "  ", "\t", "\n", "\r\n", "\f", "/* c */", "/***/", "--c\n", "-- c\r"]


class Case(NamedTuple):
    expression: str
    properties: list[bytes]  # as they lie in a record


def cases(seed: int, count: int, sets: int = 6) -> Iterator[Case]:
    chance = random.Random(seed)
    for _ in range(count):
        words = _condition(chance, chance.choice((0, 1, 1, 2, 2, 3)))
        if chance.random() < 0.2:
            words = _broken(chance, words)
        expression = _joined(chance, words)
        if chance.random() < 0.05:
            expression = _scratched(chance, expression)
        yield Case(expression, [_properties(chance) for _ in range(sets)])


def _properties(chance: random.Random) -> bytes:
    """Each name with a chance to be there; now and then twice, or with a piece that is no property."""
    names = chance.sample(NAMES, chance.randint(0, len(NAMES)))
    encoded = b"".join(encode_properties({name: chance.choice(VALUES)}) for name in names)
    if chance.random() < 0.1:
        encoded += chance.choice(
            [b"a\x015\x02", b"a\x01\x02", b"a\x02", b"\x01a\x02", b"a\x015", b"a\x015\x016\x02", b"\x02\x02b\x01\xff7"]
        )
    return encoded


# --- sound ones, mostly


def _condition(chance: random.Random, depth: int) -> list[str]:
    kind = chance.random()
    if depth == 0 or kind < 0.35:
        return _comparison(chance, depth)
    if kind < 0.75:
        link = chance.choice(("AND", "OR"))
        terms = [_condition(chance, depth - 1) for _ in range(chance.choice((2, 2, 2, 3, 4)))]
        return [word for term in terms for word in (link, *term)][1:]
    inner = ["(", *_condition(chance, depth - 1), ")"]
    return inner if kind < 0.85 else ["NOT", *inner]


def _comparison(chance: random.Random, depth: int) -> list[str]:
    negated = ["NOT"] if chance.random() < 0.4 else []
    kind = chance.randrange(12)
    if kind < 4:
        return [*_amount(chance, depth), chance.choice((">", ">=", "<", "<=")), *_amount(chance, depth)]
    if kind < 7:
        return [*_value(chance, depth), chance.choice(("=", "=", "<>")), *_value(chance, depth)]
    if kind == 7:
        return [*_amount(chance, depth), *negated, "BETWEEN", *_amount(chance, depth), "AND", *_amount(chance, depth)]
    if kind == 8:
        listed = [word for item in range(chance.randint(1, 7)) for word in (",", _string(chance))][1:]
        return [*_value(chance, 0, 0.0), *negated, "IN", "(", *listed, ")"]
    if kind == 9:
        return [*_value(chance, depth), "IS", *negated, "NULL"]
    if kind == 10:
        return [*_value(chance, depth, 0.1), *negated, chance.choice(("CONTAINS", "STARTSWITH", "ENDSWITH")), _string(chance)]
    return [chance.choice((*NAMES, "TRUE", "FALSE", "NULL", "5"))]


def _amount(chance: random.Random, depth: int) -> list[str]:
    """What can be more or less, as a rule."""
    if chance.random() < 0.04:
        return _value(chance, depth)
    sign = [chance.choice(("+", "-", "--"))] if chance.random() < 0.15 else []
    return [*sign, chance.choice((chance.choice(NAMES), _number(chance)))]


def _value(chance: random.Random, depth: int, numbers: float = 0.4) -> list[str]:
    kind = chance.random()
    if kind < 0.04:
        return [chance.choice(("+", "-", "-", "NOT")), *_value(chance, depth, numbers)]
    if kind < 0.10:
        return ["(", *(_condition(chance, depth - 1) if depth > 0 else _value(chance, 0, numbers)), ")"]
    if kind < 0.5 or numbers == 0.0:
        return [chance.choice(NAMES)]
    if chance.random() < numbers:
        return [_number(chance)]
    return [chance.choice((_string(chance), _string(chance), _string(chance), "TRUE", "FALSE", chance.choice(("NULL", "TRUE"))))]


def _number(chance: random.Random) -> str:
    return chance.choice(STRANGE_NUMBERS if chance.random() < 0.03 else chance.choice((INTEGERS, INTEGERS, FLOATS)))


def _string(chance: random.Random) -> str:
    return f"'{chance.choice(WORDS)}'"


def _joined(chance: random.Random, words: list[str]) -> str:
    """Keywords in any case, and blanks or comments between the words; sometimes nothing."""
    said = [chance.choice((word, word.lower(), word.title())) if word in KEYWORDS else word for word in words]
    return "".join(chance.choice(("", " ")) + word + chance.choice(BLANKS) for word in said)


# --- broken ones


def _broken(chance: random.Random, words: list[str]) -> list[str]:
    words = list(words)
    for _ in range(chance.choice((1, 1, 2, 3))):
        at = chance.randrange(len(words) + 1)
        other = chance.choice((*KEYWORDS, *SIGNS, *NAMES, *INTEGERS, *FLOATS, *STRANGE_NUMBERS, _string(chance)))
        how = chance.randrange(4)
        if how == 0:
            words.insert(at, other)
        elif how == 1:
            del words[at : at + 1]
        elif how == 2:
            words[at : at + 1] = [other]
        else:
            words = words[:at]
    return words


def _scratched(chance: random.Random, text: str) -> str:
    at = chance.randrange(len(text) + 1)
    return (
        text[:at]
        + chance.choice(("", "'", '"', "\x00", "\v", "\u00a0", "é", "(", ")", "/", "*", "-", "\ud7ff", "ſ"))
        + text[at + chance.randrange(2) :]
    )
