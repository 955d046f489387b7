"""One run: start the servers, let all workloads work at once, wait until everything has arrived, check, and report."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from skyrocket.client import Admin
from tests.soak.administration import Administration
from tests.soak.clock import Clock
from tests.soak.delays import Delays
from tests.soak.faults import Faults
from tests.soak.messages import Messages
from tests.soak.pause_evidence import judge
from tests.soak.processes import Servers, SoakBroker
from tests.soak.queries import Queries
from tests.soak.report import Report
from tests.soak.short_lived_topics import ShortLivedTopics
from tests.soak.strangers import Strangers
from tests.soak.transactions import Transactions
from tests.soak.vital_signs import VitalSigns

SETTLE_S_MAX = 180.0
PAUSE_S_MAX = 0.05  # of a broker's loop
SLOW_PAUSE_S_MAX = 0.5  # likewise, while its disk takes 50 ms for a new file and 200 ms for a sync
PLACES_MAX = 8
QUEUES = 4


class Workload(Protocol):
    name: str

    async def start(self) -> None: ...

    async def work(self) -> None:
        """Until the clock says that the run is over."""

    def is_settled(self) -> bool:
        """Whether everything that was promised has arrived."""

    async def close(self) -> None: ...

    def problems(self) -> list[str]: ...

    def figures(self) -> dict[str, object]: ...


async def soak(home: Path, lasts_s: float, seed: int, pause_s_max: float = PAUSE_S_MAX) -> Report:
    """`pause_s_max` is the longest pause of a broker's loop that is no problem."""
    report = Report(lasts_s, seed)
    servers = await asyncio.to_thread(Servers, home)
    try:
        clock = Clock(lasts_s, seed)
        await _run(servers, clock, report)
        _check_pauses(servers.brokers, clock, pause_s_max, report)
        await asyncio.to_thread(_stop, servers, report)
    finally:
        servers.kill()
    _check_logs(servers, report)
    return report


async def _run(servers: Servers, clock: Clock, report: Report) -> None:
    nameserver = servers.nameserver
    messages, faults = Messages(nameserver, clock), Faults(servers, clock)
    workloads: list[Workload] = [
        messages,
        Transactions(nameserver, clock),
        Delays(nameserver, clock),
        Queries(nameserver, clock, messages.ledger, messages.topic),
        Administration(nameserver, clock),
        ShortLivedTopics(nameserver, clock),
        Strangers([nameserver, *(broker.address for broker in servers.brokers)], clock),
        faults,
    ]
    async with Admin(nameserver) as admin:
        for each in workloads:
            if topic := getattr(each, "topic", None):
                await admin.topics.create(topic, queues=QUEUES)
    signs = VitalSigns(servers)
    watching = asyncio.create_task(signs.watch())
    try:
        for each in workloads:
            await each.start()
        clock.restart()
        await asyncio.gather(*(_work(each, report) for each in workloads))
        servers.heal()
        report.problems += servers.ended()
        report.workloads["settled"] = {"after_s": await _settle(workloads)}
    finally:
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching
        signs.rest()
        for each in workloads:
            await each.close()
    for each in workloads:
        report.workloads[each.name] = each.figures()
        report.problems += each.problems()
    report.servers = signs.figures()
    report.problems += signs.problems()
    report.disturbances = [f"{each.began_s:.1f}-{each.ended_s:.1f} s {each.kind} {each.server}" for each in clock.disturbances]


async def _work(workload: Workload, report: Report) -> None:
    try:
        await workload.work()
    except Exception:  # an error that a client may not raise is a finding; the other workloads go on
        report.problems.append(f"{workload.name}: {traceback.format_exc()}")


async def _settle(workloads: list[Workload]) -> float:
    """Wait until all that was promised has arrived, but not for ever: what is missing then is lost."""
    began = time.monotonic()
    while time.monotonic() - began < SETTLE_S_MAX and not all(each.is_settled() for each in workloads):  # noqa: ASYNC110
        await asyncio.sleep(0.2)
    return round(time.monotonic() - began, 1)


def _check_pauses(brokers: list[SoakBroker], clock: Clock, pause_s_max: float, report: Report) -> None:
    """Charge each pause to the loop, but for those that the soak made itself, by a disk that it slowed down, and those that the
    kernel says are the machine's: these are listed with the evidence.
    """
    for broker in brokers:
        at_fault, slow, machine = [], [], []
        for each in broker.pauses():
            is_slow = clock.is_disturbed("slow", broker.name, clock.since_began_s(each["at"]), each["lasted_s"])
            is_ours, _ = judge(each)
            (slow if is_slow else at_fault if is_ours else machine).append(each)
        report.pauses[broker.name] = _describe_pauses(at_fault, pause_s_max)
        report.pauses[f"{broker.name}, slow disk"] = _describe_pauses(slow, SLOW_PAUSE_S_MAX)
        report.pauses[f"{broker.name}, the machine's"] = _describe_pauses(machine, pause_s_max)
        for pauses, most_s, when in ((at_fault, pause_s_max, ""), (slow, SLOW_PAUSE_S_MAX, " while its disk was slow")):
            long = [each for each in pauses if each["pause_s"] > most_s]
            if long:
                report.problems.append(f"{broker.name}: its loop stood still {len(long)} times for more than {most_s} s{when}")


def _describe_pauses(pauses: list[dict[str, Any]], most_s: float) -> dict[str, object]:
    """Say how long the loop stood still, how often, and where, longest first. One place is shown once."""
    long = [each for each in pauses if each["pause_s"] > most_s]
    places: dict[str, str] = {}
    for each in long:
        stack = " > ".join(each["stack"] or ["?"])
        places.setdefault(stack, f"{judge(each)[1]}: {stack}")
    longest_s = pauses[0]["pause_s"] if pauses else 0.0
    return {
        "longest_ms": round(longest_s * 1000),
        "allowed_ms": round(most_s * 1000),
        "too long": len(long),
        "places": list(places.values())[:PLACES_MAX],
    }


def _stop(servers: Servers, report: Report) -> None:
    """Stop every server politely, and verify the stores."""
    for each in reversed(servers.all):
        try:
            each.stop()
        except AssertionError as error:
            report.problems.append(f"{each.name} did not stop well: {error}")
    for broker in servers.brokers:
        checked = subprocess.run(
            [sys.executable, "-m", "skyrocket", "store", "verify", str(broker.store)], capture_output=True, text=True, check=False
        )
        if checked.returncode:
            report.problems.append(f"{broker.name}: its store is damaged: {checked.stdout[-1000:]}{checked.stderr[-1000:]}")


def _check_logs(servers: Servers, report: Report) -> None:
    """An exception that nobody caught is a mistake of ours, whatever a client sent and whatever the disk did."""
    for each in servers.all:
        traces = [line for line in each.complaints() if line.startswith("Traceback") or "never retrieved" in line]
        if traces:
            report.problems.append(f"{each.name} logged {len(traces)} tracebacks: {each.first_trace()}")
