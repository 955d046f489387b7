"""Users, by Apache's words: `Super` or `Normal`, `enable` or `disable`."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, TypeVar

NAME_LENGTH_MAX: Final = 255
PASSWORD_LENGTH_MAX: Final = 1024

E = TypeVar("E", bound=StrEnum)


class UserType(StrEnum):
    SUPER = "Super"
    NORMAL = "Normal"


class UserStatus(StrEnum):
    ENABLE = "enable"
    DISABLE = "disable"


@dataclass(frozen=True, slots=True)
class User:
    name: str
    password: str = field(repr=False)  # the secret key of signatures, so it cannot be hashed
    type: UserType = UserType.NORMAL
    status: UserStatus = UserStatus.ENABLE

    @property
    def is_super(self) -> bool:
        return self.type is UserType.SUPER


@dataclass(frozen=True, slots=True)
class AccessKeys:
    """A user's name and password, as settings and clients have them."""

    name: str
    password: str = field(repr=False)


def find_word(words: type[E], text: str | None) -> E | None:
    """Return the member that a text names, in capitals or not; None when it names none."""
    wanted = (text or "").lower()
    return next((word for word in words if word.value.lower() == wanted), None)
