"""Figures of the process agree with what the system says."""

from __future__ import annotations

import os
import resource
import time

from skyrocket import __version__
from skyrocket.metrics import process


async def test_figures_of_this_process():
    figures = process.ProcessFigures()
    await figures.prepare()
    rows = {family.name: list(rows) for family, rows in figures.collect()}
    values = {name: value for name, ((_, value),) in rows.items()}
    assert 0 < values["process_cpu_seconds_total"] <= time.process_time()
    assert values["process_open_fds"] >= 3
    assert values["process_max_fds"] == resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert 1_000_000 < values["process_resident_memory_bytes"] < os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert 0 < time.time() - values["process_start_time_seconds"] < 7 * 24 * 3600
    assert rows["skyrocket_build_info"][0][0][:2] == (__version__, "5.5.0")
