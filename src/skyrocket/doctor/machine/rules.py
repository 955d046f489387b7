"""Limits of a machine that hurt a broker. Pure: a table of rules, each with the value that it wants and the reason."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from skyrocket.doctor.finding import Diagnosis, DoctorRule, Symptom, apply_rules, one_symptom
from skyrocket.doctor.machine.facts import MachineFacts
from skyrocket.report.parts import Severity
from skyrocket.report.texts import format_bytes, format_number

ABOUT: Final = "this machine"
DESCRIPTORS_MIN: Final = 65_536
DESCRIPTORS_SCARCE: Final = 0.8  # of the limit, open: as the alert DescriptorsScarce
SWAPPINESS_MAX: Final = 10
MAPS_MIN: Final = 65_530  # Linux's default; a store of a terabyte maps some thousand files
MAPS_SCARCE: Final = 0.8
FREE_KBYTES_MIN: Final = 65_536
LARGE_MEMORY_BYTES: Final = 8 * 1024**3  # smaller machines need no such reserve
STRICT_OVERCOMMIT: Final = 2


def _scarce_descriptors(facts: MachineFacts) -> Iterator[Symptom]:
    process = facts.process
    if process is not None and process.open_share >= DESCRIPTORS_SCARCE:
        yield Symptom(
            ABOUT,
            f"{process.name.capitalize()} has nearly all descriptors open that it may have. Beyond, it closes new connections.",
            f"{format_number(process.open_count or 0)} of {format_number(process.soft or 0)}.",
            "Raise the limit (LimitNOFILE=655350 of the service, or ulimit -n), or find the client that opens many connections.",
        )


def _few_descriptors(facts: MachineFacts) -> Iterator[Symptom]:
    process = facts.process
    if process is None or process.soft is None or process.hard is None:
        return
    if process.hard < DESCRIPTORS_MIN:  # our broker raises the soft limit itself
        yield Symptom(
            ABOUT,
            f"{process.name.capitalize()} may open few files and connections.",
            f"The hard limit (ulimit -Hn) is {format_number(process.hard)}, the soft one {format_number(process.soft)}; a broker "
            f"should have {format_number(DESCRIPTORS_MIN)} or more.",
            "Each client takes a descriptor, and so do files of queues. Set LimitNOFILE=655350 in the service, or nofile in "
            "/etc/security/limits.conf.",
        )


def _about(_: MachineFacts) -> str:
    return ABOUT


_swappy = one_symptom(
    _about,
    lambda facts: (
        f"vm.swappiness is {facts.kernel['vm.swappiness']}, and there are {format_bytes(facts.swap_bytes)} of swap."
        if facts.kernel.get("vm.swappiness", 0) > SWAPPINESS_MAX and facts.swap_bytes
        else None
    ),
    "The kernel swaps memory of programs out to keep files in memory. A broker writes so much that it becomes a victim: "
    "pauses of seconds follow.",
    "sysctl -w vm.swappiness=1, and the same in /etc/sysctl.d.",
)


def _few_maps(facts: MachineFacts) -> Iterator[Symptom]:
    most, process = facts.kernel.get("vm.max_map_count"), facts.process
    mapped = process.mapped_count if process is not None else None
    is_scarce = most is not None and mapped is not None and mapped >= MAPS_SCARCE * most
    if most is not None and (most < MAPS_MIN or is_scarce):
        yield Symptom(
            ABOUT,
            "A process may map few files into its memory. Broker and store map segments, queues and index files.",
            f"vm.max_map_count is {format_number(most)}"
            + (f", and the broker has {format_number(mapped)} mapped." if mapped is not None else "."),
            "sysctl -w vm.max_map_count=655360, and the same in /etc/sysctl.d.",
        )


def _little_reserve(facts: MachineFacts) -> Iterator[Symptom]:
    reserve, memory = facts.kernel.get("vm.min_free_kbytes"), facts.memory_bytes
    if reserve is not None and memory is not None and memory >= LARGE_MEMORY_BYTES and reserve < FREE_KBYTES_MIN:
        yield Symptom(
            ABOUT,
            "The kernel keeps little memory free. When many messages arrive at once, writes wait until it has freed some.",
            f"vm.min_free_kbytes is {format_number(reserve)} on a machine with {format_bytes(memory)}.",
            "sysctl -w vm.min_free_kbytes=262144 (256 MiB), and the same in /etc/sysctl.d. Never more than a few percent.",
        )


_strict_overcommit = one_symptom(
    _about,
    lambda facts: (
        f"vm.overcommit_memory is {STRICT_OVERCOMMIT}." if facts.kernel.get("vm.overcommit_memory") == STRICT_OVERCOMMIT else None
    ),
    "The kernel promises no more memory than it has. Mapped files count, so a broker may fail to map a segment.",
    "sysctl -w vm.overcommit_memory=1, and the same in /etc/sysctl.d.",
)


RULES: Final[tuple[DoctorRule[MachineFacts], ...]] = (
    DoctorRule("descriptors-scarce", Severity.PROBLEM, _scarce_descriptors),
    DoctorRule("descriptors-few", Severity.WARNING, _few_descriptors),
    DoctorRule("map-count-low", Severity.WARNING, _few_maps),
    DoctorRule("overcommit-strict", Severity.WARNING, _strict_overcommit),
    DoctorRule("swappiness-high", Severity.WARNING, _swappy),
    DoctorRule("free-memory-low", Severity.INFORMATION, _little_reserve),
)


def diagnose_machine(facts: MachineFacts) -> list[Diagnosis]:
    return apply_rules(RULES, facts)
