"""The work that only a master does beside requests: due delays and timers, checks of half messages, and slow consumers.

All of it stores messages or changes tables. So a slave does none of it: it gets the results from its master.
"""

from __future__ import annotations

from collections.abc import Callable

from skyrocket.broker.delay.install import DelayParts
from skyrocket.broker.scheduler import Scheduler
from skyrocket.broker.transactions.checker import TransactionChecker


class MasterWork:
    def __init__(
        self,
        scheduler: Scheduler,
        delay: DelayParts,
        checker: TransactionChecker,
        wall_ms: Callable[[], int],
        machine_ms: Callable[[], int],
        *,
        begins_as_slave: bool,
    ) -> None:
        """The parts are ready for a broker that begins as master."""
        self._scheduler = scheduler
        self._delay = delay
        self._checker = checker
        self._wall_ms = wall_ms
        self._machine_ms = machine_ms
        self._starts_over = begins_as_slave

    def start(self) -> None:
        """Continue where the last master stopped, which may have been another broker."""
        if self._starts_over:
            self._checker.start_over(self._wall_ms())
            self._delay.schedule.start_over()
            if self._delay.timers is not None:
                self._delay.timers.delivery.start_over(self._machine_ms())
        self._starts_over = True
        self._scheduler.start()
        if self._delay.timers is not None:
            self._delay.timers.keeper.start()

    async def stop(self) -> None:
        """Stop all of it, also if one part fails to stop."""
        try:
            if self._delay.timers is not None:
                await self._delay.timers.keeper.close()
        finally:
            await self._scheduler.close()
