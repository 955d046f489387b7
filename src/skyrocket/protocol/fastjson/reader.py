"""Parse text in fastjson's dialect to plain dicts, lists and values, in one pass, without recursion and with bounded depth.

Keys become text: an integer key its digits, an object key its JSON. The older fastjson (Apache RocketMQ before 5.4) also writes
`{"$ref":"$.brokerDatas[0]"}` in place of an object that it has written before; the parser replaces such references.
"""

from __future__ import annotations

import json
import re
from enum import IntEnum
from typing import Any, Final

import msgspec

from skyrocket.protocol import limits
from skyrocket.protocol.errors import BodyError

# Possessive quantifiers: hostile text is refused in one pass, without backtracking.
_TOKEN: Final = re.compile(
    r"""[ \t\r\n]*+(?:
        (?P<punctuation>[{}\[\],:])
      | "(?P<plain>[^"\\]*+)"
      | (?P<escaped>"[^"\\]*+(?:\\.[^"\\]*+)*+")
      | (?P<integer>-?[0-9]++)(?![.eE0-9])
      | (?P<number>-?[0-9]++(?:\.[0-9]++)?+(?:[eE][+-]?[0-9]++)?+)
      | (?P<word>true|false|null)\b
      | (?P<end>\Z)
    )""",
    re.VERBOSE | re.DOTALL,
)
_WORDS: Final = {"true": True, "false": False, "null": None}
_INTEGER_DIGITS_MAX: Final = 40  # more than any 64-bit number has; Python converts long numbers in quadratic time


class _Expect(IntEnum):
    VALUE = 0
    VALUE_OR_END = 1
    KEY = 2
    KEY_OR_END = 3
    COLON = 4
    COMMA_OR_END = 5
    NOTHING = 6


_CLOSES: Final[dict[str, tuple[type[Any], _Expect]]] = {"}": (dict, _Expect.KEY_OR_END), "]": (list, _Expect.VALUE_OR_END)}


class _OpenContainer:
    """An object or list whose end has not been read yet."""

    __slots__ = ("is_key", "items", "key")

    def __init__(self, items: dict[str, Any] | list[Any], is_key: bool) -> None:
        self.items = items
        self.is_key = is_key
        self.key: str | None = None


def parse(text: str) -> Any:
    """Parse `text`. Raise BodyError if it is neither JSON nor fastjson's dialect."""
    root = _Parser(text).run()
    return _resolve_references(root) if '"$ref"' in text else root


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._open: list[_OpenContainer] = []
        self._expect = _Expect.VALUE
        self._inside_key = False
        self._root: Any = None

    def run(self) -> Any:
        position = 0
        match_token = _TOKEN.match
        while True:
            token = match_token(self._text, position)
            if token is None:
                raise BodyError(f"The body is not JSON: it has something else at character {position}.")
            kind = token.lastgroup
            if kind == "end":
                break
            if kind == "punctuation":
                self._punctuation(token["punctuation"], token.start("punctuation"))
            else:
                self._scalar(kind, token)
            position = token.end()
        if self._expect is not _Expect.NOTHING:
            raise BodyError("The body is not JSON: it is empty or ends too early.")
        return self._root

    def _scalar(self, kind: str | None, token: re.Match[str]) -> None:
        expect = self._expect
        if kind == "plain":
            value: Any = token["plain"]
        elif kind == "escaped":
            value = _unescape(token["escaped"])
        elif kind == "integer":
            value = _integer(token["integer"])
        elif kind == "number":
            value = float(token["number"])
        else:
            value = _WORDS[token["word"]]
        if expect <= _Expect.VALUE_OR_END:
            self._complete(value)
        elif expect <= _Expect.KEY_OR_END and kind != "number":
            self._open[-1].key = value if isinstance(value, str) else token[kind or 0]
            self._expect = _Expect.COLON
        else:
            raise self._misplaced_error(token.start(token.lastgroup or 0))

    def _punctuation(self, sign: str, position: int) -> None:
        expect = self._expect
        if sign == ":" and expect is _Expect.COLON:
            self._expect = _Expect.VALUE
        elif sign == "," and expect is _Expect.COMMA_OR_END:
            self._expect = _Expect.VALUE if isinstance(self._open[-1].items, list) else _Expect.KEY
        elif sign == "{" and expect <= _Expect.VALUE_OR_END:
            self._enter({}, _Expect.KEY_OR_END)
        elif sign == "[" and expect <= _Expect.VALUE_OR_END:
            self._enter([], _Expect.VALUE_OR_END)
        elif sign == "{" and expect <= _Expect.KEY_OR_END:
            if self._inside_key:  # each level would double the escapes in the text of the key
                raise BodyError(f"The body has an object as a key inside an object that is a key, at character {position}.")
            self._inside_key = True
            self._enter({}, _Expect.KEY_OR_END, is_key=True)
        elif self._may_close(sign):
            self._leave()
        else:
            raise self._misplaced_error(position)

    def _may_close(self, sign: str) -> bool:
        if sign not in _CLOSES or not self._open:
            return False
        kind, after_opening = _CLOSES[sign]
        return isinstance(self._open[-1].items, kind) and self._expect in (_Expect.COMMA_OR_END, after_opening)

    def _enter(self, items: dict[str, Any] | list[Any], expect: _Expect, is_key: bool = False) -> None:
        if len(self._open) >= limits.JSON_DEPTH_MAX:
            raise BodyError(f"The body nests deeper than {limits.JSON_DEPTH_MAX} levels.")
        self._open.append(_OpenContainer(items, is_key))
        self._expect = expect

    def _leave(self) -> None:
        done = self._open.pop()
        if not done.is_key:
            self._complete(done.items)
            return
        self._inside_key = False
        self._open[-1].key = msgspec.json.encode(done.items).decode()
        self._expect = _Expect.COLON

    def _complete(self, value: Any) -> None:
        if not self._open:
            self._root = value
            self._expect = _Expect.NOTHING
            return
        holder = self._open[-1]
        if isinstance(holder.items, list):
            holder.items.append(value)
        else:
            assert holder.key is not None
            holder.items[holder.key] = value
            holder.key = None
        self._expect = _Expect.COMMA_OR_END

    def _misplaced_error(self, position: int) -> BodyError:
        sign = self._text[position : position + 1]
        return BodyError(f"The body is not JSON: {sign!r} is out of place at character {position}.")


