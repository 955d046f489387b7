"""All users and rules. A table never changes: each change returns a new one, which the broker saves before it takes effect.

The checks of a change, their order and their words are Apache's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final, TypeVar

from skyrocket.auth.errors import AccessError
from skyrocket.auth.policies import Acl, PolicyType, parse_resource, read_entry
from skyrocket.auth.users import NAME_LENGTH_MAX, PASSWORD_LENGTH_MAX, User, UserStatus, UserType, find_word
from skyrocket.protocol.bodies import AclInfo, PolicyInfo, UserInfo
from skyrocket.protocol.responses import ResponseCode

T = TypeVar("T")

USERS_MAX: Final = 100_000
SUBJECT_PREFIX: Final = "User:"

_NO_USERS: Final[Mapping[str, User]] = MappingProxyType({})
_NO_ACLS: Final[Mapping[str, Acl]] = MappingProxyType({})
_ONLY_SUPER_UPDATES: Final = "The super user can only be update by super user"


@dataclass(frozen=True)
class AccessTable:
    users: Mapping[str, User] = field(default_factory=lambda: _NO_USERS)
    acls: Mapping[str, Acl] = field(default_factory=lambda: _NO_ACLS)  # by the user's name; never without an entry

    # --- users

    def with_user(self, user: User) -> AccessTable:
        """Add or replace a user."""
        if user.name not in self.users and len(self.users) >= USERS_MAX:
            raise AccessError(f"There are {USERS_MAX} users already.")
        return replace(self, users={**self.users, user.name: user})

    def create_user(self, name: str | None, info: UserInfo, caller: User | None) -> AccessTable:
        """Create a user. `caller` is who asks; None when nobody is authenticated."""
        known = _check_name(name)
        password = info.password or ""
        if not password.strip():
            raise AccessError("password can not be blank")
        if len(known) > NAME_LENGTH_MAX or len(password) > PASSWORD_LENGTH_MAX:
            raise AccessError("The username or the password is too long.", ResponseCode.INVALID_PARAMETER)
        kind = find_word(UserType, info.user_type) or UserType.NORMAL
        if kind is UserType.SUPER and caller is not None and not caller.is_super:
            raise AccessError("The super user can only be create by super user", ResponseCode.SYSTEM_ERROR)
        if known in self.users:
            raise AccessError("The user is existed")
        status = find_word(UserStatus, info.user_status) or UserStatus.ENABLE
        return self.with_user(User(known, password, kind, status))

    def update_user(self, name: str | None, info: UserInfo, caller: User | None) -> AccessTable:
        """Change what `info` names of a user."""
        known = _check_name(name)
        kind = find_word(UserType, info.user_type)
        is_normal = caller is not None and not caller.is_super
        if kind is UserType.SUPER and is_normal:
            raise AccessError(_ONLY_SUPER_UPDATES, ResponseCode.SYSTEM_ERROR)
        user = self.users.get(known)
        if user is None:
            raise AccessError("The user is not exist")
        if user.is_super and is_normal:
            raise AccessError(_ONLY_SUPER_UPDATES)
        if len(info.password or "") > PASSWORD_LENGTH_MAX:
            raise AccessError("The username or the password is too long.", ResponseCode.INVALID_PARAMETER)
        status = find_word(UserStatus, info.user_status) or user.status
        return self.with_user(replace(user, password=info.password or user.password, type=kind or user.type, status=status))

    def delete_user(self, name: str | None, caller: User | None) -> AccessTable:
        """Delete a user with its rules. Nothing changes when there is no such user."""
        user = self.users.get(name or "")
        if user is None:
            return self
        if user.is_super and caller is not None and not caller.is_super:
            raise AccessError(_ONLY_SUPER_UPDATES)
        return AccessTable(_without(self.users, user.name), _without(self.acls, user.name))

    def user(self, name: str | None) -> User | None:
        """Return a user that a request asks for."""
        return self.users.get(_check_name(name))

    def list_users(self, part: str | None) -> list[User]:
        """Return the users whose names contain a text, in the order of their names' bytes."""
        found = [user for name, user in self.users.items() if (part or "") in name]
        return sorted(found, key=lambda user: user.name.encode("utf-8", "surrogatepass"))

    # --- rules

    def merge_acl(self, subject: str | None, info: AclInfo | None) -> AccessTable:
        """Add rules to those of a user; a rule replaces the one with the same resource."""
        if info is None or not info.policies:
            raise AccessError("The body of acl is null, or has no policies.", ResponseCode.SYSTEM_ERROR)
        name = _name_of(subject)
        if name is None:
            raise AccessError("An system error occurred, please try again later.", ResponseCode.SYSTEM_ERROR)
        if name not in self.users:
            raise AccessError(f"The subject of {SUBJECT_PREFIX}{name} is not exist.")
        merged = self.acls.get(name, Acl())
        for policy in info.policies:
            if not policy.entries:
                raise AccessError("The policies is empty.")
            kind = find_word(PolicyType, policy.policy_type) or PolicyType.CUSTOM
            merged = merged.merged(kind, map(read_entry, policy.entries))
        return self._with_acl(name, merged)

    def delete_acl(self, subject: str | None, policy_type: str | None, resource: str | None) -> AccessTable:
        """Delete the rule of one resource, or without a resource all rules of a user."""
        name = self._known_subject(subject)
        if name not in self.acls:
            raise AccessError("The acl is not exist.")
        if not resource:
            return self._with_acl(name, Acl())
        parsed = parse_resource(resource)
        kind = find_word(PolicyType, policy_type) or PolicyType.CUSTOM
        return self if parsed is None else self._with_acl(name, self.acls[name].without(kind, parsed))

    def acl_info(self, subject: str | None) -> AclInfo | None:
        """Return the rules of a user as they are sent; None when there are none."""
        name = self._known_subject(subject)
        return to_info(name, self.acls[name]) if name in self.acls else None

    def list_acls(self, subject_part: str | None, resource_part: str | None) -> list[AclInfo]:
        """Return the rules of the users and resources whose texts contain these parts."""
        found = []
        for name in sorted(self.acls, key=lambda name: name.encode("utf-8", "surrogatepass")):
            if (subject_part or "") in f"{SUBJECT_PREFIX}{name}":
                info = to_info(name, self.acls[name], resource_part or "")
                if info.policies:
                    found.append(info)
        return found

    def _known_subject(self, subject: str | None) -> str:
        name = _name_of(subject)
        if name is None:
            raise AccessError("The subject is null.")
        if name not in self.users:
            raise AccessError("The subject is not exist.")
        return name

    def _with_acl(self, name: str, acl: Acl) -> AccessTable:
        is_empty = not acl.custom and not acl.default
        return replace(self, acls=_without(self.acls, name) if is_empty else {**self.acls, name: acl})


