"""What needs attention in a cluster: findings from the states of its brokers. Pure, and one row of a table for each rule."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from skyrocket.client.admin import BrokerState
from skyrocket.report.parts import Severity

DISK_WARNING_PERCENT: Final = 75.0  # Apache's brokers delete old messages before their time from here on
DISK_PROBLEM_PERCENT: Final = 85.0


class ClusterFinding(NamedTuple):
    severity: Severity
    sentence: str
    broker: str = ""  # its address: the page links to it


def _find_silent(states: Sequence[BrokerState]) -> Iterator[ClusterFinding]:
    for one in states:
        if one.error:
            yield ClusterFinding(
                Severity.PROBLEM, f"Broker {one.broker_name} at {one.address} does not answer: {one.error}", one.address
            )


def _find_headless(states: Sequence[BrokerState]) -> Iterator[ClusterFinding]:
    with_master = {one.broker_name for one in states if one.is_master}
    for name in sorted({one.broker_name for one in states} - with_master):
        yield ClusterFinding(Severity.PROBLEM, f"Broker {name} has no master: its messages can be read, and no new one is taken.")


def _find_full_disks(states: Sequence[BrokerState]) -> Iterator[ClusterFinding]:
    for one in states:
        if one.disk_used_percent >= DISK_WARNING_PERCENT:
            severity = Severity.PROBLEM if one.disk_used_percent >= DISK_PROBLEM_PERCENT else Severity.WARNING
            yield ClusterFinding(
                severity,
                f"The disk of broker {one.broker_name} at {one.address} is {one.disk_used_percent:g} % full.",
                one.address,
            )


def _find_damage(states: Sequence[BrokerState]) -> Iterator[ClusterFinding]:
    for one in states:
        if one.damaged_entries:
            yield ClusterFinding(
                Severity.PROBLEM,
                f"Node {one.node} of {one.broker_name} has {one.damaged_entries} damaged entries that are not repaired yet.",
                one.address,
            )


def _find_mixed_versions(states: Sequence[BrokerState]) -> Iterator[ClusterFinding]:
    versions = sorted({one.version for one in states if one.version})
    if len(versions) > 1:
        yield ClusterFinding(Severity.INFORMATION, f"Brokers have different versions of RocketMQ: {', '.join(versions)}.")


RULES: Final[tuple[Callable[[Sequence[BrokerState]], Iterator[ClusterFinding]], ...]] = (
    _find_silent,
    _find_headless,
    _find_full_disks,
    _find_damage,
    _find_mixed_versions,
)


def find_attention(states: Sequence[BrokerState]) -> list[ClusterFinding]:
    """Return all findings, the worst first."""
    order = [Severity.PROBLEM, Severity.WARNING, Severity.INFORMATION, Severity.GOOD]
    found = [finding for rule in RULES for finding in rule(states)]
    return sorted(found, key=lambda one: order.index(one.severity))
