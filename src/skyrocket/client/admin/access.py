"""Administration of users and their rules, at brokers with access control: RocketMQ 5's, ours or Apache's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from skyrocket.client.admin.brokers import Brokers
from skyrocket.client.admin.results import AccessRule, AccessUser
from skyrocket.client.errors import NotFoundError
from skyrocket.protocol.bodies import AclInfo, PolicyEntryInfo, PolicyInfo, UserInfo
from skyrocket.protocol.command import Command
from skyrocket.protocol.fastjson.codec import encode
from skyrocket.protocol.header import Header
from skyrocket.protocol.headers import (
    CreateAclRequestHeader,
    CreateUserRequestHeader,
    DeleteAclRequestHeader,
    DeleteUserRequestHeader,
    GetUserRequestHeader,
    ListAclsRequestHeader,
    ListUsersRequestHeader,
    UpdateAclRequestHeader,
    UpdateUserRequestHeader,
)
from skyrocket.protocol.requests import RequestCode

_SUBJECT: Final = "User:"


class AccessAdmin:
    """Users and rules.

    Each broker has its own. Changes go to every broker, slaves included, or to those of `cluster`, or to one `broker`: a name,
    or an address. Results come from one master, or from `broker`. No result contains a password.
    """

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers

    # --- users

    async def create_user(
        self, name: str, password: str, *, is_super: bool = False, cluster: str | None = None, broker: str | None = None
    ) -> None:
        """Create a user. A Super user may do everything; another one needs rules."""
        info = UserInfo(username=name, password=password, user_type="Super" if is_super else "Normal")
        header = CreateUserRequestHeader(username=name)
        await self._change(RequestCode.AUTH_CREATE_USER, header, encode(info), cluster, broker)

    async def update_user(
        self,
        name: str,
        *,
        password: str | None = None,
        is_super: bool | None = None,
        is_enabled: bool | None = None,
        cluster: str | None = None,
        broker: str | None = None,
    ) -> None:
        """Change a user. None keeps a value. A disabled user can do nothing."""
        kind = None if is_super is None else "Super" if is_super else "Normal"
        status = None if is_enabled is None else "enable" if is_enabled else "disable"
        info = UserInfo(username=name, password=password, user_type=kind, user_status=status)
        await self._change(RequestCode.AUTH_UPDATE_USER, UpdateUserRequestHeader(username=name), encode(info), cluster, broker)

    async def delete_user(self, name: str, *, cluster: str | None = None, broker: str | None = None) -> None:
        """Delete a user with its rules. A user that does not exist is no error."""
        await self._change(RequestCode.AUTH_DELETE_USER, DeleteUserRequestHeader(username=name), b"", cluster, broker)

    async def get_user(self, name: str, *, cluster: str | None = None, broker: str | None = None) -> AccessUser:
        """Fetch a user. Raises NotFoundError if it does not exist."""
        answer = await self._ask(RequestCode.AUTH_GET_USER, GetUserRequestHeader(username=name), cluster, broker)
        if not answer.body:
            raise NotFoundError(f"There is no user '{name}'.")
        return _user(self._brokers.decode_body(answer, UserInfo))

    async def list_users(self, part: str = "", *, cluster: str | None = None, broker: str | None = None) -> list[AccessUser]:
        """Fetch the users whose names contain `part`."""
        answer = await self._ask(RequestCode.AUTH_LIST_USER, ListUsersRequestHeader(filter=part), cluster, broker)
        return [_user(info) for info in self._brokers.decode_body(answer, list[UserInfo])] if answer.body else []

    # --- rules

    async def create_rules(
        self,
        user: str,
        resources: Sequence[str],
        actions: Sequence[str],
        *,
        deny: bool = False,
        sources: Iterable[str] = (),
        is_default: bool = False,
        cluster: str | None = None,
        broker: str | None = None,
    ) -> None:
        """Allow or deny actions on resources such as "Topic:orders", "Topic:ord*", "Group:coupons", "Cluster:*" or "*".

        Actions are Pub, Sub, Create, Update, Delete, Get, List and All. `sources` are the addresses and networks that the rule is
        for; none means all. A rule with the same resource is replaced. `is_default` makes rules that count only where no other
        rule matches.
        """
        body = _rules(user, resources, actions, deny, sources, is_default)
        header = CreateAclRequestHeader(subject=_SUBJECT + user)
        await self._change(RequestCode.AUTH_CREATE_ACL, header, body, cluster, broker)

    async def update_rules(
        self,
        user: str,
        resources: Sequence[str],
        actions: Sequence[str],
        *,
        deny: bool = False,
        sources: Iterable[str] = (),
        is_default: bool = False,
        cluster: str | None = None,
        broker: str | None = None,
    ) -> None:
        """Like `create_rules`: servers treat both alike."""
        body = _rules(user, resources, actions, deny, sources, is_default)
        header = UpdateAclRequestHeader(subject=_SUBJECT + user)
        await self._change(RequestCode.AUTH_UPDATE_ACL, header, body, cluster, broker)

    async def delete_rules(
        self,
        user: str,
        resource: str | None = None,
        *,
        is_default: bool = False,
        cluster: str | None = None,
        broker: str | None = None,
    ) -> None:
        """Delete the rule of a user for one resource, or all rules of the user."""
        kind = "Default" if is_default else None
        header = DeleteAclRequestHeader(subject=_SUBJECT + user, policy_type=kind, resource=resource)
        await self._change(RequestCode.AUTH_DELETE_ACL, header, b"", cluster, broker)

    async def list_rules(
        self, user: str = "", resource: str = "", *, cluster: str | None = None, broker: str | None = None
    ) -> list[AccessRule]:
        """Fetch the rules of users and resources whose texts contain these parts."""
        header = ListAclsRequestHeader(subject_filter=user, resource_filter=resource)
        answer = await self._ask(RequestCode.AUTH_LIST_ACL, header, cluster, broker)
        found = self._brokers.decode_body(answer, list[AclInfo]) if answer.body else []
        return [rule for acl in found for rule in _rules_of(acl)]

    # --- requests

    async def _change(self, code: int, header: Header, body: bytes, cluster: str | None, broker: str | None) -> None:
        if broker is not None:
            addresses = [await self._brokers.address(broker)]
        else:
            await self._brokers.masters(cluster)  # an error when there is none
            addresses = [one.address for one in await self._brokers.list_brokers() if cluster in (None, one.cluster)]
        await self._brokers.for_each(addresses, lambda address: self._brokers.session.request_ok(address, code, header, body))

    async def _ask(self, code: int, header: Header, cluster: str | None, broker: str | None) -> Command:
        if broker is None:
            broker = next(iter(await self._brokers.masters(cluster)))
        address = await self._brokers.address(broker)
        return await self._brokers.session.request_ok(address, code, header)


def _rules(
    user: str, resources: Sequence[str], actions: Sequence[str], deny: bool, sources: Iterable[str], is_default: bool
) -> bytes:
    decision, listed = "Deny" if deny else "Allow", list(sources) or None
    entries = [
        PolicyEntryInfo(resource=resource, actions=list(actions), source_ips=listed, decision=decision) for resource in resources
    ]
    policy = PolicyInfo(policy_type="Default" if is_default else None, entries=entries)
    return encode(AclInfo(subject=_SUBJECT + user, policies=[policy]))


def _user(info: UserInfo) -> AccessUser:
    return AccessUser(name=info.username, is_super=info.user_type == "Super", is_enabled=info.user_status != "disable")


def _rules_of(acl: AclInfo) -> list[AccessRule]:
    return [
        AccessRule(
            user=(acl.subject or "").removeprefix(_SUBJECT),
            resource=entry.resource or "",
            actions=tuple(entry.actions or ()),
            decision=entry.decision or "",
            sources=tuple(entry.source_ips or ()),
            is_default=policy.policy_type == "Default",
        )
        for policy in acl.policies or ()
        for entry in policy.entries or ()
    ]
