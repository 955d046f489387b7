"""People who may use the console: their roles, and their passwords, of which only salted hashes are kept.

A file of users has a line for each:

    name:role:scrypt$16384$8$1$salt$hash           salt and hash in base64

`skyrocket console --hash-password` prints such a line.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from enum import IntEnum
from typing import Final, NamedTuple

from skyrocket.console.errors import ConsoleError
from skyrocket.console.limits import USERS_MAX

_COST, _BLOCK, _LANES = 16_384, 8, 1  # 16 MiB and some 50 ms for each attempt
_MEMORY_MAX: Final = 64 * 1024 * 1024
_SALT_BYTES, _HASH_BYTES = 16, 32
_NAME: Final = re.compile(r"[A-Za-z0-9._@-]{1,64}")
PASSWORD_CHARACTERS_MIN: Final = 8
PASSWORD_CHARACTERS_MAX: Final = 256


class ConsoleRole(IntEnum):
    """What a visitor may do. A higher role may do all that a lower one may."""

    VIEWER = 1  # sees everything, messages included, and changes nothing
    OPERATOR = 2  # changes topics, groups, offsets, settings and users, and sends messages


class ConsoleUser(NamedTuple):
    name: str
    role: ConsoleRole
    password_hash: str


def hash_password(password: str, salt: bytes) -> str:
    """Return the hash of a password as text. Raise ConsoleError for one that is too short or too long."""
    if not PASSWORD_CHARACTERS_MIN <= len(password) <= PASSWORD_CHARACTERS_MAX:
        raise ConsoleError(f"A password has {PASSWORD_CHARACTERS_MIN} to {PASSWORD_CHARACTERS_MAX} characters.")
    assert len(salt) == _SALT_BYTES
    derived = _derive(password, salt, _COST, _BLOCK, _LANES)
    return f"scrypt${_COST}${_BLOCK}${_LANES}${_to_text(salt)}${_to_text(derived)}"


def is_password(password: str, password_hash: str) -> bool:
    """Whether a password has this hash. It takes the same time whether it does or not."""
    _, cost, block, lanes, salt, expected = password_hash.split("$")
    derived = _derive(password[:PASSWORD_CHARACTERS_MAX], _from_text(salt), int(cost), int(block), int(lanes))
    return hmac.compare_digest(derived, _from_text(expected))


def format_user(user: ConsoleUser) -> str:
    """Return the line of a user in the file."""
    return f"{user.name}:{user.role.name.lower()}:{user.password_hash}"


def parse_users(text: str, source: str) -> dict[str, ConsoleUser]:
    """Parse a file of users. Raise ConsoleError, which names the line, when it is not one."""
    users: dict[str, ConsoleUser] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, _, rest = line.strip().partition(":")
        role, _, password_hash = rest.partition(":")
        if not is_user_name(name) or role.upper() not in ConsoleRole.__members__ or not _is_hash(password_hash):
            raise ConsoleError(
                f"Line {number} of {source} is not name:role:hash with the role viewer or operator. "
                "Make one with: skyrocket console --hash-password"
            )
        if name in users:
            raise ConsoleError(f"Line {number} of {source} has user '{name}' again.")
        users[name] = ConsoleUser(name, ConsoleRole[role.upper()], password_hash)
    if not users:
        raise ConsoleError(f"{source} has no user. Make one with: skyrocket console --hash-password")
    if len(users) > USERS_MAX:
        raise ConsoleError(f"{source} has {len(users)} users; at most {USERS_MAX} are possible.")
    return users


def is_user_name(name: str) -> bool:
    return bool(_NAME.fullmatch(name))


def _derive(password: str, salt: bytes, cost: int, block: int, lanes: int) -> bytes:
    return hashlib.scrypt(password.encode(), salt=salt, n=cost, r=block, p=lanes, maxmem=_MEMORY_MAX, dklen=_HASH_BYTES)


def _is_hash(text: str) -> bool:
    """Whether a text is a hash that this module can check, and at a cost that it accepts."""
    parts = text.split("$")
    if len(parts) != 6 or parts[0] != "scrypt" or not all(part.isascii() and part.isdigit() for part in parts[1:4]):
        return False
    if (int(parts[1]), int(parts[2]), int(parts[3])) != (_COST, _BLOCK, _LANES):
        return False
    try:
        return len(_from_text(parts[4])) == _SALT_BYTES and len(_from_text(parts[5])) == _HASH_BYTES
    except (ValueError, binascii.Error):
        return False


def _to_text(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def _from_text(text: str) -> bytes:
    return base64.b64decode(text, validate=True)
