"""The file of users and rules: one JSON document, with sealed passwords.

{"format":1,
 "users":[{"username":"alice","password":"<sealed>","userType":"Normal","userStatus":"enable"}, …],
 "acls":[{"subject":"User:alice","policies":[{"policyType":"Custom","entries":[…]}]}, …]}
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from skyrocket.auth.access_table import AccessTable, to_info
from skyrocket.auth.errors import AccessError
from skyrocket.auth.sealing import seal, unseal
from skyrocket.auth.users import User, UserStatus, UserType, find_word
from skyrocket.protocol.bodies import AclInfo, Body, UserInfo
from skyrocket.protocol.errors import BodyError
from skyrocket.protocol.fastjson.codec import decode, encode

FORMAT: Final = 1
FILE_BYTES_MAX: Final = 256 * 1024 * 1024


class AccessFile(Body):
    format: int = 0
    users: list[UserInfo] = msgspec.field(default_factory=list)
    acls: list[AclInfo] = msgspec.field(default_factory=list)


def encode_table(table: AccessTable, key: bytes, new_nonce: Callable[[], bytes]) -> bytes:
    acls = [to_info(name, acl) for name, acl in table.acls.items()]
    return encode(AccessFile(format=FORMAT, users=sealed_users(table.users.values(), key, new_nonce), acls=acls))


def decode_table(content: bytes, key: bytes) -> AccessTable:
    """Raise AccessError when the file is damaged, of a later version, or sealed with another key."""
    try:
        file = decode(content, AccessFile)
    except BodyError as error:
        raise AccessError(f"it is not JSON of users and rules: {error}") from error
    if file.format != FORMAT:
        raise AccessError(f"it has format {file.format}; this version reads format {FORMAT}.")
    return build_table(file.users, file.acls, lambda sealed: unseal(key, sealed))


def sealed_users(users: Iterable[User], key: bytes, new_nonce: Callable[[], bytes]) -> list[UserInfo]:
    return [
        UserInfo(
            username=user.name,
            password=seal(key, new_nonce(), user.password),
            user_type=str(user.type),
            user_status=str(user.status),
        )
        for user in users
    ]


def build_table(users: Iterable[UserInfo], acls: Iterable[AclInfo], read_password: Callable[[str], str]) -> AccessTable:
    """Build a table from users and rules as they are sent or stored."""
    found: dict[str, User] = {}
    for info in users:
        kind = find_word(UserType, info.user_type) or UserType.NORMAL
        status = find_word(UserStatus, info.user_status) or UserStatus.ENABLE
        found[info.username] = User(info.username, read_password(info.password or ""), kind, status)
    table = AccessTable(found)
    for acl in acls:
        table = table.merge_acl(acl.subject, acl)
    return table
