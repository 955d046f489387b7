"""A router behind a guard, with users and rules, and a connection that keeps the answers: access control without a network."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from skyrocket.auth.access_table import AccessTable
from skyrocket.auth.users import AccessKeys, User, UserType
from skyrocket.broker.auth.access_control import AccessControl
from skyrocket.broker.settings import BrokerSettings
from skyrocket.net.connection import Connection
from skyrocket.net.router import Router
from skyrocket.protocol.bodies import AclInfo, PolicyEntryInfo, PolicyInfo
from skyrocket.protocol.command import Command, CommandDecoder
from skyrocket.protocol.requests import REQUESTS
from skyrocket.protocol.signature import signed_fields

ROOT = AccessKeys("rocketmq", "12345678")
ALICE = AccessKeys("alice", "alice-secret")
NOW_MS = 1_700_000_000_000
BASE = BrokerSettings(cluster_name="Lab", authentication_enabled=True, authorization_enabled=True, init_user=ROOT)


class KeptAnswers:
    """The part of a connection that the router uses."""

    is_full = must_stop = False

    def __init__(self, address: str = "127.0.0.1") -> None:
        self.peer = (address, 50_000)
        self.peer_text = f"{address}:50000"
        self.answers: list[Command] = []

    def send_command(self, command: Command) -> None:
        self.answers.append(command)

    def send(self, data: bytes) -> None:
        self.answers += CommandDecoder().feed(data)


class GuardedRouter:
    """Every request that no handler of access control serves counts in `served` and is answered with 0."""

    def __init__(self, home: Path, **settings: Any) -> None:
        self.settings = replace(BASE, store_path=str(home), **settings)
        self.access = AccessControl(lambda: self.settings, home / "config", lambda: NOW_MS)
        self.access.load()
        self.router = Router()
        self.access.install(self.router)
        self.served: list[Command] = []
        for code in REQUESTS.keys() - self.router.codes:
            self.router.add(code, self._serve)

    def _serve(self, command: Command, _connection: Connection) -> Command:
        self.served.append(command)
        return command.response(0)

    @property
    def table(self) -> AccessTable:
        return self.access.store.table

    def add_user(self, keys: AccessKeys, kind: UserType = UserType.NORMAL) -> None:
        self.access.store.change_now(lambda table: table.with_user(User(keys.name, keys.password, kind)))

    def allow(
        self, keys: AccessKeys, resource: str, *actions: str, decision: str = "Allow", sources: tuple[str, ...] = ()
    ) -> None:
        self.access.store.change_now(
            lambda table: table.merge_acl(f"User:{keys.name}", rules(resource, *actions, decision=decision, sources=sources))
        )

    async def ask(self, command: Command, address: str = "127.0.0.1") -> Command | None:
        """Return the answer; None when there is none."""
        connection = KeptAnswers(address)
        assert self.router.handle(cast("Connection", connection), [command]) == []
        await self.router.drain()
        return connection.answers[0] if connection.answers else None

    def audited(self) -> str:
        path = self.settings.audit_log_file
        return path.read_text() if path.exists() else ""


def rules(resource: str, *actions: str, decision: str = "Allow", sources: tuple[str, ...] = ()) -> AclInfo:
    entry = PolicyEntryInfo(resource=resource, actions=list(actions), decision=decision, source_ips=list(sources))
    return AclInfo(policies=[PolicyInfo(entries=[entry])])


def signed(code: int, fields: dict[str, str] | None = None, body: bytes = b"", keys: AccessKeys = ALICE) -> Command:
    return Command(code, opaque=7, fields=signed_fields(fields or {}, body, keys.name, keys.password), body=body)