# Single values ------------------------------------------------------------------------------------------------------


def _integer(text: str) -> int:
    if len(text) > _INTEGER_DIGITS_MAX:
        raise BodyError(f"The body has a number of {len(text)} digits.")
    return int(text)


def _unescape(token: str) -> str:
    try:
        value = json.loads(token, strict=False)
    except ValueError as error:
        raise BodyError(f"The body has a string with an unknown escape: {token[:64]}.") from error
    assert isinstance(value, str)
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise BodyError("The body has half of a surrogate pair, which is not a character.") from error
    return value


# References ---------------------------------------------------------------------------------------------------------

_STEP: Final = re.compile(r"\.((?:[^.\[\]\\]|\\.)++)|\[([0-9]{1,9})\]", re.DOTALL)


def _resolve_references(root: Any) -> Any:
    """Replace every reference in `root` by its target (the same object, not a copy), and return the result."""
    if _path_of(root) is not None:
        raise BodyError("The body is only a reference.")
    holders = _find_references(root)
    if not holders:
        return root
    within = {id(holder[key]) for holder, key, _ in holders}
    sizes: dict[int, int] = {}
    targets = []
    copied_nodes = 0
    for _, _, path in holders:
        target = _find_target(root, path)
        copied_nodes += _count_values(target, within, sizes, path)
        if copied_nodes > limits.JSON_REFERENCED_NODES_MAX:
            raise BodyError(f"The body's references stand for more than {limits.JSON_REFERENCED_NODES_MAX} values.")
        targets.append(target)
    for (holder, key, _), target in zip(holders, targets, strict=True):
        holder[key] = target
    return root


def _path_of(node: Any) -> str | None:
    """Return the path if `node` is a reference, otherwise None."""
    path = node.get("$ref") if isinstance(node, dict) else None
    return path if isinstance(path, str) else None


def _find_references(root: Any) -> list[tuple[Any, Any, str]]:
    """Return (container, key or index, path) of every reference."""
    found = []
    todo = [root]
    while todo:
        node = todo.pop()
        for key, child in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
            if (path := _path_of(child)) is not None:
                found.append((node, key, path))
            elif isinstance(child, (dict, list)):
                todo.append(child)
    return found


def _find_target(root: Any, path: str) -> Any:
    """Return the value at a path such as `$.brokerDatas[0].name`. A backslash escapes a character that would end a name."""
    error = BodyError(f"The body refers to {path[:64]!r}, which it does not have.")
    node = root
    if not path.startswith("$"):
        raise error
    position = 1
    while position < len(path):
        step = _STEP.match(path, position)
        if step is None:
            raise error
        name, index = step.groups()
        if name is not None and isinstance(node, dict):
            node = node.get(re.sub(r"\\(.)", r"\1", name, flags=re.DOTALL))
        elif index is not None and isinstance(node, list) and int(index) < len(node):
            node = node[int(index)]
        else:
            raise error
        position = step.end()
    if not isinstance(node, (dict, list)):
        raise error
    return node


def _count_values(target: Any, references: set[int], sizes: dict[int, int], path: str) -> int:
    """Count the values in `target`. Refuse a target with references, as a short text could then stand for an endless value."""
    if id(target) in sizes:
        return sizes[id(target)]
    count = 0
    todo = [target]
    while todo:
        node = todo.pop()
        count += 1
        if id(node) in references:
            raise BodyError(f"The body refers to {path[:64]!r}, which itself refers to something.")
        if isinstance(node, dict):
            todo.extend(node.values())
        elif isinstance(node, list):
            todo.extend(node)
    sizes[id(target)] = count
    return count
