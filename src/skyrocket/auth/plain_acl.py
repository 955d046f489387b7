"""RocketMQ 4's access control file, `plain_acl.yml` (ACL 1.0), converted to users and rules.

    accounts:                             a user each; admin: true makes a Super user
    - accessKey: alice
      secretKey: 12345678
      admin: false
      defaultTopicPerm: DENY              Default policy on Topic:*
      defaultGroupPerm: SUB               Default policy on Group:*
      topicPerms: [orders=PUB|SUB]        Custom policy
      groupPerms:
      - coupons=SUB

PUB and SUB become Pub and Sub, DENY denies everything, and any other word allows everything, as Apache's migration does.
Addresses (`globalWhiteRemoteAddresses`, `whiteRemoteAddress`) let clients in without a signature; 5.x has nothing like it, so
they are left out, and `Converted.left_out` names them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from skyrocket.auth.access_table import AccessTable
from skyrocket.auth.errors import AccessError
from skyrocket.auth.policies import Acl, ActionName, Effect, Entry, Pattern, PolicyType, ResourceKind, ResourcePattern
from skyrocket.auth.simple_yaml import read_simple_yaml
from skyrocket.auth.users import User, UserType

_WORDS: Final = {
    "DENY": (Effect.DENY, (ActionName.ALL,)),
    "PUB": (Effect.ALLOW, (ActionName.PUB,)),
    "SUB": (Effect.ALLOW, (ActionName.SUB,)),
    "PUB|SUB": (Effect.ALLOW, (ActionName.PUB, ActionName.SUB)),
    "SUB|PUB": (Effect.ALLOW, (ActionName.PUB, ActionName.SUB)),
}
_ANYTHING_ELSE: Final = (Effect.ALLOW, (ActionName.ALL,))
_KINDS: Final = (
    (ResourceKind.TOPIC, "topicPerms", "defaultTopicPerm"),
    (ResourceKind.GROUP, "groupPerms", "defaultGroupPerm"),
)


class Converted(NamedTuple):
    users: list[tuple[User, Acl]]
    left_out: list[str]  # what has no counterpart, in words

    def add_to(self, table: AccessTable) -> AccessTable:
        """Add the users that the table does not have. A user that exists is left alone."""
        for user, acl in self.users:
            if user.name not in table.users:
                table = table.with_user(user)
                if acl != Acl():
                    table = AccessTable(table.users, {**table.acls, user.name: acl})
        return table


def convert_plain_acl(text: str) -> Converted:
    """Convert the text of a plain_acl.yml. Raise AccessError, with the line or the account, when it cannot be read."""
    document = read_simple_yaml(text)
    accounts, left_out = document.get("accounts") or [], []
    if not isinstance(accounts, list) or not all(isinstance(account, dict) for account in accounts):
        raise AccessError("accounts must be a list of accounts, each with accessKey and secretKey.")
    if document.get("globalWhiteRemoteAddresses"):
        left_out.append("globalWhiteRemoteAddresses: every client needs a signature")
    users: dict[str, tuple[User, Acl]] = {}
    for account in accounts:
        user = _user(account)
        users.setdefault(user.name, (user, _acl(account)))  # the first account of a name counts
        if account.get("whiteRemoteAddress"):
            left_out.append(f"whiteRemoteAddress of {user.name}: every client needs a signature")
    return Converted(list(users.values()), left_out)


def _user(account: dict[str, Any]) -> User:
    name, password = account.get("accessKey"), account.get("secretKey")
    if not isinstance(name, str) or not isinstance(password, str) or not name or not password:
        raise AccessError("An account has no accessKey or no secretKey.")
    return User(name, password, UserType.SUPER if str(account.get("admin")).lower() == "true" else UserType.NORMAL)


def _acl(account: dict[str, Any]) -> Acl:
    custom, default = list[Entry](), list[Entry]()
    for kind, named, general in _KINDS:
        custom += [_entry(ResourcePattern(kind, Pattern.LITERAL, name), word) for name, word in _permissions(account, named)]
        if account.get(general):
            default.append(_entry(ResourcePattern(kind, Pattern.ANY), str(account[general])))
    return Acl().merged(PolicyType.CUSTOM, custom).merged(PolicyType.DEFAULT, default)


def _permissions(account: dict[str, Any], key: str) -> Iterator[tuple[str, str]]:
    for text in account.get(key) or ():
        name, separator, word = str(text).partition("=")
        if not separator or not name.strip():
            raise AccessError(f"{key} of {account['accessKey']} has '{text}', which is not name=permission.")
        yield name.strip(), word


def _entry(resource: ResourcePattern, word: str) -> Entry:
    effect, actions = _WORDS.get(word.strip().upper(), _ANYTHING_ELSE)
    return Entry(resource, actions, effect)
