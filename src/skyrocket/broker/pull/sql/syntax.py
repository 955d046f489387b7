"""The syntax tree of an expression. Every node stores its depth, so that the parser can bound the recursion over the tree."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias


class Number(Enum):
    """The Java type of a number. It decides which texts can be compared with it: "3000000000" is no Integer."""

    INTEGER = "Integer"
    LONG = "Long"
    DOUBLE = "Double"


@dataclass(frozen=True, slots=True)
class Property:
    name: str
    depth: int = 1


@dataclass(frozen=True, slots=True)
class Text:
    value: str
    depth: int = 1


@dataclass(frozen=True, slots=True)
class Numeral:
    value: int | float
    number: Number
    depth: int = 1


@dataclass(frozen=True, slots=True)
class Truth:
    """TRUE, FALSE or NULL."""

    value: bool | None
    depth: int = 1


@dataclass(frozen=True, slots=True)
class Negation:
    """A minus sign before a number. Before any other operand, the result is null."""

    operand: Node
    depth: int


@dataclass(frozen=True, slots=True)
class Cast:
    """A property in place of a condition. It is never true, because properties are texts."""

    operand: Property
    depth: int = 2


@dataclass(frozen=True, slots=True)
class Not:
    operand: Node
    depth: int


@dataclass(frozen=True, slots=True)
class Every:
    """AND of two or more conditions."""

    terms: tuple[Node, ...]
    depth: int


@dataclass(frozen=True, slots=True)
class Some:
    """OR of two or more conditions."""

    terms: tuple[Node, ...]
    depth: int


@dataclass(frozen=True, slots=True)
class Equal:
    """`=`, and IS NULL, which is `=` with NULL on the right."""

    left: Node
    right: Node
    depth: int


class Order(Enum):
    LESS = "<"
    LESS_OR_EQUAL = "<="
    GREATER = ">"
    GREATER_OR_EQUAL = ">="


@dataclass(frozen=True, slots=True)
class Ordered:
    order: Order
    left: Node
    right: Node
    depth: int


@dataclass(frozen=True, slots=True)
class Among:
    """IN and NOT IN."""

    operand: Property
    words: frozenset[str]
    negated: bool
    depth: int = 2


class StringMatch(Enum):
    CONTAINS = "CONTAINS"
    STARTSWITH = "STARTSWITH"
    ENDSWITH = "ENDSWITH"


@dataclass(frozen=True, slots=True)
class Has:
    """CONTAINS, STARTSWITH, ENDSWITH and their opposites."""

    part: StringMatch
    operand: Node
    word: str
    negated: bool
    depth: int


Constant: TypeAlias = Text | Numeral | Truth
Condition: TypeAlias = Truth | Cast | Not | Every | Some | Equal | Ordered | Among | Has
"""A node whose value is true, false or null."""
Node: TypeAlias = Property | Constant | Negation | Condition


def fold_signs(node: Node) -> Node:
    """Fold the minus signs before a number into the number; return any other node unchanged."""
    signs = 0
    inner = node
    while isinstance(inner, Negation):
        inner = inner.operand
        signs += 1
    if not isinstance(inner, Numeral):
        return node
    return Numeral(-inner.value if signs % 2 else inner.value, inner.number, node.depth)
