"""An expression as a tree. Every node knows how deep it is, so that nobody who walks the tree falls off the stack."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias


class Number(Enum):
    """Java's type of a number. It decides which texts can be compared with it: "3000000000" is no Integer."""

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
    """A number with the other sign; of anything else, null."""

    operand: Node
    depth: int


@dataclass(frozen=True, slots=True)
class Cast:
    """A property where a truth is wanted: never true, because properties are texts."""

    operand: Property
    depth: int = 2


@dataclass(frozen=True, slots=True)
class Not:
    operand: Node
    depth: int


@dataclass(frozen=True, slots=True)
class Every:
    """AND, of two or more."""

    terms: tuple[Node, ...]
    depth: int


@dataclass(frozen=True, slots=True)
class Some:
    """OR, of two or more."""

    terms: tuple[Node, ...]
    depth: int


@dataclass(frozen=True, slots=True)
class Equal:
    """Also IS NULL, which is the same with NULL on the right."""

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


class Part(Enum):
    CONTAINS = "CONTAINS"
    STARTSWITH = "STARTSWITH"
    ENDSWITH = "ENDSWITH"


@dataclass(frozen=True, slots=True)
class Has:
    """CONTAINS, STARTSWITH, ENDSWITH and their opposites."""

    part: Part
    operand: Node
    word: str
    negated: bool
    depth: int


Constant: TypeAlias = Text | Numeral | Truth
Condition: TypeAlias = Truth | Cast | Not | Every | Some | Equal | Ordered | Among | Has
"""What is true, false or null."""
Node: TypeAlias = Property | Constant | Negation | Condition


def folded(node: Node) -> Node:
    """The number that signs before a number make; any other node as it is."""
    signs = 0
    inner = node
    while isinstance(inner, Negation):
        inner = inner.operand
        signs += 1
    if not isinstance(inner, Numeral):
        return node
    return Numeral(-inner.value if signs % 2 else inner.value, inner.number, node.depth)
