"""Which requests to a broker are in its audit log, and what their lines say.

    refused requests           every one where there is access control, else the administrative ones, which a slave refuses
    administrative requests    when they are answered, with the code of the answer
    slaves at the HA port      that do not know its secret

A line has names, but no bodies, values, passwords or signatures. Without authentication nobody knows who a user is, whatever a
request says, so no line names one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from skyrocket.auth.request_needs import needs_of
from skyrocket.auth.request_targets import targets_of
from skyrocket.net.audit_log import ADMITTED, REFUSED, AuditLog, outcome_of
from skyrocket.net.connection import Connection
from skyrocket.net.router import Answer, Refusal
from skyrocket.protocol.command import Command
from skyrocket.protocol.permissions import Action, Resource
from skyrocket.protocol.requests import REQUESTS
from skyrocket.protocol.signature import ACCESS_KEY

_CHANGES: Final = Action.CREATE | Action.UPDATE | Action.DELETE
ADMINISTRATIVE: Final = frozenset(
    code for code, spec in REQUESTS.items() if spec.permission.actions & _CHANGES and not spec.permission.actions & Action.SUB
)
"""Requests that change something as an administrator does: not as a consumer, which commits its own offsets."""


class BrokerAudit:
    """Describes requests for the audit log."""

    codes = ADMINISTRATIVE

    def __init__(self, audit: AuditLog, cluster: str, *, knows_users: bool) -> None:
        self._audit = audit
        self._cluster = cluster
        self._knows_users = knows_users

    def begin(self, command: Command, connection: Connection) -> Callable[[Answer], None]:
        code, peer, user = command.code, connection.peer_text, self._user(command)
        resources = [str(need) for need in needs_of(command, self._cluster)]
        targets = targets_of(command)

        def record(answer: Answer) -> None:
            response, remark = outcome_of(answer)
            self._audit.record(
                ADMITTED,
                user=user,
                peer=peer,
                code=code,
                request=REQUESTS[code].name,
                resources=resources,
                targets=targets,
                response=response,
                remark=remark,
            )

        return record

    def record_refusal(self, command: Command, connection: Connection, refusal: Refusal) -> None:
        spec = REQUESTS.get(command.code)
        # The body of a stranger's request is not decoded: that could take long.
        is_readable = spec is None or spec.permission.resource is not Resource.IN_BODY
        self._audit.record(
            REFUSED,
            user=self._user(command),
            peer=connection.peer_text,
            code=command.code,
            request="" if spec is None else spec.name,
            resources=[str(need) for need in needs_of(command, self._cluster)] if is_readable else (),
            targets=targets_of(command, with_body=False),
            response=refusal.code,
            remark=refusal.remark,
        )

    def record_refused_slave(self, peer: str, remark: str) -> None:
        """Take note of who wanted to copy the log without knowing the secret."""
        self._audit.record(REFUSED, user="", peer=peer, code=None, request="HA", remark=remark)

    def _user(self, command: Command) -> str:
        return command.fields.get(ACCESS_KEY, "") if self._knows_users else ""
