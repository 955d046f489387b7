"""The tokens of an expression.

Tokens are read one at a time, on demand: the text behind a complete expression is never read (see `parser`). At each position
the longest token counts: `--` begins a comment if its line ends, and is two minus signs if it does not.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import NamedTuple

from skyrocket.broker.pull.sql.errors import ExpressionError


class TokenKind(Enum):
    """The kind of a token. The value is its name in error messages."""

    NOT = "NOT"
    AND = "AND"
    OR = "OR"
    BETWEEN = "BETWEEN"
    IN = "IN"
    TRUE = "TRUE"
    FALSE = "FALSE"
    NULL = "NULL"
    IS = "IS"
    CONTAINS = "CONTAINS"
    STARTSWITH = "STARTSWITH"
    ENDSWITH = "ENDSWITH"
    EQUAL = "="
    UNEQUAL = "<>"
    LESS = "<"
    LESS_OR_EQUAL = "<="
    GREATER = ">"
    GREATER_OR_EQUAL = ">="
    OPEN = "("
    CLOSE = ")"
    COMMA = ","
    PLUS = "+"
    MINUS = "-"
    STRING = "a string in single quotes"
    INTEGER = "a whole number"
    FLOAT = "a number"
    NAME = "a property"
    END = "the end"


class Token(NamedTuple):
    kind: TokenKind
    text: str  # as written in the expression
    at: int  # position, from 0

    @property
    def shown(self) -> str:
        return "the end" if self.kind is TokenKind.END else f"'{self.text[:32]}'"


_NAMES = {kind.value: kind for kind in TokenKind if kind.value.isupper()}
_SIGNS = {kind.value: kind for kind in TokenKind if not kind.value[0].isalpha()}

_SKIPPED = re.compile(r"(?: |[\t\n\r\f]|--[^\n\r]*[\n\r]|/\*[^*]*\*+(?:[^*/][^*]*\*+)*/)*")

# ASCII only: a letter or digit of another script is no token. Floats stand before integers because they are longer. A zero is an
# integer of its own, so 007 is three integers.
_TOKEN = re.compile(
    r"(?P<FLOAT>[0-9]+\.[0-9]*(?:[eE][+-]?[0-9]+)?|\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+)"
    r"|(?P<INTEGER>0|[1-9][0-9]*[lL]?)"
    r"|(?P<NAME>[A-Za-z_$][A-Za-z0-9_$]*)"
    r"|(?P<STRING>'(?:''|[^'])*')"
    r"|(?P<SIGN><>|<=|>=|[=<>(),+-])"
)


class Tokens:
    """The tokens of a text, with one token of lookahead."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self.next = self._read()

    def take(self) -> Token:
        taken, self.next = self.next, self._read()
        return taken

    def _read(self) -> Token:
        skipped = _SKIPPED.match(self._text, self._at)
        assert skipped is not None, "it matches nothing too"
        at = skipped.end()
        found = _TOKEN.match(self._text, at)
        if found is None:
            if at == len(self._text):
                return Token(TokenKind.END, "", at)
            raise ExpressionError(at + 1, _unreadable(self._text, at))
        self._at = found.end()
        text = found.group()
        return Token(_kind(found.lastgroup or "", text), text, at)


def _kind(group: str, text: str) -> TokenKind:
    if group == "NAME":
        return _NAMES.get(text.upper(), TokenKind.NAME)
    return _SIGNS[text] if group == "SIGN" else TokenKind[group]


def _unreadable(text: str, at: int) -> str:
    if text[at] == "'":
        return "the string has no end"
    if text.startswith("/*", at):
        return "the comment has no end"
    return f"{text[at]!r} means nothing here"
