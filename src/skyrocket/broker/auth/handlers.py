"""Requests about users (3001 to 3005) and rules (3006 to 3010).

Their answers are Apache's, with one exception: no answer contains a password. Apache returns passwords in clear, so that mqadmin
copyUser can copy them. A slave gets them sealed (`SEALED`), if its user is Super.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from skyrocket.auth.access_file import sealed_users
from skyrocket.auth.access_table import AccessTable, user_info
from skyrocket.auth.errors import AccessError
from skyrocket.auth.sealing import transfer_key
from skyrocket.auth.users import User
from skyrocket.broker.auth.access_store import AccessStore, new_nonce
from skyrocket.net.connection import Connection
from skyrocket.net.router import RefusedError, Router
from skyrocket.protocol.bodies import AclInfo, UserInfo
from skyrocket.protocol.command import Command
from skyrocket.protocol.fastjson.codec import decode_request, encode
from skyrocket.protocol.headers import (
    CreateAclRequestHeader,
    CreateUserRequestHeader,
    DeleteAclRequestHeader,
    DeleteUserRequestHeader,
    GetAclRequestHeader,
    GetUserRequestHeader,
    ListAclsRequestHeader,
    ListUsersRequestHeader,
    UpdateAclRequestHeader,
    UpdateUserRequestHeader,
)
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from skyrocket.protocol.signature import ACCESS_KEY

SEALED: Final = "sealed"  # a field of ours in 3005: the passwords are wanted, sealed for the user who asks
_REMARK: Final = "not set any response code"  # of every successful answer of Apache's

T = TypeVar("T")


class AccessHandlers:
    def __init__(self, store: AccessStore, *, is_authenticating: bool) -> None:
        """Without authentication nobody knows who asks: like Apache, the broker then allows everything."""
        self._store = store
        self._is_authenticating = is_authenticating

    def register(self, router: Router) -> None:
        router.add(RequestCode.AUTH_CREATE_USER, self.create_user)
        router.add(RequestCode.AUTH_UPDATE_USER, self.update_user)
        router.add(RequestCode.AUTH_DELETE_USER, self.delete_user)
        router.add(RequestCode.AUTH_GET_USER, self.get_user)
        router.add(RequestCode.AUTH_LIST_USER, self.list_users)
        router.add(RequestCode.AUTH_CREATE_ACL, self.create_acl)
        router.add(RequestCode.AUTH_UPDATE_ACL, self.update_acl)
        router.add(RequestCode.AUTH_DELETE_ACL, self.delete_acl)
        router.add(RequestCode.AUTH_GET_ACL, self.get_acl)
        router.add(RequestCode.AUTH_LIST_ACL, self.list_acls)

    # --- users

    async def create_user(self, command: Command, _connection: Connection) -> Command:
        name, caller = command.header(CreateUserRequestHeader).username, self._caller(command)
        info = decode_request(command.body, UserInfo) if command.body else UserInfo()
        return await self._change(command, lambda table: table.create_user(name, info, caller))

    async def update_user(self, command: Command, _connection: Connection) -> Command:
        name, caller = command.header(UpdateUserRequestHeader).username, self._caller(command)
        info = decode_request(command.body, UserInfo) if command.body else UserInfo()
        return await self._change(command, lambda table: table.update_user(name, info, caller))

    async def delete_user(self, command: Command, _connection: Connection) -> Command:
        name, caller = command.header(DeleteUserRequestHeader).username, self._caller(command)
        return await self._change(command, lambda table: table.delete_user(name, caller))

    def get_user(self, command: Command, _connection: Connection) -> Command:
        header = command.header(GetUserRequestHeader)
        found = _checked(lambda: self._store.table.user(header.username))
        return _success(command, b"" if found is None else encode(user_info(found)))

    def list_users(self, command: Command, _connection: Connection) -> Command:
        found = self._store.table.list_users(command.header(ListUsersRequestHeader).filter)
        if command.fields.get(SEALED) == "true":
            caller = self._caller(command)
            if caller is None or not caller.is_super:
                raise RefusedError(ResponseCode.NO_PERMISSION, "Only a Super user gets sealed passwords.")
            response = _success(command, encode(sealed_users(found, transfer_key(caller.password), new_nonce)))
            response.fields = {SEALED: "true"}
            return response
        return _success(command, encode([user_info(user) for user in found]) if found else b"")

    # --- rules

    async def create_acl(self, command: Command, _connection: Connection) -> Command:
        return await self._merge(command, command.header(CreateAclRequestHeader).subject)

    async def update_acl(self, command: Command, _connection: Connection) -> Command:
        return await self._merge(command, command.header(UpdateAclRequestHeader).subject)

    async def _merge(self, command: Command, subject: str | None) -> Command:
        """Apache's create and update do the same."""
        info = decode_request(command.body, AclInfo) if command.body else None
        return await self._change(command, lambda table: table.merge_acl(subject, info))

    async def delete_acl(self, command: Command, _connection: Connection) -> Command:
        header = command.header(DeleteAclRequestHeader)
        return await self._change(command, lambda table: table.delete_acl(header.subject, header.policy_type, header.resource))

    def get_acl(self, command: Command, _connection: Connection) -> Command:
        header = command.header(GetAclRequestHeader)
        found = _checked(lambda: self._store.table.acl_info(header.subject))
        return _success(command, b"" if found is None else encode(found))

    def list_acls(self, command: Command, _connection: Connection) -> Command:
        header = command.header(ListAclsRequestHeader)
        found = self._store.table.list_acls(header.subject_filter, header.resource_filter)
        return _success(command, encode(found) if found else b"")

    # --- shared

    def _caller(self, command: Command) -> User | None:
        """Return who asks; None when nobody is authenticated."""
        return self._store.table.users.get(command.fields.get(ACCESS_KEY, "")) if self._is_authenticating else None

    async def _change(self, command: Command, changed: Callable[[AccessTable], AccessTable]) -> Command:
        try:
            await self._store.change(changed)
        except AccessError as error:
            raise RefusedError(error.code, str(error)) from error
        return _success(command, b"")


def _checked(read: Callable[[], T]) -> T:
    try:
        return read()
    except AccessError as error:
        raise RefusedError(error.code, str(error)) from error


def _success(command: Command, body: bytes) -> Command:
    return command.response(ResponseCode.SUCCESS, body=body, remark=_REMARK)
