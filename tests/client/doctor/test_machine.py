"""Limits of the machine that hurt a broker: descriptors of a real process, and settings of the kernel."""

from __future__ import annotations

import asyncio
import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tests.client.doctor.scenes import examine, finding_of
from tests.support.processes.skyrocket_process import Skyrocket

KERNEL = {  # a setting, a value that hurts, and the rule that finds it
    "vm/swappiness": ("90", "swappiness-high"),
    "vm/max_map_count": ("30000", "map-count-low"),
    "vm/min_free_kbytes": ("16384", "free-memory-low"),
    "vm/overcommit_memory": ("2", "overcommit-strict"),
}
MEMORY = "MemTotal:       16777216 kB\nMemFree:         8388608 kB\nSwapTotal:       2097152 kB\n"


def open_descriptors(process_id: int) -> int:
    return len(list(Path(f"/proc/{process_id}/fd").iterdir()))


async def test_a_broker_with_few_descriptors(tmp_path: Path):
    with Skyrocket(tmp_path, descriptors=(1_000, 1_000)) as broker:
        found = await finding_of(broker.nameserver, "descriptors-few")
    assert "The hard limit (ulimit -Hn) is 1,000, the soft one 1,000" in found.evidence


async def test_a_broker_that_has_most_of_its_descriptors_open(tmp_path: Path):
    """Our broker keeps some descriptors back and refuses connections before. So its limit is lowered while it runs."""
    with Skyrocket(tmp_path) as broker:
        assert "descriptors-scarce" not in [one.rule for one in (await examine(broker.nameserver)).findings]
        assert broker.process is not None
        limit = open_descriptors(broker.process.pid) + 8
        resource.prlimit(broker.process.pid, resource.RLIMIT_NOFILE, (limit, limit))
        found = await finding_of(broker.nameserver, "descriptors-scarce")
    assert f"process {broker.process.pid}" in found.what
    assert found.evidence.endswith(f" of {limit}.")


def doctor_elsewhere(nameserver: str, settings: Path) -> list[str]:
    """Run the command where /proc says what the files in `settings` say. Only this process and its children see them."""
    mounts = [f"mount --bind {settings / name} /proc/{name}" for name in ("meminfo", *(f"sys/{name}" for name in KERNEL))]
    doctor = f"exec {sys.executable} -m skyrocket doctor -n {nameserver} --json"
    command = ["unshare", "--mount", "sh", "-e", "-c", "\n".join([*mounts, doctor])]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not done.stdout and "permitted" in done.stderr:
        pytest.skip(f"this user may not mount files: {done.stderr.strip()}")
    assert done.stdout, done.stderr
    return [one["id"] for one in json.loads(done.stdout)["findings"] if one["about"] == "this machine"]


async def test_the_command_finds_each_setting_of_the_kernel_that_hurts(tmp_path: Path):
    for name, (value, _) in KERNEL.items():
        file = tmp_path / "proc" / "sys" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{value}\n")
    (tmp_path / "proc" / "meminfo").write_text(MEMORY)
    with Skyrocket(tmp_path / "broker") as broker:
        found = await asyncio.to_thread(doctor_elsewhere, broker.nameserver, tmp_path / "proc")
    assert set(found) >= {rule for _, rule in KERNEL.values()}
