"""The sweep over all groups: when it runs, and what it keeps."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from skyrocket.client import BrokerError
from skyrocket.client.admin import GroupProgress, QueueProgress
from skyrocket.console.lag_sweep import LaggingGroup, LagSweep, choose_largest
from skyrocket.console.limits import LAGS_SHOWN, SWEEP_EVERY_MS


class ScriptedGroups:
    """Stands for `admin.groups`: every group is as far behind as its name says."""

    def __init__(self, *names: str) -> None:
        self._names = names
        self.sweeps = 0

    async def names(self) -> list[str]:
        self.sweeps += 1
        return list(self._names)

    async def progress(self, group: str) -> GroupProgress:
        if group == "broken":
            raise BrokerError(1, "no", "127.0.0.1:1")
        lag = int(group.removeprefix("g"))
        rows = [
            QueueProgress(
                topic=topic,
                broker_name="b",
                queue_id=0,
                committed_offset=0,
                end_offset=lag,
                pulled_offset=0,
                lag=lag,
                consumed_ms=5,
            )
            for topic in ("orders", f"%RETRY%{group}")
        ]
        return GroupProgress(group=group, lag=lag, rate=0.0, queues=rows)


class ScriptedAdmin:
    def __init__(self, groups: ScriptedGroups) -> None:
        self.groups = groups


def test_the_largest_come_first_and_groups_that_are_not_behind_do_not_come():
    lags = [LaggingGroup(f"g{number:02}", number, 0, ()) for number in range(2 * LAGS_SHOWN)]
    found = choose_largest(lags)
    assert [one.lag for one in found] == list(range(2 * LAGS_SHOWN - 1, LAGS_SHOWN - 1, -1))
    assert choose_largest(lags[:1]) == []


async def test_a_look_starts_a_sweep_and_later_ones_wait_their_time():
    now = [1_000_000]
    groups = ScriptedGroups("g3", "g0", "broken", "g8")
    sweep = LagSweep(cast("Any", ScriptedAdmin(groups)), lambda: now[0])
    assert sweep.look() is None, "a page does not wait"
    assert sweep.look() is None
    await sweep.wait()
    found = sweep.look()
    assert found is not None
    assert [(one.group, one.lag, one.topics) for one in found.rows] == [("g8", 8, ("orders",)), ("g3", 3, ("orders",))]
    assert (found.groups, found.failed, found.at_ms) == (4, 1, now[0])
    now[0] += SWEEP_EVERY_MS - 1
    sweep.look()
    await sweep.wait()
    assert groups.sweeps == 1
    now[0] += 1
    assert sweep.look() is found, "the old figures are shown until there are new ones"
    await sweep.wait()
    assert groups.sweeps == 2
    await sweep.close()


async def test_a_sweep_under_way_ends_with_the_console():
    class Endless(ScriptedGroups):
        async def names(self) -> list[str]:
            await asyncio.Event().wait()
            return []

    sweep = LagSweep(cast("Any", ScriptedAdmin(Endless())), lambda: 10**9)
    sweep.look()
    await asyncio.sleep(0)
    await sweep.close()
