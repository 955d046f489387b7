"""The guard: authenticates and authorizes every request before a handler sees it.

    request → who? (AccessKey, Signature) → what does it need? (request table) → do the user's rules allow it? → handler
                 │ code 16                                                          │ code 16

The signature of every request is verified. Nothing of it is remembered, because Apache's cache of verdicts accepts any signature
behind a good one. Remembered is what follows from the rules alone: which user may use which resource from which address, until
the rules change.

A frame that a fast path may handle goes on without its credentials, encoded again: fast paths know plain headers, and no two
parsers can disagree about what was authorized.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from skyrocket.auth.access_table import AccessTable
from skyrocket.auth.decision import AccessDecision, decide, refusal_remark
from skyrocket.auth.policies import Acl
from skyrocket.auth.request_needs import naming_fields, needs_of
from skyrocket.auth.users import User, authenticate
from skyrocket.broker.auth.request_audit import ADMINISTRATIVE, BrokerAudit
from skyrocket.broker.settings import BrokerSettings
from skyrocket.net.connection import Connection
from skyrocket.net.router import Refusal
from skyrocket.protocol.command import RESPONSE_FLAG, Command, decode_command, encode_header
from skyrocket.protocol.errors import FrameError
from skyrocket.protocol.frame import Frame
from skyrocket.protocol.responses import ResponseCode
from skyrocket.protocol.signature import CREDENTIAL_FIELDS, SECURITY_TOKEN, SIGNATURE

ADMITTED_MAX: Final = 10_000  # remembered: users × resources × addresses

_NOT_AUTHORIZED: Final = "Authorization failed. Please verify your access rights and try again."

_Admitted = tuple[str | None, ...]  # user, address, and what the header names


class AccessGuard:
    def __init__(self, settings: Callable[[], BrokerSettings], table: Callable[[], AccessTable], audit: BrokerAudit) -> None:
        now = settings()  # the settings of access control change only with a restart
        self._is_authorizing = now.authorization_enabled
        self._is_compatible = now.authorization_compatible
        self._unauthenticated = now.authentication_whitelist
        self._unauthorized = now.authorization_whitelist
        self._cluster = now.cluster_name
        self._table = table
        self._audit = audit
        self._admitted: dict[int, tuple[tuple[str, ...] | None, set[_Admitted]]] = {}  # by code: the fields that name resources
        self._admitted_count = 0

    def forget(self) -> None:
        """Forget what was admitted: users or rules have changed."""
        self._admitted.clear()
        self._admitted_count = 0

    # --- the general path

    def refusal(self, command: Command, connection: Connection) -> Refusal | None:
        user, remark = self._authenticate(command)
        if remark is None:
            remark = self._authorize(command, user, connection.peer[0])
        if remark is not None:
            return Refusal(ResponseCode.NO_PERMISSION, remark)
        # Some handlers pass a request on to a consumer. The request code is not signed: with a signature of an administrator's,
        # the consumer could send the same fields under another code.
        command.fields.pop(SIGNATURE, None)
        command.fields.pop(SECURITY_TOKEN, None)
        return None

    def record_refusal(self, command: Command, connection: Connection, refusal: Refusal) -> None:
        self._audit.record_refusal(command, connection, refusal)

    def _authenticate(self, command: Command) -> tuple[User | None, str | None]:
        """Return who sends a request, and why that is not believed. Both are None for a code that needs no signature."""
        if command.code in self._unauthenticated:
            return None, None
        return authenticate(command, self._table().users)

    def _authorize(self, command: Command, user: User | None, address: str) -> str | None:
        """Say why a user may not send a request; None when it may."""
        if not self._is_authorizing or command.code in self._unauthorized or (user is not None and user.is_super):
            return None
        needs = needs_of(command, self._cluster, is_compatible=self._is_compatible)
        if not needs:
            return None
        if user is None:
            return _NOT_AUTHORIZED
        acl = self._table().acls.get(user.name, Acl())
        for need in needs:
            verdict = decide(acl, need, address)
            if verdict is not AccessDecision.ALLOWED:
                return refusal_remark(user.name, need, address, verdict)
        return None

    # --- the fast paths

    def admit(self, frames: list[Frame], connection: Connection) -> list[Frame]:
        admitted: list[Frame] = []
        address = connection.peer[0]
        for frame in frames:
            try:
                command = decode_command(frame)
            except FrameError:
                break
            if command.flag & RESPONSE_FLAG or not self._is_admitted(command, address):
                break
            for name in CREDENTIAL_FIELDS:
                command.fields.pop(name, None)
            admitted.append(Frame(frame.serialization, encode_header(command), frame.body))
        return admitted

    def _is_admitted(self, command: Command, address: str) -> bool:
        user, remark = self._authenticate(command)
        if remark is not None or command.code in ADMINISTRATIVE:
            return False
        row = self._admitted.get(command.code)
        if row is None:
            row = self._admitted[command.code] = (naming_fields(command.code), set())
        fields, known = row
        if fields is None or user is None:
            return self._authorize(command, user, address) is None
        key = (user.name, address, *[command.fields.get(name) for name in fields])
        if key in known:
            return True
        if self._authorize(command, user, address) is not None:
            return False
        if self._admitted_count >= ADMITTED_MAX:
            self.forget()
        else:
            known.add(key)
            self._admitted_count += 1
        return True
