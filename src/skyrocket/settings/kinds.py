"""The kinds of values that a setting can have: a description, a parser and a formatter for each."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

_PORT_MAX: Final = 65_535


def _format(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


class ValueKind(NamedTuple):
    """`read` raises ValueError or KeyError for an invalid text."""

    words: str  # completes the sentence "the value must be …"
    read: Callable[[str], Any]
    show: Callable[[Any], str] = _format


def whole(least: int, most: int, digits: int = 1) -> ValueKind:
    """A whole number, formatted with at least `digits` digits."""

    def read(text: str) -> int:
        if not re.fullmatch(r"[0-9]{1,19}", text, re.ASCII) or not least <= int(text) <= most:
            raise ValueError(text)
        return int(text)

    return ValueKind(f"a whole number from {least} to {most}", read, lambda value: f"{value:0{digits}d}")


def one_of(meanings: Mapping[str, object]) -> ValueKind:
    """One of several words, each with the value that it stands for."""
    words = {meaning: word for word, meaning in meanings.items()}
    return ValueKind(" or ".join(meanings), lambda text: meanings[text], lambda value: words[value])


def _parse_boolean(text: str) -> bool:
    return {"true": True, "false": False}[text.lower()]


def _parse_matching(pattern: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if not re.fullmatch(pattern, text, re.ASCII):
            raise ValueError(text)
        return text

    return read


def _parse_addresses(text: str) -> str:
    for address in filter(None, map(str.strip, text.split(";"))):
        found = re.fullmatch(r"(?:[a-zA-Z0-9_.%-]+|\[[0-9a-fA-F.:%]+\]|[0-9a-fA-F:]+):([0-9]{1,5})", address, re.ASCII)
        if found is None or not 0 < int(found[1]) <= _PORT_MAX:
            raise ValueError(text)
    return text


def _parse_path(text: str) -> Path:
    if not text or "\0" in text:
        raise ValueError(text)
    try:
        return Path(text).expanduser()
    except RuntimeError as error:  # "~name" of an unknown user
        raise ValueError(text) from error


ADDRESSES: Final = ValueKind("addresses, host:port;host:port", _parse_addresses)
BOOLEAN: Final = ValueKind("true or false", _parse_boolean)
HOST: Final = ValueKind("a host name or an address", _parse_matching(r"[a-zA-Z0-9_.:%-]{1,255}"))
PATH: Final = ValueKind("a path", _parse_path)
TEXT: Final = ValueKind("text", str)
WORD: Final = ValueKind("a word of letters, digits, - and _", _parse_matching(r"[a-zA-Z0-9_-]{1,255}"))
"""Such a word needs no escapes in JSON and properties files."""
PORT: Final = whole(0, _PORT_MAX)
