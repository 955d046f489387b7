"""The role of a running broker, and the one place where it changes.

    role_switch.add_master_work(part)       a part that works while the broker is master: delays, timers, checks of transactions
    role_switch.add_slave_work(part)        a part that works while it is a slave: the copy of the master's tables, and of its log
    role_switch.start()                     begin with the role of the settings
    await role_switch.change(role, id)      stop the work of the old role, take the new role, start its work

The settings hold the role and the id, and every part reads them there. While the broker is a slave, the router refuses what a
slave refuses (`slave_refusals`), before a handler sees it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Protocol

from skyrocket.broker.replication.roles import BrokerRole
from skyrocket.broker.replication.slave_refusals import slave_refusal
from skyrocket.broker.settings import BrokerSettings
from skyrocket.net.router import Refusal, Router
from skyrocket.settings.live import LiveSettings

log = logging.getLogger(__name__)


class RoleWork(Protocol):
    """Work that belongs to a role. It may be started again after it was stopped."""

    def start(self) -> None: ...

    async def stop(self) -> None: ...


class RoleSwitch:
    def __init__(self, settings: LiveSettings[BrokerSettings], router: Router) -> None:
        self._settings = settings
        self._router = router
        self._work: dict[bool, list[RoleWork]] = {True: [], False: []}  # by whether it is a slave's
        self._started: list[RoleWork] = []
        self._changing = asyncio.Lock()
        self.on_change: list[Callable[[], None]] = []  # called after each change: the broker registers again
        self._apply()

    @property
    def is_slave(self) -> bool:
        return self._settings().role.is_slave

    def add_master_work(self, work: RoleWork) -> None:
        self._work[False].append(work)

    def add_slave_work(self, work: RoleWork) -> None:
        self._work[True].append(work)

    def start(self) -> None:
        """Start the work of the role that the settings name."""
        for work in self._work[self.is_slave]:
            work.start()
            self._started.append(work)

    async def stop(self) -> None:
        """Stop the work of the role, the last part first, and all parts, also if one of them fails to stop."""
        started, self._started = self._started, []
        async with AsyncExitStack() as stopping:
            for work in started:
                stopping.push_async_callback(work.stop)

    async def change(self, role: BrokerRole, broker_id: int) -> None:
        """Become master (id 0) or slave (another id). Requests that arrive meanwhile are answered by the old role's rules, or
        by the new ones: the rules change in one step, after the old work has stopped."""
        assert (broker_id == 0) is not role.is_slave, f"{role} has the id {broker_id}"
        async with self._changing:
            was_slave = self.is_slave
            if was_slave != role.is_slave:
                await self.stop()
            self._settings.replace(replace(self._settings(), role=role, broker_id=broker_id))
            self._apply()
            if was_slave != role.is_slave:
                self.start()
            log.info("This broker is %s now, with id %d.", role, broker_id)
        for notify in self.on_change:
            notify()

    def _apply(self) -> None:
        self._router.refusal_of = self._refusal_of if self.is_slave else None

    def _refusal_of(self, code: int) -> Refusal | None:
        return slave_refusal(code, serves_reads=self._settings().slave_read)
