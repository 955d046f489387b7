"""The broker's role follows the role of its node: the leader is the master, and everybody else is a slave.

A change takes a moment, because the work of the old role must stop. Meanwhile the node may change its role again. So one task
brings the broker into line with what the node is now, and nothing in between counts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from skyrocket.broker.replication.role_switch import RoleSwitch
from skyrocket.broker.replication.roles import BrokerRole
from skyrocket.supervised_task import SupervisedTask

LEADER_REGISTERS_S: Final = 5.0  # a former leader that was frozen may register as the master once more, and take the place
REGISTER_AGAIN_S: Final = (0.3, 1.0, 3.0, 10.0)  # after a new leader: a slave learns the master's address from a nameserver


class RoleFollower:
    def __init__(
        self, roles: RoleSwitch, slave_id: int, register: Callable[[], None], prepare_to_lead: Callable[[], Awaitable[None]]
    ) -> None:
        """`register` makes the broker register with the nameservers soon. `prepare_to_lead` is called before it is the master."""
        self._prepare_to_lead = prepare_to_lead
        self._roles = roles
        self._slave_id = slave_id
        self._register = register
        self._leads = False
        self._leader: str | None = None
        self._changed = asyncio.Event()
        self._timers: list[asyncio.TimerHandle] = []
        self._task: SupervisedTask | None = None

    def start(self) -> None:
        self._task = SupervisedTask("role in the DLedger group", self._run)

    async def close(self) -> None:
        self._cancel_timers()
        if self._task is not None:
            await self._task.close()

    def follow(self, leader: str | None, *, leads: bool) -> None:
        """The node leads now, and may take messages; or another one does, or nobody."""
        if leads != self._leads:
            self._leads = leads
            self._changed.set()
        if leader is not None and leader != self._leader and not leads:
            self._register_again()
        self._leader = leader

    def _register_again(self) -> None:
        self._cancel_timers()
        loop = asyncio.get_running_loop()
        self._timers = [loop.call_later(after_s, self._register) for after_s in REGISTER_AGAIN_S]

    def _cancel_timers(self) -> None:
        for timer in self._timers:
            timer.cancel()

    async def _run(self) -> None:
        while True:
            try:
                async with asyncio.timeout(LEADER_REGISTERS_S):
                    await self._changed.wait()
            except TimeoutError:
                if self._leads:
                    self._register()
            self._changed.clear()
            leads = self._leads
            if leads == self._roles.is_slave:
                if leads:
                    await self._prepare_to_lead()
                role, broker_id = (BrokerRole.SYNC_MASTER, 0) if leads else (BrokerRole.SLAVE, self._slave_id)
                await self._roles.change(role, broker_id)
