"""The limits of a machine: read from a made /proc, and from the real one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from skyrocket.doctor.machine.collect import MachineCollector, find_process
from skyrocket.doctor.machine.rules import RULES, diagnose_machine
from skyrocket.report.parts import Severity

GIB_KB = 1024 * 1024


class Machine:
    """A /proc with the files that are read of it. A sound machine, until a test changes it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.write("meminfo", f"MemTotal:       {16 * GIB_KB} kB\nMemFree:  1 kB\nSwapTotal:      {2 * GIB_KB} kB\n")
        self.set("vm.swappiness", 1)
        self.set("vm.max_map_count", 655_360)
        self.set("vm.min_free_kbytes", 262_144)
        self.set("vm.overcommit_memory", 1)
        self.limit("self", "655350", "655350")

    def write(self, path: str, text: str) -> None:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def set(self, name: str, value: int) -> None:
        self.write(f"sys/{name.replace('.', '/')}", f"{value}\n")

    def limit(self, process: str, soft: str, hard: str) -> None:
        head = "Limit                     Soft Limit           Hard Limit           Units     \n"
        self.write(f"{process}/limits", f"{head}Max open files            {soft:<21}{hard:<21}files     \n")

    def rules(self, process_id: int | None = None) -> list[str]:
        return [one.rule for one in diagnose_machine(MachineCollector(self.root).collect(process_id))]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_a_sound_machine_gets_no_diagnosis(machine: Machine):
    assert machine.rules() == []
    machine.limit("self", "1024", "unlimited")
    assert machine.rules() == [], "our broker raises its soft limit itself"


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("vm.swappiness", 60, "swappiness-high"),
        ("vm.max_map_count", 30_000, "map-count-low"),
        ("vm.min_free_kbytes", 16_384, "free-memory-low"),
        ("vm.overcommit_memory", 2, "overcommit-strict"),
    ],
)
def test_a_kernel_setting_that_hurts(machine: Machine, name: str, value: int, rule: str):
    machine.set(name, value)
    (found,) = diagnose_machine(MachineCollector(machine.root).collect())
    assert found.rule == rule
    assert f"{name} is {value:,}" in found.evidence
    assert f"sysctl -w {name}=" in found.advice


def test_swappiness_without_swap_hurts_nobody(machine: Machine):
    machine.set("vm.swappiness", 60)
    machine.write("meminfo", f"MemTotal:       {16 * GIB_KB} kB\nSwapTotal:      0 kB\n")
    assert machine.rules() == []


def test_few_descriptors(machine: Machine):
    machine.limit("self", "1024", "4096")
    (found,) = diagnose_machine(MachineCollector(machine.root).collect())
    assert (found.rule, found.severity) == ("descriptors-few", Severity.WARNING)
    assert "The hard limit (ulimit -Hn) is 4,096, the soft one 1,024" in found.evidence


def test_a_process_that_has_most_of_its_descriptors_open(machine: Machine, tmp_path: Path):
    lock = tmp_path / "lock"
    lock.touch()
    machine.limit("4711", "10", "655350")
    for number in range(9):
        (machine.root / "4711" / "fd").mkdir(exist_ok=True)
        (machine.root / "4711" / "fd" / str(number)).symlink_to(lock if number == 8 else "/dev/null")
    assert find_process(machine.root, lock) == 4711
    (found,) = diagnose_machine(MachineCollector(machine.root).collect(4711))
    assert (found.rule, found.severity, found.evidence) == ("descriptors-scarce", Severity.PROBLEM, "9 of 10.")
    assert "process 4711" in found.what


def test_a_process_that_has_most_of_its_maps(machine: Machine):
    machine.limit("4711", "655350", "655350")
    machine.set("vm.max_map_count", 66_000)
    machine.write("4711/maps", "7f00-7f01 r--s 0 0 0 /segment\n" * 60_000)
    (found,) = diagnose_machine(MachineCollector(machine.root).collect(4711))
    assert found.rule == "map-count-low"
    assert "the broker has 60,000 mapped" in found.evidence


def test_a_machine_without_proc_is_unknown_and_gets_no_diagnosis(tmp_path: Path):
    assert diagnose_machine(MachineCollector(tmp_path / "none").collect()) == []
    assert find_process(tmp_path / "none", tmp_path) is None


def test_the_real_machine_tells_its_limits(tmp_path: Path):
    facts = MachineCollector().collect(os.getpid())
    assert facts.kernel["vm.max_map_count"] > 0
    assert facts.memory_bytes is not None
    assert facts.process is not None
    assert (facts.process.open_count or 0) > 2
    with (tmp_path / "held").open("w"):
        assert find_process(Path("/proc"), tmp_path / "held") == os.getpid()


def test_every_rule_has_a_name_of_its_own():
    assert len({rule.name for rule in RULES}) == len(RULES)
