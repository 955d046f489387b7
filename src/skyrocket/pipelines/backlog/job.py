"""The job `backlog`: takes looks at a cluster and yields a report after each, once or for as long as it is asked to."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Sequence

from skyrocket.client import Admin, ClientError
from skyrocket.doctor.backlog.collect import BacklogCollector
from skyrocket.doctor.backlog.look import ClusterLook
from skyrocket.doctor.backlog.measure import measure
from skyrocket.doctor.backlog.rules import find_advice
from skyrocket.pipelines.backlog.latency_collect import LatencyCollector
from skyrocket.pipelines.backlog.presentation import BacklogReport
from skyrocket.pipelines.errors import ArgumentError


async def watch_backlog(
    admin: Admin,
    groups: Sequence[str] = (),
    topics: Iterable[str] = (),
    *,
    every_s: float = 2.0,
    count: int = 1,
) -> AsyncIterator[BacklogReport]:
    """Yield `count` reports, or reports without end if it is 0. Each compares a look with the one `every_s` before it.

    With `every_s` 0 there is one look and one report, without rates. The first look raises what goes wrong. Later ones go on: a
    report says what did not answer, and the next one has rates again.
    """
    check_period(every_s, count)
    collector = BacklogCollector(admin, groups, topics)
    before: ClusterLook | None = None
    now = await collector.look()
    made = 0
    while not count or made < count:
        if every_s:
            await asyncio.sleep(every_s)
            try:
                before, now = now, await collector.look(keeps_going=True)
            except ClientError as error:
                made += 1
                yield BacklogReport(time.time_ns() // 1_000_000, (), failure=str(error))
                continue
        made += 1
        yield await _make_report(admin, before, now)


async def _make_report(admin: Admin, before: ClusterLook | None, now: ClusterLook) -> BacklogReport:
    backlogs = measure(before, now)
    return BacklogReport(
        at_ms=now.at_ms,
        groups=backlogs,
        findings=find_advice(backlogs, now.reserved_ms),
        latencies=await LatencyCollector(admin).latencies(now),
        unanswered=dict(now.unanswered),
    )


def check_period(every_s: float, count: int) -> None:
    """Raise ArgumentError for a period or a number of reports that makes no sense."""
    if not 0 <= every_s <= 86_400:
        raise ArgumentError(f"--every is {every_s:g}; it must be 0 (one look, without rates) to 86400 seconds.")
    if count < 0:
        raise ArgumentError(f"--count is {count}; it must be 1 or more reports, or 0 for reports until Ctrl-C.")
    if every_s == 0 and count != 1:
        raise ArgumentError("--every 0 takes one look. For several reports give the seconds between them, such as --every 5.")
