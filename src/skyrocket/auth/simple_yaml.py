"""Reads the part of YAML that `plain_acl.yml` and `tools.yml` use: maps, lists of texts or maps, comments, quotes.

    key: text            key: "quoted text"         key: [a, b]
    key:                 key:
    - text               - name: text
    - text                 other: text

Anything else (anchors, block texts, tabs in front) is refused with the number of its line. Every value is a text, also a number:
a password of digits is not a number.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

from skyrocket.auth.errors import AccessError

LINES_MAX: Final = 100_000
_KEY: Final = re.compile(r"""("[^"]*"|'[^']*'|[^\s:#'"\[\]{},&*!|>%@`-][^:#]*?)\s*:(?:\s+(.*))?$""")
_NOT_PLAIN: Final = "&*!|>%@`{"  # what a text without quotes does not begin with


class _Line(NamedTuple):
    number: int
    indent: int
    text: str


def read_simple_yaml(text: str) -> dict[str, Any]:
    """Return the map that the text holds. Raise AccessError for what it cannot read."""
    numbered = enumerate(text.splitlines(), 1)
    lines = [_line(number, line) for number, line in numbered if _uncommented(line).strip() not in ("", "---")]
    if len(lines) > LINES_MAX:
        raise AccessError(f"The file has more than {LINES_MAX} lines.")
    if not lines:
        return {}
    found, at = _read_map(lines, 0, lines[0].indent)
    if at < len(lines):
        raise _wrong(lines[at])
    return found


def _line(number: int, text: str) -> _Line:
    text = _uncommented(text).rstrip()
    stripped = text.lstrip(" ")
    line = _Line(number, len(text) - len(stripped), stripped)
    if stripped.startswith("\t"):
        raise _wrong(line)
    return line


def _uncommented(text: str) -> str:
    """Return a line without its comment, which begins with # at the start or behind a blank, and not inside quotes."""
    quote = ""
    for at, sign in enumerate(text):
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "\"'" and (at == 0 or text[at - 1] in " :[,-"):
            quote = sign
        elif sign == "#" and (at == 0 or text[at - 1] in " \t"):
            return text[:at]
    return text


def _wrong(line: _Line) -> AccessError:
    return AccessError(f"Line {line.number} is not of the YAML that such a file has.")  # not its text: it may hold a secret


def _read_map(lines: list[_Line], at: int, indent: int) -> tuple[dict[str, Any], int]:
    found: dict[str, Any] = {}
    while at < len(lines) and lines[at].indent == indent and not _is_item(lines[at]):
        line = lines[at]
        match = _KEY.match(line.text)
        if match is None:
            raise _wrong(line)
        key, rest = _scalar(match[1], line), (match[2] or "").strip()
        at += 1
        if rest:
            found[key] = _value(rest, line)
        else:
            found[key], at = _read_nested(lines, at, indent)
    return found, at


def _read_nested(lines: list[_Line], at: int, indent: int) -> tuple[Any, int]:
    """Read what stands below a key: a list, which may have the key's indent, a map, or nothing."""
    if at < len(lines) and _is_item(lines[at]) and lines[at].indent >= indent:
        return _read_list(lines, at, lines[at].indent)
    if at < len(lines) and lines[at].indent > indent:
        return _read_map(lines, at, lines[at].indent)
    return None, at


def _read_list(lines: list[_Line], at: int, indent: int) -> tuple[list[Any], int]:
    found: list[Any] = []
    while at < len(lines) and lines[at].indent == indent and _is_item(lines[at]):
        line = lines[at]
        rest = line.text[1:].lstrip(" ")
        if not rest:
            raise _wrong(line)
        if _KEY.match(rest) is None:
            found.append(_value(rest, line))
            at += 1
            continue
        inner = indent + len(line.text) - len(rest)  # the map of an item begins behind its dash
        lines[at] = _Line(line.number, inner, rest)
        item, at = _read_map(lines, at, inner)
        found.append(item)
    return found, at


def _is_item(line: _Line) -> bool:
    return line.text == "-" or line.text.startswith("- ")


def _value(text: str, line: _Line) -> Any:
    if not text.startswith("["):
        return _scalar(text, line)
    if not text.endswith("]"):
        raise _wrong(line)
    inside = text[1:-1].strip()
    return [_scalar(part.strip(), line) for part in inside.split(",")] if inside else []


def _scalar(text: str, line: _Line) -> str:
    if text[:1] in ("'", '"'):
        if len(text) < 2 or text[-1] != text[0] or "\\" in text:
            raise _wrong(line)
        return text[1:-1]
    if text[:1] in _NOT_PLAIN:
        raise _wrong(line)
    return text
