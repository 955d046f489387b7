"""Compile a syntax tree to functions that evaluate a message's properties, by Apache's rules.

A function takes the encoded properties of a record, with an 0x02 before them, and searches for the properties that it needs:
one or two of a dozen decide most messages. Properties are texts, so the expression alone determines the type of each operand.
Each comparison is therefore chosen once, from this table, and not for each message:

            with   text           Integer, Long       Double            truth
    text           as texts (=)   the text as such a number             the text as a truth (=)
                   as Doubles     or UndecidedError                     (only "true" is one)
                   (<, >, …)
    number         as above       as numbers          as Doubles        never equal
    truth          UndecidedError never equal         never equal       as truths

Null is not a type. A property that a message lacks makes a comparison null, with Apache's two exceptions: null = null is true,
and a value = null is false.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from enum import Enum
from typing import Any, Final, TypeAlias

from skyrocket.broker.pull.sql.errors import UndecidedError
from skyrocket.broker.pull.sql.java_numbers import INTEGER_MAX, LONG_MAX, double, double_order, whole_number
from skyrocket.broker.pull.sql.syntax import (
    Among,
    Cast,
    Condition,
    Equal,
    Every,
    Has,
    Negation,
    Node,
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
    fold_signs,
)

Value: TypeAlias = str | int | float | bool | None
ValueFunction: TypeAlias = Callable[[bytes], Any]
Predicate: TypeAlias = Callable[[bytes], "bool | None"]
Comparison: TypeAlias = Callable[[Any, Any], bool]

END: Final = b"\x02"  # behind each property, and before the first


class _Type(Enum):
    TEXT = "text"
    INTEGER = "Integer"
    LONG = "Long"
    DOUBLE = "Double"
    TRUTH = "truth"
    VOID = "nothing"


_WHOLE: Final = {_Type.INTEGER: INTEGER_MAX, _Type.LONG: LONG_MAX}
_DIGITS_OF_EVERY_INTEGER: Final = 10
_SIGNS: Final[dict[Order, Callable[[Any, Any], bool]]] = {
    Order.LESS: operator.lt,
    Order.LESS_OR_EQUAL: operator.le,
    Order.GREATER: operator.gt,
    Order.GREATER_OR_EQUAL: operator.ge,
}


def compile_condition(tree: Condition) -> Predicate:
    """Compile a condition. The function raises UndecidedError for a message whose value cannot be compared."""
    return _compile(tree)


def _compile(node: Node) -> ValueFunction:
    return _MAKERS[type(node)](node)


def _type(node: Node) -> _Type:
    if isinstance(node, Property | Text):
        return _Type.TEXT
    if isinstance(node, Numeral):
        return _Type[node.number.name]
    if isinstance(node, Negation):
        return _Type.VOID
    return _Type.TRUTH


# --- values


def _property(node: Property) -> ValueFunction:
    """Read a property. When the name occurs several times, the last one with a value counts."""
    needle = END + node.name.encode() + b"\x01"
    size = len(needle)

    def read(properties: bytes) -> str | None:
        at = properties.rfind(needle)
        while at >= 0:
            start = at + size
            end = properties.find(END, start)
            value = properties[start:end] if end >= 0 else properties[start:]
            if value:
                return value.decode() if value.isascii() else value.decode("utf-8", "replace")
            at = properties.rfind(needle, 0, start - 1)  # without its last byte: the one that was found is not found again
        return None

    return read


def _constant(node: Text | Numeral | Truth) -> ValueFunction:
    value = node.value
    return lambda _properties: value


def _negation(node: Negation) -> ValueFunction:
    number = fold_signs(node)
    if isinstance(number, Numeral):
        return _constant(number)
    operand = _compile(node.operand)

    def nothing(properties: bytes) -> None:
        operand(properties)  # which may be undecided

    return nothing


# --- logic


def _cast(node: Cast) -> Predicate:
    operand = _property(node.operand)
    return lambda properties: None if operand(properties) is None else False


def _not(node: Not) -> Predicate:
    operand: Predicate = _compile(node.operand)

    def opposite(properties: bytes) -> bool | None:
        value = operand(properties)
        return None if value is None else not value

    return opposite


def _every(node: Every) -> Predicate:
    return _chain(node.terms, ends=False)


def _some(node: Some) -> Predicate:
    return _chain(node.terms, ends=True)


def _chain(nodes: tuple[Node, ...], *, ends: bool) -> Predicate:
    """Evaluate terms until one decides: false decides an AND, true an OR. Otherwise the result is null if any term is null."""
    terms: tuple[Predicate, ...] = tuple(map(_compile, nodes))
    if len(terms) == 2:
        return _pair(*terms, ends=ends)

    def decide(properties: bytes) -> bool | None:
        unknown = False
        for term in terms:
            value = term(properties)
            if value is ends:
                return ends
            if value is None:
                unknown = True
        return None if unknown else not ends

    return decide


def _pair(first: Predicate, second: Predicate, *, ends: bool) -> Predicate:
    """Evaluate a chain of two terms in fewer steps."""

    def decide(properties: bytes) -> bool | None:
        left = first(properties)
        if left is ends:
            return ends
        right = second(properties)
        return ends if right is ends else None if left is None or right is None else not ends

    return decide


# --- comparisons


def _equal(node: Equal) -> Predicate:
    left, right = _compile(node.left), _compile(node.right)
    if isinstance(node.right, Truth) and node.right.value is None:
        return lambda properties: left(properties) is None
    is_same = _same(_fold_type(node.left), _fold_type(node.right))
    if isinstance(node.left, Property) and isinstance(node.right, Text):
        return _equal_to_text(left, node.right.value)

    def decide(properties: bytes) -> bool | None:
        ours, theirs = left(properties), right(properties)
        if ours is None:
            return True if theirs is None else None
        return False if theirs is None else is_same(ours, theirs)

    return decide


def _compile_order(node: Ordered) -> Predicate:
    left, right = _compile(node.left), _compile(node.right)
    compares = _comparing(_fold_type(node.left), _fold_type(node.right), _SIGNS[node.order])
    number = fold_signs(node.right)
    if isinstance(node.left, Property) and isinstance(number, Numeral) and number.number is not Number.DOUBLE:
        return _compile_order_by_whole(left, _SIGNS[node.order], number.value, _WHOLE[_type(number)])

    def decide(properties: bytes) -> bool | None:
        ours = left(properties)
        if ours is None:
            return None
        theirs = right(properties)
        return None if theirs is None else compares(ours, theirs)

    return decide


def _equal_to_text(operand: ValueFunction, word: str) -> Predicate:
    """Compare a property with a constant, the most common comparison, in fewer steps than the general path."""

    def decide(properties: bytes) -> bool | None:
        text = operand(properties)
        return None if text is None else text == word

    return decide


def _compile_order_by_whole(operand: ValueFunction, sign: Callable[[Any, Any], bool], number: float, most: int) -> Predicate:
    """Compare a property with a whole number in fewer steps. A few plain digits need no checks."""

    def decide(properties: bytes) -> bool | None:
        text = operand(properties)
        if text is None:
            return None
        is_plain = len(text) < _DIGITS_OF_EVERY_INTEGER and text.isascii() and text.isdigit()
        return sign(int(text) if is_plain else whole_number(text, most), number)

    return decide


def _fold_type(node: Node) -> _Type:
    return _type(fold_signs(node))


def _same(ours: _Type, theirs: _Type) -> Comparison:
    if _Type.VOID in (ours, theirs):
        return _never  # a void operand is null, which the caller has handled
    if ours is theirs and ours in (_Type.TEXT, _Type.TRUTH):
        return operator.eq
    if ours is _Type.TEXT and theirs is _Type.TRUTH:
        return lambda text, truth: (text.lower() == "true") is truth
    if ours is _Type.TRUTH and theirs is _Type.TEXT:
        return _truth_with_text
    if _Type.TRUTH in (ours, theirs):
        return _never
    return _comparing(ours, theirs, operator.eq)


def _never(_ours: Value, _theirs: Value) -> bool:
    return False


def _truth_with_text(_ours: Value, theirs: Value) -> bool:
    raise UndecidedError(f"A truth cannot be compared with the text '{str(theirs)[:32]}'; the other way round it can.")


def _comparing(ours: _Type, theirs: _Type, sign: Callable[[Any, Any], bool]) -> Comparison:
    """Choose the comparison of texts and numbers. At least one operand is a number, unless the comparison is an ordering."""
    if ours in _WHOLE and theirs in _WHOLE:
        return sign
    if ours is _Type.TEXT and theirs in _WHOLE:
        most = _WHOLE[theirs]
        return lambda text, number: sign(whole_number(text, most), number)
    if theirs is _Type.TEXT and ours in _WHOLE:
        most = _WHOLE[ours]
        return lambda number, text: sign(number, whole_number(text, most))
    to_left, to_right = (double if kind is _Type.TEXT else float for kind in (ours, theirs))
    return lambda left, right: sign(double_order(to_left(left), to_right(right)), 0)


# --- texts


def _among(node: Among) -> Predicate:
    operand, words, negated = _property(node.operand), node.words, node.negated

    def decide(properties: bytes) -> bool | None:
        value = operand(properties)
        return None if value is None else (value in words) is not negated

    return decide


_PARTS: Final[dict[StringMatch, Callable[[str, str], bool]]] = {
    StringMatch.CONTAINS: operator.contains,
    StringMatch.STARTSWITH: str.startswith,
    StringMatch.ENDSWITH: str.endswith,
}


def _has(node: Has) -> Predicate:
    """Compile a string match. It is false, not null, for an operand that is no text and for an empty word."""
    operand, word, negated, has = _compile(node.operand), node.word, node.negated, _PARTS[node.part]
    if not word:
        return lambda _properties: False

    def decide(properties: bytes) -> bool:
        value = operand(properties)
        return isinstance(value, str) and has(value, word) is not negated

    return decide


_MAKERS: Final[dict[type, Callable[[Any], ValueFunction]]] = {
    Property: _property,
    Text: _constant,
    Numeral: _constant,
    Truth: _constant,
    Negation: _negation,
    Cast: _cast,
    Not: _not,
    Every: _every,
    Some: _some,
    Equal: _equal,
    Ordered: _compile_order,
    Among: _among,
    Has: _has,
}