def differing_users(one: AccessTable, other: AccessTable) -> set[str]:
    """Return the names of users that two tables do not have alike, with their rules."""
    names = {name for name, _ in one.users.items() ^ other.users.items()}
    acls = one.acls.keys() | other.acls.keys()
    return names | {name for name in acls if one.acls.get(name) != other.acls.get(name)}


def to_info(name: str, acl: Acl, resource_part: str = "") -> AclInfo:
    """Return rules as they are sent; only those whose resource contains a text."""
    policies = []
    for kind, entries in acl.policies():
        shown = [entry.to_info() for entry in entries if resource_part in str(entry.resource)]
        if shown:
            policies.append(PolicyInfo(policy_type=str(kind), entries=shown))
    return AclInfo(subject=f"{SUBJECT_PREFIX}{name}", policies=policies)


def user_info(user: User) -> UserInfo:
    """Return a user as it is shown: never with the password."""
    return UserInfo(username=user.name, user_type=str(user.type), user_status=str(user.status))


def _without(entries: Mapping[str, T], name: str) -> dict[str, T]:
    return {key: value for key, value in entries.items() if key != name}


def _check_name(name: str | None) -> str:
    if name is None or not name.strip():
        raise AccessError("The username is blank", ResponseCode.INVALID_PARAMETER)
    return name


def _name_of(subject: str | None) -> str | None:
    """Return the user's name in a subject such as User:alice; None when it is none."""
    prefix, name = (subject or "")[: len(SUBJECT_PREFIX)], (subject or "")[len(SUBJECT_PREFIX) :]
    return name if prefix.lower() == SUBJECT_PREFIX.lower() and name.strip() else None
