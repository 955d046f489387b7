"""Which groups are furthest behind: all groups are asked in the background, while somebody looks, and the largest lags are kept.

    overview ──look──▶ older than 30 s? ──▶ a sweep, eight groups at a time ──▶ the largest lags, with their time
                └──────────────────────────── what the last sweep found, at once

So a page never waits for hundreds of groups, and says how old its figures are.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from skyrocket.client import Admin, ClientError
from skyrocket.console.limits import LAGS_SHOWN, SWEEP_EVERY_MS, SWEPT_GROUPS_MAX
from skyrocket.console.visit import PagePart, attempt_each
from skyrocket.protocol.system_names import RETRY_PREFIX

_NEVER: Final = -SWEEP_EVERY_MS


class LaggingGroup(NamedTuple):
    group: str
    lag: int
    oldest_ms: int  # when the oldest consumed message was stored, of the queues that are behind; 0: unknown
    topics: tuple[str, ...]  # in which it is behind


class SweptLags(NamedTuple):
    """What a sweep found."""

    at_ms: int
    rows: list[LaggingGroup]  # the largest, of groups that are behind
    groups: int  # that were asked
    failed: int  # that could not be asked
    error: str = ""


def choose_largest(lags: Sequence[LaggingGroup]) -> list[LaggingGroup]:
    """Return the groups that are furthest behind, the worst first."""
    return sorted((one for one in lags if one.lag), key=lambda one: (-one.lag, one.group))[:LAGS_SHOWN]


class LagSweep:
    def __init__(self, admin: Admin, wall_ms: Callable[[], int] = lambda: int(time.time() * 1000)) -> None:
        self._admin = admin
        self._wall_ms = wall_ms
        self._began_ms = _NEVER
        self._sweeping: asyncio.Task[None] | None = None
        self.found: SweptLags | None = None  # of the last sweep that ended

    def look(self) -> SweptLags | None:
        """Return what the last sweep found, and start another if that is old. None: the first one is under way."""
        now_ms = self._wall_ms()
        is_idle = self._sweeping is None or self._sweeping.done()
        if is_idle and now_ms - self._began_ms >= SWEEP_EVERY_MS:
            self._began_ms = now_ms
            self._sweeping = asyncio.get_running_loop().create_task(self._sweep(), name="lag sweep")
        return self.found

    async def wait(self) -> None:
        """Wait for the sweep that is under way, if there is one."""
        if self._sweeping is not None:
            await self._sweeping

    async def close(self) -> None:
        if self._sweeping is not None:
            self._sweeping.cancel()
            await asyncio.gather(self._sweeping, return_exceptions=True)

    async def _sweep(self) -> None:
        try:
            groups = (await self._admin.groups.names())[:SWEPT_GROUPS_MAX]
        except ClientError as error:
            self.found = SweptLags(self._wall_ms(), [], 0, 0, str(error))
            return
        answers: list[PagePart[LaggingGroup]] = await attempt_each(groups, self._ask)
        lags = [answer.value for answer in answers if answer.value is not None]
        self.found = SweptLags(self._wall_ms(), choose_largest(lags), len(groups), len(answers) - len(lags))

    async def _ask(self, group: str) -> LaggingGroup:
        progress = await self._admin.groups.progress(group)
        behind = [row for row in progress.queues if row.lag]
        topics = tuple(sorted({row.topic for row in behind if not row.topic.startswith(RETRY_PREFIX)}))
        return LaggingGroup(group, progress.lag, min((row.consumed_ms for row in behind if row.consumed_ms), default=0), topics)
