"""Replication of this broker: a master feeds its slaves, a slave follows its master.

| role         | listens on the HA port | a send is answered when                    |
|--------------|------------------------|--------------------------------------------|
| ASYNC_MASTER | yes                    | the message is stored here                 |
| SYNC_MASTER  | yes                    | inSyncReplicas - 1 slaves have it, too     |
| SLAVE        | no                     | never: it takes no messages                |

SYNC_MASTER is a requirement of the store's horizon, beside that of SYNC_FLUSH. So no consumer sees a message before enough slaves
have it.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable

from skyrocket.broker.replication.ha_client import HaClient
from skyrocket.broker.replication.ha_server import HaServer
from skyrocket.broker.replication.master_probe import HA_EXTENSION
from skyrocket.broker.replication.roles import confirmed_by_slaves, copies_needed
from skyrocket.broker.settings import BrokerSettings
from skyrocket.net.dialer import Dialer
from skyrocket.net.errors import NetError
from skyrocket.net.tls import renew
from skyrocket.store.files import Files
from skyrocket.store.flusher import Flusher
from skyrocket.store.horizon import REPLICAS
from skyrocket.store.message_store import MessageStore
from skyrocket.store.replica.log_reader import LogReader

log = logging.getLogger(__name__)


class Replication:
    def __init__(
        self, store: MessageStore, files: Files, settings: Callable[[], BrokerSettings], now_ms: Callable[[], int]
    ) -> None:
        self._store = store
        self._reader = LogReader(store.log, files)
        self._settings = settings
        self._now_ms = now_ms
        self._chooses_port = settings().port == 0  # the system chooses the broker's port, and that for slaves
        self._on_horizon: Callable[[], None] = lambda: None
        self._copies = 1  # that a send waits for, the master's own included
        self.on_refused: Callable[[str, str], None] = lambda _peer, _why: None  # called with slaves that the HA port refuses
        self.server: HaServer | None = None  # of a master
        self.client: HaClient | None = None  # of a slave
        self.ha_port = 0  # 0 while nothing listens
        self._tls: ssl.SSLContext | None = None

    async def start(
        self, flusher: Flusher, dialer: Dialer, on_appended: Callable[[], None], on_confirmed: Callable[[], None]
    ) -> None:
        """Listen for slaves, or begin to follow the master.

        `on_appended` is for a slave that has appended, `on_confirmed` for a master whose horizon has moved.
        """
        settings = self._settings()
        secret = settings.ha_secret()
        if settings.role.is_slave:
            self._tls = tls = settings.client_tls(settings.uses_ha_tls)
            self.client = HaClient(
                self._store, flusher, self._reader, self._settings, dialer, self._now_ms, on_appended, secret, tls
            )
            self.client.start()
            return
        self._on_horizon = on_confirmed
        self.server = HaServer(
            self._store, self._reader, self._settings, self._now_ms, self._on_acknowledged, secret, self.on_refused
        )
        try:
            default_port = 0 if self._chooses_port else settings.port + 1
            self._tls = tls = settings.server_tls() if settings.uses_ha_tls else None
            self.ha_port = await self.server.listen(settings.host, settings.ha_port or default_port, tls)
        except NetError as error:
            if settings.ha_port or self._copies > 1:
                raise
            log.warning("%s Until then this master has no slaves.", error)

    def announced_address(self) -> str:
        """Return the HA address for slaves; empty while nothing listens there."""
        settings = self._settings()
        host = settings.ha_host or settings.advertised_host or settings.host
        return f"{f'[{host}]' if ':' in host else host}:{self.ha_port}" if self.ha_port else ""

    async def close(self) -> None:
        if self.client is not None:
            await self.client.close()
        if self.server is not None:
            await self.server.close()

    @property
    def is_copying(self) -> bool:
        """Whether this broker is a slave that copies its master's log now."""
        return self.client is not None and self.client.is_connected

    def set_master(self, ha_address: str, broker_address: str = "") -> None:
        """Tell a slave the HA address of its master and its ordinary address, as a nameserver gives them."""
        if self.client is not None:
            self.client.set_master(ha_address, broker_address)

    # --- events

    def on_appended(self) -> None:
        """The log has grown."""
        if self.server is not None and self.server.slaves:
            self.server.on_appended()

    def on_confirmed(self) -> None:
        """The horizon has moved."""
        if self.client is not None:
            self.client.on_confirmed()

    def check_time(self, now_ms: int) -> None:
        renew(self._tls, now_ms)
        if self.server is not None:
            self.server.check_time(now_ms)
            self.require_copies()

    def require_copies(self) -> None:
        """Let the horizon wait for as many slaves as the settings say, which may have changed.

        The broker calls this before it takes the first message.
        """
        settings = self._settings()
        copies = copies_needed(settings.role, settings.in_sync_replicas)
        if copies == self._copies:
            return
        self._copies = copies
        if copies > 1:
            self._store.horizon.require(REPLICAS, self._store.horizon.confirmed)
            self._on_acknowledged()
        else:
            self._store.horizon.release(REPLICAS)
            self._store.dispatch()
            self._on_horizon()

    def _on_acknowledged(self) -> None:
        if self._copies > 1 and self.server is not None:
            before = self._store.horizon.confirmed
            self._store.reach(REPLICAS, confirmed_by_slaves(self.server.acknowledged(), self._copies - 1))
            if self._store.horizon.confirmed != before:
                self._on_horizon()

    def figures(self) -> dict[str, str]:
        """Return rows for the broker's runtime information."""
        return {HA_EXTENSION: "1"} if self.server is not None else {}
