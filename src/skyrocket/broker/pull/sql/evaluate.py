"""From a tree to functions: what a message's properties make of an expression, by Apache's rules.

A function takes the properties as they lie in a record, with an 0x02 before them, and looks for those that it needs: most
messages are decided by one or two of a dozen. What is on either side of a sign has a type that the expression alone tells,
because properties are texts; so each comparison is chosen once, from a table, and not for each message:

            with   text           Integer, Long       Double            truth
    text           as texts (=)   the text as such a number             the text as a truth (=)
                   as Doubles     or UndecidedError                     (only "true" is one)
                   (<, >, …)
    number         as above       as numbers          as Doubles        never equal
    truth          UndecidedError never equal         never equal       as truths

Null is not a type: a property that a message lacks makes a comparison null, with two exceptions that are Apache's: null = null is
true, and a value = null is false.
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
    Part,
    Property,
    Some,
    Text,
    Truth,
    folded,
)

Value: TypeAlias = str | int | float | bool | None
Reading: TypeAlias = Callable[[bytes], Any]
Deciding: TypeAlias = Callable[[bytes], "bool | None"]
Comparing: TypeAlias = Callable[[Any, Any], bool]

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


def deciding(tree: Condition) -> Deciding:
    """UndecidedError from the function: the message has a value that cannot be compared."""
    return _reading(tree)


def _reading(node: Node) -> Reading:
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


def _property(node: Property) -> Reading:
    """The last of several with the name that has a value counts."""
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


def _constant(node: Text | Numeral | Truth) -> Reading:
    value = node.value
    return lambda _properties: value


def _negation(node: Negation) -> Reading:
    number = folded(node)
    if isinstance(number, Numeral):
        return _constant(number)
    operand = _reading(node.operand)

    def nothing(properties: bytes) -> None:
        operand(properties)  # which may be undecided

    return nothing


# --- logic


def _cast(node: Cast) -> Deciding:
    operand = _property(node.operand)
    return lambda properties: None if operand(properties) is None else False


def _not(node: Not) -> Deciding:
    operand: Deciding = _reading(node.operand)

    def opposite(properties: bytes) -> bool | None:
        value = operand(properties)
        return None if value is None else not value

    return opposite


def _every(node: Every) -> Deciding:
    return _chain(node.terms, ends=False)


def _some(node: Some) -> Deciding:
    return _chain(node.terms, ends=True)


def _chain(nodes: tuple[Node, ...], *, ends: bool) -> Deciding:
    """One term may decide: false an AND, true an OR. Else null does, and else they all agree."""
    terms: tuple[Deciding, ...] = tuple(map(_reading, nodes))
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


def _pair(first: Deciding, second: Deciding, *, ends: bool) -> Deciding:
    """A chain of two, in fewer steps."""

    def decide(properties: bytes) -> bool | None:
        left = first(properties)
        if left is ends:
            return ends
        right = second(properties)
        return ends if right is ends else None if left is None or right is None else not ends

    return decide


# --- comparisons


def _equal(node: Equal) -> Deciding:
    left, right = _reading(node.left), _reading(node.right)
    if isinstance(node.right, Truth) and node.right.value is None:
        return lambda properties: left(properties) is None
    is_same = _same(_typed(node.left), _typed(node.right))
    if isinstance(node.left, Property) and isinstance(node.right, Text):
        return _equal_to_text(left, node.right.value)

    def decide(properties: bytes) -> bool | None:
        ours, theirs = left(properties), right(properties)
        if ours is None:
            return True if theirs is None else None
        return False if theirs is None else is_same(ours, theirs)

    return decide


def _ordered(node: Ordered) -> Deciding:
    left, right = _reading(node.left), _reading(node.right)
    compares = _comparing(_typed(node.left), _typed(node.right), _SIGNS[node.order])
    number = folded(node.right)
    if isinstance(node.left, Property) and isinstance(number, Numeral) and number.number is not Number.DOUBLE:
        return _ordered_by_whole(left, _SIGNS[node.order], number.value, _WHOLE[_type(number)])

    def decide(properties: bytes) -> bool | None:
        ours = left(properties)
        if ours is None:
            return None
        theirs = right(properties)
        return None if theirs is None else compares(ours, theirs)

    return decide


def _equal_to_text(operand: Reading, word: str) -> Deciding:
    """A property beside a constant, which is what most expressions are made of: the same as the general way, in fewer steps."""

    def decide(properties: bytes) -> bool | None:
        text = operand(properties)
        return None if text is None else text == word

    return decide


def _ordered_by_whole(operand: Reading, sign: Callable[[Any, Any], bool], number: float, most: int) -> Deciding:
    """Likewise. A few plain digits need no checks."""

    def decide(properties: bytes) -> bool | None:
        text = operand(properties)
        if text is None:
            return None
        is_plain = len(text) < _DIGITS_OF_EVERY_INTEGER and text.isascii() and text.isdigit()
        return sign(int(text) if is_plain else whole_number(text, most), number)

    return decide


def _typed(node: Node) -> _Type:
    return _type(folded(node))


def _same(ours: _Type, theirs: _Type) -> Comparing:
    if _Type.VOID in (ours, theirs):
        return _never  # a void one is null, and was dealt with
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


def _comparing(ours: _Type, theirs: _Type, sign: Callable[[Any, Any], bool]) -> Comparing:
    """Of texts and numbers, at least one of them a number unless they are ordered."""
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


def _among(node: Among) -> Deciding:
    operand, words, negated = _property(node.operand), node.words, node.negated

    def decide(properties: bytes) -> bool | None:
        value = operand(properties)
        return None if value is None else (value in words) is not negated

    return decide


_PARTS: Final[dict[Part, Callable[[str, str], bool]]] = {
    Part.CONTAINS: operator.contains,
    Part.STARTSWITH: str.startswith,
    Part.ENDSWITH: str.endswith,
}


def _has(node: Has) -> Deciding:
    """False, and not null, for whatever is no text; and for an empty word."""
    operand, word, negated, has = _reading(node.operand), node.word, node.negated, _PARTS[node.part]
    if not word:
        return lambda _properties: False

    def decide(properties: bytes) -> bool:
        value = operand(properties)
        return isinstance(value, str) and has(value, word) is not negated

    return decide


_MAKERS: Final[dict[type, Callable[[Any], Reading]]] = {
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
    Ordered: _ordered,
    Among: _among,
    Has: _has,
}
