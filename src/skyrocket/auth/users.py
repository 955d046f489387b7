"""Users, by Apache's words: `Super` or `Normal`, `enable` or `disable`; and who of them signed a request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, TypeVar

from skyrocket.protocol.command import Command
from skyrocket.protocol.signature import ACCESS_KEY, is_signed_by

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


def authenticate(command: Command, users: Mapping[str, User]) -> tuple[User | None, str | None]:
    """Return the user who signed a request and None, or None and why nobody is believed, in Apache's words."""
    name = command.fields.get(ACCESS_KEY)
    if not name:
        return None, "username cannot be null."
    user = users.get(name)
    if user is None:
        return None, f"User:{name} is not found."
    if user.status is UserStatus.DISABLE:
        return None, f"User:{name} is disabled."
    if not is_signed_by(command.fields, command.body, command.version, user.password):
        return None, "check signature failed."
    return user, None
