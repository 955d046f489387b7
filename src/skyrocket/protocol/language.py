"""Languages of RocketMQ's clients. A JSON header has the name, a binary header the number."""

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
        """Map an unknown language to OTHER. Languages are only displayed; nothing depends on them."""
        return cls.OTHER if isinstance(value, int) and -128 <= value <= 127 else None


LANGUAGES: Final = dict(Language.__members__)  # an enum rebuilds this mapping on each access, and each decoded command needs it
