"""Examine a cluster, a store directory and the machine, each with its own rules, and put the findings together."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from skyrocket.client import Admin
from skyrocket.client.session.identity import local_address
from skyrocket.doctor.cluster.collect import ClusterCollector
from skyrocket.doctor.cluster.facts import ClusterFacts
from skyrocket.doctor.cluster.rules import diagnose_cluster
from skyrocket.doctor.finding import Diagnosis
from skyrocket.doctor.machine.collect import MachineCollector, find_listener
from skyrocket.doctor.machine.rules import diagnose_machine
from skyrocket.report.parts import Severity
from skyrocket.report.texts import count_of

URGENCY: Final = (Severity.PROBLEM, Severity.WARNING, Severity.INFORMATION, Severity.GOOD)


@dataclass(frozen=True, slots=True)
class Examination:
    """What was looked at, what was found, and what could not be found out."""

    findings: Sequence[Diagnosis]
    looked_at: Sequence[str]
    unanswered: Sequence[str] = ()

    @property
    def is_sound(self) -> bool:
        """Whether there is no problem. Warnings leave a cluster sound."""
        return not any(one.severity is Severity.PROBLEM for one in self.findings)


async def examine_cluster(
    admin: Admin, groups: Sequence[str] = (), topics: Iterable[str] = (), *, every_s: float = 2.0, proc: Path = Path("/proc")
) -> Examination:
    """Look at a cluster twice, `every_s` apart, or once with 0. If one of its brokers runs here, look at this machine, too.

    Raises NoNameserverError when no nameserver answers.
    """
    collected = await ClusterCollector(admin, groups, topics).collect(every_s)
    facts = collected.facts
    examined = Examination(order_findings(diagnose_cluster(facts)), _counts_of(facts), collected.unanswered)
    own_host = local_address()
    ports = [int(broker.address.rpartition(":")[2]) for broker in facts.brokers if is_local(broker.address, own_host)]
    return merge_examinations([examined, *await asyncio.to_thread(_examine_processes, proc, ports)])


def _examine_processes(proc: Path, ports: Sequence[int]) -> list[Examination]:
    """Look at this machine and the processes that listen on these ports: a walk through the descriptors of all processes."""
    processes = dict.fromkeys(find_listener(proc, port) for port in ports)
    return [examine_machine(proc, process_id) for process_id in processes]


def examine_store(directory: Path, commit_log: Path | None = None, *, now_ms: int, proc: Path = Path("/proc")) -> Examination:
    """Look at a store directory and this machine. Raises StoreError when there is no store."""
    # Imported here: a console, which looks at clusters only, does without the code of a store.
    from skyrocket.doctor.store.collect import StoreCollector  # noqa: PLC0415
    from skyrocket.doctor.store.rules import diagnose_store  # noqa: PLC0415

    facts = StoreCollector(directory, commit_log, proc).collect(now_ms)
    examined = Examination(order_findings(diagnose_store(facts)), [f"store {directory}"])
    return merge_examinations([examined, examine_machine(proc, facts.process_id)])


def examine_machine(proc: Path, process_id: int | None = None) -> Examination:
    """Look at the limits of this machine, and of a process if it is known."""
    facts = MachineCollector(proc).collect(process_id)
    return Examination(order_findings(diagnose_machine(facts)), ["this machine"])


def merge_examinations(examined: Sequence[Examination]) -> Examination:
    """Join examinations into one. A finding that two of them have in common, such as one about this machine, appears once."""
    return Examination(
        order_findings(dict.fromkeys(finding for one in examined for finding in one.findings)),
        list(dict.fromkeys(text for one in examined for text in one.looked_at)),
        list(dict.fromkeys(text for one in examined for text in one.unanswered)),
    )


def order_findings(findings: Iterable[Diagnosis]) -> list[Diagnosis]:
    """Order by urgency, and otherwise leave the order of the rules."""
    return sorted(findings, key=lambda one: URGENCY.index(one.severity))


def is_local(address: str, own_host: str) -> bool:
    """Whether a broker's address is on this machine: the loopback address, or the one that the machine has in its network."""
    host = address.rpartition(":")[0].strip("[]")
    try:
        return host == own_host or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _counts_of(facts: ClusterFacts) -> list[str]:
    counts = {"nameserver": facts.nameservers, "broker": facts.brokers, "topic": facts.topics, "group": facts.groups}
    return [count_of(len(found), noun) for noun, found in counts.items()]
