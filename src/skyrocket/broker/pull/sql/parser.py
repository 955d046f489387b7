"""Parse tokens to a syntax tree, by Apache's grammar and with its checks.

    condition  = both (OR both)*
    both       = equality (AND equality)*
    equality   = comparison ( = comparison | <> comparison | IS NULL | IS NOT NULL )*
    comparison = unary ( > unary | >= unary | < unary | <= unary
                       | [NOT] BETWEEN unary AND unary | [NOT] IN ( 'text', … )
                       | [NOT] CONTAINS 'text' | [NOT] STARTSWITH 'text' | [NOT] ENDSWITH 'text' )*
    unary      = + unary | - unary | NOT unary | constant | property | ( condition )

Two of Apache's rules may surprise. NOT binds more tightly than a comparison, so `NOT a = 1` compares `NOT a` with 1. And a
complete condition ends the expression, so `a = 1 b` is `a = 1`: only the first token behind it is read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeGuard, TypeVar

from skyrocket.broker.pull.sql.errors import ExpressionError
from skyrocket.broker.pull.sql.java_numbers import LONG_MAX, double_order, is_integer
from skyrocket.broker.pull.sql.limits import EXPRESSION_LENGTH_MAX, IN_WORDS_MAX, NESTING_MAX, NODES_MAX
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
from skyrocket.broker.pull.sql.tokens import Token, TokenKind, Tokens

N = TypeVar("N", bound=Node)

_NULL: Final = Truth(None)
_TRUTHS: Final = {TokenKind.TRUE: Truth(True), TokenKind.FALSE: Truth(False), TokenKind.NULL: _NULL}
_ORDERS: Final = {TokenKind(order.value): order for order in Order}
_PARTS: Final = {TokenKind(part.value): part for part in StringMatch}
_NEGATABLE: Final = {TokenKind.BETWEEN, TokenKind.IN, *_PARTS}


class Parsed:
    """A syntax tree and its number of nodes."""

    __slots__ = ("nodes", "tree")

    def __init__(self, tree: Condition, nodes: int) -> None:
        self.tree = tree
        self.nodes = nodes


def parse(expression: str) -> Parsed:
    """Parse an expression; raise ExpressionError when it is invalid or exceeds a limit."""
    if len(expression) > EXPRESSION_LENGTH_MAX:
        raise ExpressionError(
            EXPRESSION_LENGTH_MAX + 1, f"it has {len(expression)} characters, and {EXPRESSION_LENGTH_MAX} are allowed"
        )
    parser = _SqlParser(Tokens(expression))
    at = parser.tokens.next
    return Parsed(parser.as_condition(parser.condition(), at), parser.nodes)


class _SqlParser:
    def __init__(self, tokens: Tokens) -> None:
        self.tokens = tokens
        self.nodes = 0
        self._inside = 0  # open brackets, signs and NOTs
        self._comparing: dict[TokenKind, Callable[[Node, Token], Node]] = {
            **dict.fromkeys(_ORDERS, self._parse_ordered),
            TokenKind.BETWEEN: self._between,
            TokenKind.IN: self._in,
            **dict.fromkeys(_PARTS, self._has),
            TokenKind.NOT: self._parse_negated,
        }

    # --- the grammar, one method a row

    def condition(self) -> Node:
        return self._chain(TokenKind.OR, self._both, Some)

    def _both(self) -> Node:
        return self._chain(TokenKind.AND, self._equality, Every)

    def _chain(self, link: TokenKind, term: Callable[[], Node], kind: type[Some] | type[Every]) -> Node:
        at = self.tokens.next
        first = term()
        if self.tokens.next.kind is not link:
            return first
        terms: list[Node] = [self.as_condition(first, at)]
        while self.tokens.next.kind is link:
            at = self.tokens.take()
            terms.append(self.as_condition(term(), at))
        return self._count(kind(tuple(terms), 1 + max(term.depth for term in terms)), at)

    def _equality(self) -> Node:
        left = self._comparison()
        while True:
            sign = self.tokens.next
            if sign.kind is TokenKind.IS:
                left = self._is_null(left)
            elif sign.kind in (TokenKind.EQUAL, TokenKind.UNEQUAL):
                self.tokens.take()
                right = self._comparison()
                _check_equal(left, right, sign)
                left = self._count(Equal(left, right, _over(left, right)), sign)
                if sign.kind is TokenKind.UNEQUAL:
                    left = self._count(Not(left, left.depth + 1), sign)
            else:
                return left

    def _is_null(self, left: Node) -> Node:
        at = self.tokens.take()
        negated = self.tokens.next.kind is TokenKind.NOT
        if negated:
            self.tokens.take()
        self._take(TokenKind.NULL)
        found = self._count(Equal(left, _NULL, left.depth + 1), at)
        return self._count(Not(found, found.depth + 1), at) if negated else found

    def _comparison(self) -> Node:
        left = self._unary()
        while (how := self._comparing.get(self.tokens.next.kind)) is not None:
            left = how(left, self.tokens.take())
        return left

    def _parse_ordered(self, left: Node, sign: Token) -> Node:
        return self._order(_ORDERS[sign.kind], left, self._unary(), sign)

    def _parse_negated(self, left: Node, _sign: Token) -> Node:
        sign = self.tokens.next
        if sign.kind not in _NEGATABLE:
            raise _wrong(sign, f"behind a value, NOT goes with BETWEEN, IN, CONTAINS, STARTSWITH or ENDSWITH, not {sign.shown}")
        self.tokens.take()
        if sign.kind is TokenKind.BETWEEN:
            return self._between(left, sign, negated=True)
        return (self._in if sign.kind is TokenKind.IN else self._has)(left, sign, negated=True)

    def _between(self, left: Node, sign: Token, *, negated: bool = False) -> Node:
        low = self._unary()
        self._take(TokenKind.AND)
        high = self._unary()
        if not negated and isinstance(low, Numeral) and isinstance(high, Numeral) and _is_less(high, low):
            raise _wrong(sign, f"BETWEEN {low.value} AND {high.value} is never true: the first must not be more than the second")
        first, second = (Order.LESS, Order.GREATER) if negated else (Order.GREATER_OR_EQUAL, Order.LESS_OR_EQUAL)
        terms = (self._order(first, left, low, sign), self._order(second, left, high, sign))
        if _is_void(left):
            return terms[0]  # null, like both terms together; nested BETWEENs do not double the work at each level
        kind = Some if negated else Every
        return self._count(kind(terms, _over(*terms)), sign)

    def _in(self, left: Node, sign: Token, *, negated: bool = False) -> Node:
        self._take(TokenKind.OPEN)
        words = [self._string()]
        while self.tokens.next.kind is TokenKind.COMMA:
            at = self.tokens.take()
            words.append(self._string())
            if len(words) > IN_WORDS_MAX:
                raise _wrong(at, f"an IN has more than {IN_WORDS_MAX} words")
        self._take(TokenKind.CLOSE)
        if not isinstance(left, Property):
            raise _wrong(sign, "only a property can be IN a list")
        return self._count(Among(left, frozenset(words), negated), sign)

    def _has(self, left: Node, sign: Token, *, negated: bool = False) -> Node:
        return self._count(Has(_PARTS[sign.kind], left, self._string(), negated, left.depth + 1), sign)

    def _unary(self) -> Node:
        sign = self.tokens.next
        if sign.kind not in (TokenKind.PLUS, TokenKind.MINUS, TokenKind.NOT, TokenKind.OPEN):
            return self._primary()
        self.tokens.take()
        self._inside += 1
        if self._inside > NESTING_MAX:
            raise _wrong(sign, f"more than {NESTING_MAX} brackets and signs are inside of each other")
        if sign.kind is TokenKind.OPEN:
            inner = self.condition()
            self._take(TokenKind.CLOSE)
        else:
            inner = self._unary()
        self._inside -= 1
        if sign.kind is TokenKind.MINUS:
            return self._count(Negation(inner, inner.depth + 1), sign)
        if sign.kind is TokenKind.NOT:
            inner = self.as_condition(inner, sign)
            return self._count(Not(inner, inner.depth + 1), sign)
        return inner

    def _primary(self) -> Node:
        token = self.tokens.next
        if token.kind is TokenKind.STRING:
            return self._count(Text(self._string()), token)
        if token.kind in (TokenKind.INTEGER, TokenKind.FLOAT):
            self.tokens.take()
            return self._count((_integer if token.kind is TokenKind.INTEGER else _float)(token), token)
        if token.kind is TokenKind.NAME:
            self.tokens.take()
            return self._count(Property(token.text), token)
        if token.kind in _TRUTHS:
            self.tokens.take()
            return self._count(_TRUTHS[token.kind], token)
        raise _wrong(token, f"a property, a constant or a bracket is missing before {token.shown}")

    # --- helpers

    def _take(self, kind: TokenKind) -> Token:
        token = self.tokens.next
        if token.kind is not kind:
            raise _wrong(token, f"{kind.value} is missing before {token.shown}")
        return self.tokens.take()

    def _string(self) -> str:
        return self._take(TokenKind.STRING).text[1:-1].replace("''", "'")

    def _order(self, order: Order, left: Node, right: Node, sign: Token) -> Node:
        for operand in (left, right):
            if isinstance(operand, Text) or _is_condition(operand):
                what = "a text" if isinstance(operand, Text) else "a truth or NULL"
                raise _wrong(sign, f"{what} is neither less nor more than anything; only numbers and properties are")
        return self._count(Ordered(order, left, right, _over(left, right)), sign)

    def as_condition(self, node: Node, at: Token) -> Condition:
        if _is_condition(node):
            return node
        if isinstance(node, Property):
            return self._count(Cast(node), at)
        raise _wrong(at, "a condition is missing: this is only a value")

    def _count(self, node: N, at: Token) -> N:
        self.nodes += 1
        if self.nodes > NODES_MAX:
            raise _wrong(at, f"it has more than {NODES_MAX} properties, constants and operators")
        if node.depth > NESTING_MAX:
            raise _wrong(at, f"more than {NESTING_MAX} operators are inside of each other")
        return node


def _wrong(token: Token, reason: str) -> ExpressionError:
    return ExpressionError(token.at + 1, reason)


def _over(left: Node, right: Node) -> int:
    return 1 + max(left.depth, right.depth)


def _is_void(node: Node) -> bool:
    """Whether a node is a minus sign before an operand that is no number, which is always null."""
    return isinstance(node, Negation) and not isinstance(fold_signs(node), Numeral)


def _is_condition(node: Node) -> TypeGuard[Condition]:
    return not isinstance(node, Property | Text | Numeral | Negation)


def _integer(token: Token) -> Numeral:
    value = int(token.text.rstrip("lL")) if len(token.text) <= len("9223372036854775807L") else LONG_MAX + 1
    if value > LONG_MAX:
        raise _wrong(token, f"{token.text[:32]} is more than a whole number can be, {LONG_MAX}")
    return Numeral(value, Number.INTEGER if is_integer(value) else Number.LONG)


def _float(token: Token) -> Numeral:
    value = float(token.text)
    if value in (0.0, float("inf")):
        raise _wrong(token, f"{token.text[:32]} is {'more' if value else 'less'} than a constant with a fraction can be")
    return Numeral(value, Number.DOUBLE)


def _is_less(left: Numeral, right: Numeral) -> bool:
    if Number.DOUBLE in (left.number, right.number):
        return double_order(float(left.value), float(right.value)) < 0
    return left.value < right.value


def _check_equal(left: Node, right: Node, sign: Token) -> None:
    if _NULL in (left, right):
        raise _wrong(sign, f"nothing is {sign.text} NULL; IS NULL and IS NOT NULL ask for it")
    if isinstance(left, Truth) and isinstance(right, Text | Numeral):
        raise _wrong(sign, f"a truth cannot be compared with the constant behind {sign.text}")
