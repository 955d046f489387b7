"""Access control of a nameserver: who may change what it knows.

    request → is it a look-up? ── yes ──▶ handler          clients' users are at the brokers, so routes are open to all
                 │ no
                 ▼
              signed by a user of the settings? ── no ──▶ 16, and a line in the audit log

The users are the two of a broker's settings: `innerClientAuthenticationCredentials`, with which brokers sign when they register
(Apache's too), and `initAuthenticationUser`, the administrator. Apache's nameserver checks no signature.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from skyrocket.auth.request_targets import targets_of
from skyrocket.auth.users import User, UserType, authenticate
from skyrocket.nameserver.settings import NameserverSettings
from skyrocket.net.audit_log import ADMITTED, REFUSED, AuditLog, outcome_of
from skyrocket.net.connection import Connection
from skyrocket.net.router import Answer, Refusal
from skyrocket.protocol.command import Command
from skyrocket.protocol.frame import Frame
from skyrocket.protocol.requests import REQUESTS, TO_NAMESERVER, RequestCode
from skyrocket.protocol.responses import ResponseCode
from skyrocket.protocol.signature import ACCESS_KEY

LOOK_UPS: Final = frozenset(
    {
        RequestCode.GET_ROUTEINFO_BY_TOPIC,
        RequestCode.GET_BROKER_CLUSTER_INFO,
        RequestCode.GET_BROKER_MEMBER_GROUP,
        RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
        RequestCode.GET_TOPICS_BY_CLUSTER,
        RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS,
        RequestCode.GET_UNIT_TOPIC_LIST,
        RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST,
        RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST,
        RequestCode.GET_KV_CONFIG,
        RequestCode.GET_KVLIST_BY_NAMESPACE,
    }
)
_BROKERS_OWN: Final = frozenset(  # sent every few seconds, so they are no news
    {
        RequestCode.REGISTER_BROKER,
        RequestCode.UNREGISTER_BROKER,
        RequestCode.QUERY_DATA_VERSION,
        RequestCode.BROKER_HEARTBEAT,
    }
)


class NameserverGuard:
    """Decides about every request before a handler sees it."""

    def __init__(self, settings: NameserverSettings, audit: NameserverAudit) -> None:
        keys = (settings.inner_credentials, settings.init_user)
        self._users = {each.name: User(each.name, each.password, UserType.SUPER) for each in keys if each is not None}
        self._audit = audit

    def refusal(self, command: Command, connection: Connection) -> Refusal | None:  # noqa: ARG002
        if command.code in LOOK_UPS:
            return None
        _, remark = authenticate(command, self._users)
        if remark is not None:
            return Refusal(ResponseCode.NO_PERMISSION, remark)
        return None

    def record_refusal(self, command: Command, connection: Connection, refusal: Refusal) -> None:
        self._audit.record_refusal(command, connection, refusal)

    def admit(self, frames: list[Frame], connection: Connection) -> list[Frame]:  # noqa: ARG002
        return []  # a nameserver has no fast paths


class NameserverAudit:
    """Describes requests for the audit log: refused ones, and administrative ones when they are answered.

    Without authentication nobody knows who a user is, whatever a request says.
    """

    codes = frozenset(code for code, spec in REQUESTS.items() if spec.direction & TO_NAMESERVER) - LOOK_UPS - _BROKERS_OWN

    def __init__(self, audit: AuditLog, *, knows_users: bool) -> None:
        self._audit = audit
        self._knows_users = knows_users

    def begin(self, command: Command, connection: Connection) -> Callable[[Answer], None]:
        record = self._describe(ADMITTED, command, connection, with_body=True)

        def finish(answer: Answer) -> None:
            response, remark = outcome_of(answer)
            record(response=response, remark=remark)

        return finish

    def record_refusal(self, command: Command, connection: Connection, refusal: Refusal) -> None:
        self._describe(REFUSED, command, connection, with_body=False)(response=refusal.code, remark=refusal.remark)

    def _describe(self, decision: str, command: Command, connection: Connection, *, with_body: bool) -> Callable[..., None]:
        spec = REQUESTS.get(command.code)
        return partial(
            self._audit.record,
            decision,
            user=command.fields.get(ACCESS_KEY, "") if self._knows_users else "",
            peer=connection.peer_text,
            code=command.code,
            request="" if spec is None else spec.name,
            targets=targets_of(command, with_body=with_body),
        )
