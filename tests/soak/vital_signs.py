"""Memory and descriptors of each server, sampled while a soak runs."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from contextlib import suppress
from pathlib import Path

from tests.soak.processes import Servers

SAMPLE_S = 0.25
MEMORY_BYTES_MAX = 512 * 1024 * 1024  # of its own; pages of mapped files are the system's
DESCRIPTORS_MAX = 1_500
DESCRIPTORS_AT_REST_MAX = 400  # without strangers: a few clients, and files


class VitalSigns:
    def __init__(self, servers: Servers) -> None:
        self._servers = servers
        self.memory_bytes: dict[str, int] = defaultdict(int)  # peaks
        self.descriptors: dict[str, int] = defaultdict(int)
        self.at_rest: dict[str, int] = {}

    async def watch(self) -> None:
        while True:
            for each in self._servers.all:
                if each.process is not None:
                    with suppress(OSError):  # it was killed just now
                        self.memory_bytes[each.name] = max(self.memory_bytes[each.name], own_memory_bytes(each.process.pid))
                        self.descriptors[each.name] = max(self.descriptors[each.name], count_descriptors(each.process.pid))
            await asyncio.sleep(SAMPLE_S)

    def rest(self) -> None:
        """Take the last sample, when all clients but ours are gone."""
        for each in self._servers.all:
            assert each.process is not None
            with suppress(OSError):
                self.at_rest[each.name] = count_descriptors(each.process.pid)

    def problems(self) -> list[str]:
        found = []
        for name, size_bytes in self.memory_bytes.items():
            if size_bytes > MEMORY_BYTES_MAX:
                found.append(f"{name} had {size_bytes >> 20} MiB of memory; {MEMORY_BYTES_MAX >> 20} are allowed")
        for name, number in self.descriptors.items():
            if number > DESCRIPTORS_MAX:
                found.append(f"{name} had {number} descriptors open; {DESCRIPTORS_MAX} are allowed")
        for name, number in self.at_rest.items():
            if number > DESCRIPTORS_AT_REST_MAX:
                found.append(f"{name} had {number} descriptors open at the end; {DESCRIPTORS_AT_REST_MAX} are allowed")
        return found

    def figures(self) -> dict[str, object]:
        return {
            name: {
                "memory_mib": self.memory_bytes[name] >> 20,
                "allowed_mib": MEMORY_BYTES_MAX >> 20,
                "descriptors": self.descriptors[name],
                "allowed": DESCRIPTORS_MAX,
                "descriptors_at_rest": self.at_rest.get(name),
                "allowed_at_rest": DESCRIPTORS_AT_REST_MAX,
            }
            for name in self.memory_bytes
        }


def own_memory_bytes(pid: int) -> int:
    """Return the memory that belongs to the process alone."""
    status = Path(f"/proc/{pid}/status").read_text()
    return next((int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("RssAnon")), 0)


def count_descriptors(pid: int) -> int:
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())
