"""Languages of RocketMQ's clients. A header carries the name (JSON) or the number (binary)."""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class Language(IntEnum):
    JAVA = 0
    CPP = 1
    DOTNET = 2
    PYTHON = 3
    DELPHI = 4
    ERLANG = 5
    RUBY = 6
    OTHER = 7
    HTTP = 8
    GO = 9
    PHP = 10
    OMS = 11
    RUST = 12
    NODE_JS = 13

    @classmethod
    def _missing_(cls, value: object) -> Language | None:
        """A language that this version does not know is OTHER: it is shown to people and decides nothing."""
        return cls.OTHER if isinstance(value, int) and -128 <= value <= 127 else None


LANGUAGES: Final = dict(Language.__members__)  # an enum makes this anew whenever it is asked, and every command asks
