"""What values of settings can be: each kind in words, and how its text is read and shown."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


class Kind(NamedTuple):
    """The reader raises ValueError or KeyError."""

    words: str
    read: Callable[[str], Any]
    show: Callable[[Any], str] = _shown


def whole(least: int, most: int, digits: int = 1) -> Kind:
    """A number from 0 up, shown with so many digits at least."""

    def read(text: str) -> int:
        if not re.fullmatch(r"[0-9]{1,19}", text, re.ASCII) or not least <= int(text) <= most:
            raise ValueError(text)
        return int(text)

    return Kind(f"a whole number from {least} to {most}", read, lambda value: f"{value:0{digits}d}")


def one_of(meanings: Mapping[str, object]) -> Kind:
    """Words, and what each stands for."""
    words = {meaning: word for word, meaning in meanings.items()}
    return Kind(" or ".join(meanings), lambda text: meanings[text], lambda value: words[value])


def _boolean(text: str) -> bool:
    return {"true": True, "false": False}[text.lower()]


def _matching(pattern: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if not re.fullmatch(pattern, text, re.ASCII):
            raise ValueError(text)
        return text

    return read


def _path(text: str) -> Path:
    if not text or "\0" in text:
        raise ValueError(text)
    try:
        return Path(text).expanduser()
    except RuntimeError as error:  # the home of somebody unknown
        raise ValueError(text) from error


BOOLEAN: Final = Kind("true or false", _boolean)
HOST: Final = Kind("a host name or an address", _matching(r"[a-zA-Z0-9_.:%-]{1,255}"))
PATH: Final = Kind("a path", _path)
TEXT: Final = Kind("text", str)
WORD: Final = Kind("a word of letters, digits, - and _", _matching(r"[a-zA-Z0-9_-]{1,255}"))
"""Goes unescaped into JSON and properties."""
PORT: Final = whole(0, 65_535)
TLS_ONLY: Final = one_of({"permissive": False, "enforcing": True})
