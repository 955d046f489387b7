"""Access control of one broker: what it loads at start, and the guard that it puts before all handlers.

load      read users and rules; make initAuthenticationUser and the user of innerClientAuthenticationCredentials if they are
          missing; take what plain_acl.yml has
install   register the requests about users and rules, set the guard if authenticationEnabled, and the audit of requests
sign      sign what the broker sends to masters and nameservers
follow    a slave's part: copy the users and rules of its master
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Final

from skyrocket.auth.access_file import build_table
from skyrocket.auth.access_table import AccessTable
from skyrocket.auth.errors import AccessError
from skyrocket.auth.plain_acl import convert_plain_acl
from skyrocket.auth.sealing import transfer_key, unseal
from skyrocket.auth.users import AccessKeys, User, UserType
from skyrocket.broker.auth.access_store import AccessStore
from skyrocket.broker.auth.guard import AccessGuard
from skyrocket.broker.auth.handlers import SEALED, AccessHandlers
from skyrocket.broker.auth.request_audit import BrokerAudit
from skyrocket.broker.settings import BrokerSettings
from skyrocket.net.audit_log import AuditLog
from skyrocket.net.router import Router
from skyrocket.protocol.bodies import AclInfo, UserInfo
from skyrocket.protocol.command import Command
from skyrocket.protocol.fastjson.codec import decode
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.signature import signed_fields

log = logging.getLogger(__name__)

PLAIN_ACL_BYTES_MAX: Final = 16 * 1024 * 1024
NAMED_MAX: Final = 20  # users in one line of the log

Ask = Callable[[int, dict[str, str]], Awaitable[Command]]


class AccessControl:
    def __init__(self, settings: Callable[[], BrokerSettings], directory: Path, wall_ms: Callable[[], int]) -> None:
        self._settings = settings
        self.store = AccessStore(directory)
        self.audit = AuditLog(settings().audit_log_file, wall_ms)
        self._inner = settings().inner_credentials
        self._is_audited = settings().is_audited
        self._requests = BrokerAudit(self.audit, settings().cluster_name, knows_users=self.is_on)

    @property
    def is_on(self) -> bool:
        return self._settings().authentication_enabled

    def load(self) -> None:
        """Raise AccessError when the files of users and rules cannot be used."""
        settings = self._settings()
        self.store.load()
        for keys in (settings.init_user, settings.inner_credentials):
            if keys is not None:
                self.store.change_now(partial(_with_super, keys))
        if settings.migrate_plain_acl:
            self._take_plain_acl(Path(settings.plain_acl_path))
        if self.is_on and not self.store.table.users:
            log.warning(
                "authenticationEnabled is on and there are no users: every request is refused. Set initAuthenticationUser."
            )
        if not self.is_on and self.store.table.users:
            log.warning("There are users, but authenticationEnabled is off: everyone who can connect may do everything.")

    def _take_plain_acl(self, path: Path) -> None:
        try:
            text = path.read_bytes()[: PLAIN_ACL_BYTES_MAX + 1]
        except OSError as error:
            raise AccessError(f"plainAclPath {path} cannot be read: {error.strerror}.") from error
        if len(text) > PLAIN_ACL_BYTES_MAX:
            raise AccessError(f"plainAclPath {path} has more than {PLAIN_ACL_BYTES_MAX} bytes.")
        converted = convert_plain_acl(text.decode("utf-8", "replace"))
        for sentence in converted.left_out:
            log.warning("%s: left out %s.", path, sentence)
        self.store.change_now(converted.add_to)

    def install(self, router: Router) -> None:
        """Register the requests; from now on, the guard decides about every request if authentication is on."""
        AccessHandlers(self.store, is_authenticating=self.is_on).register(router)
        if self.is_on:
            guard = AccessGuard(self._settings, lambda: self.store.table, self._requests)
            self.store.on_change.append(guard.forget)
            router.set_guard(guard)
        if self._is_audited:
            router.audit = self._requests

    def record_refused_slave(self, peer: str, remark: str) -> None:
        """Take note of who wanted to copy the log without knowing the secret."""
        if self._is_audited:
            self._requests.record_refused_slave(peer, remark)

    def sign(self, command: Command) -> None:
        """Sign a request of the broker's own, if it has credentials."""
        if self._inner is not None:
            command.fields = signed_fields(command.fields, command.body, self._inner.name, self._inner.password)

    async def follow(self, ask: Ask) -> None:
        """Copy the users and rules of the master. Those of Apache's masters come with plain passwords, ours with sealed ones.

        A master without users is not copied: it has lost its disk, or has no access control.
        """
        if self._inner is None or not self.is_on:
            return
        users = await ask(RequestCode.AUTH_LIST_USER, {SEALED: "true"})
        acls = await ask(RequestCode.AUTH_LIST_ACL, {})
        if not users.body:
            return
        key, is_sealed = transfer_key(self._inner.password), users.fields.get(SEALED) == "true"
        table = build_table(
            decode(users.body, list[UserInfo]),
            decode(acls.body, list[AclInfo]) if acls.body else (),
            lambda text: unseal(key, text) if is_sealed else text,
        )
        undone = await self.store.copy(_with_super(self._inner, table))
        if undone:
            log.warning(
                "Users or rules that were changed here are now as the master has them: %s%s. Change them at the master.",
                ", ".join(map(repr, undone[:NAMED_MAX])),
                f" and {len(undone) - NAMED_MAX} more" if len(undone) > NAMED_MAX else "",
            )


def _with_super(keys: AccessKeys, table: AccessTable) -> AccessTable:
    """Make a Super user if there is no user of that name. One that exists stays as it is."""
    if keys.name in table.users:
        return table
    return table.with_user(User(keys.name, keys.password, UserType.SUPER))
