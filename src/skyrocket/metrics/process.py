"""Figures of the process, under the names that every Prometheus client uses: CPU, memory, descriptors, when it started.

And which version runs: ours, beside the version of RocketMQ whose behaviour it has.
"""

from __future__ import annotations

import asyncio
import os
import platform
import resource
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from skyrocket import __version__, compiled
from skyrocket.metrics.family import Family, Measured, counter, gauge, single
from skyrocket.protocol.versions import CURRENT, version_text

CPU_SECONDS: Final = counter("process_cpu_seconds_total", "CPU time of the process, in user and system mode, in seconds.")
RESIDENT_BYTES: Final = gauge("process_resident_memory_bytes", "Memory of the process that is in RAM, in bytes.")
OPEN_FDS: Final = gauge("process_open_fds", "Descriptors that the process has open: files and connections.")
MAX_FDS: Final = gauge("process_max_fds", "Descriptors that the process may have open.")
BUILD: Final = gauge(
    "skyrocket_build_info", "Always 1; the labels say what runs.", "version", "rocketmq_version", "python", "twins"
)
START_TIME: Final = gauge("process_start_time_seconds", "When the process started, in seconds since 1970.")


class ProcessFigures:
    """Reads /proc in a thread: a process with ten thousand connections has as many entries there."""

    def __init__(self) -> None:
        self._read: dict[Family, float] = {}
        self._started_s = _start_time()

    async def prepare(self) -> None:
        self._read = await asyncio.to_thread(_read_proc)

    def collect(self) -> Iterable[Measured]:
        versions = (__version__, version_text(CURRENT), platform.python_version(), compiled.kind())
        yield Measured(BUILD, [(versions, 1)])
        yield single(CPU_SECONDS, time.process_time())
        yield single(MAX_FDS, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        if self._started_s is not None:
            yield single(START_TIME, self._started_s)
        for family, value in self._read.items():
            yield single(family, value)


def _read_proc() -> dict[Family, float]:
    figures: dict[Family, float] = {}
    with suppress(OSError):  # a system without /proc
        figures[OPEN_FDS] = sum(1 for _ in Path("/proc/self/fd").iterdir())
        figures[RESIDENT_BYTES] = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    return figures


def _start_time() -> float | None:
    """Return when the process started: the system's start, and the ticks from there on (field 22 of /proc/self/stat)."""
    with suppress(OSError):
        ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
        booted = next(line for line in Path("/proc/stat").read_text().splitlines() if line.startswith("btime "))
        return int(booted.split()[1]) + ticks / os.sysconf("SC_CLK_TCK")
    return None
