"""A pause is judged by what the kernel tells, and is ours unless that says otherwise."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any

import pytest

from tests.soak.loop_probe import LoopProbe, read_pauses
from tests.soak.pause_evidence import judge, look_at, read_counters


def a_pause(looks: list[str], **counters: float) -> dict[str, Any]:
    grown = {"stolen_s": 0.0, "cpu_pressure_s": 0.0, "io_pressure_s": 0.0, "process_cpu_s": 0.0, "faults": 0, **counters}
    return {"at": 1.0, "pause_s": 0.2, "lasted_s": 0.2, "cpu_s": 0.0, "stack": None, "looks": looks, "counters": grown}


@pytest.mark.parametrize(
    ("pause", "is_ours"),
    [
        (a_pause(["R running"] * 10, process_cpu_s=0.2, cpu_pressure_s=0.2), True),  # it computed, on a busy machine
        (a_pause([], process_cpu_s=0.19), True),  # some thread had Python's lock all the time
        (a_pause([], faults=3), True),  # a mapped file was read
        (a_pause([]), False),  # the whole process stood still
        (a_pause(["R running"], process_cpu_s=0.03, cpu_pressure_s=0.3), False),  # it was ready to run, and seldom did
        (a_pause(["R running"], process_cpu_s=0.03, cpu_pressure_s=0.1), True),  # there were processors
        (a_pause(["R running"], process_cpu_s=0.15, cpu_pressure_s=0.3), True),  # it computed
        (a_pause(["D openat"], process_cpu_s=0.03, cpu_pressure_s=0.3), True),
        (a_pause(["R running"] * 10, process_cpu_s=0.03, cpu_pressure_s=0.3), True),  # others of its threads ran well
        (a_pause(["D pwrite64"] * 10), True),  # a disk that nobody else used
        (a_pause(["D pwrite64"] * 10, io_pressure_s=0.19), False),
        (a_pause(["D pwrite64"] * 2 + ["R running"] * 8, io_pressure_s=0.19), True),
        (a_pause(["D pread64"] * 10, io_pressure_s=0.19, faults=1), True),
    ],
)
def test_evidence_decides_whose_a_pause_is(pause: dict[str, Any], is_ours: bool):
    found, evidence = judge(pause)
    assert found is is_ours
    assert "200 ms of 200" in evidence


def test_a_pause_of_an_older_report_without_evidence_is_ours():
    assert judge({"at": 1.0, "pause_s": 0.1, "lasted_s": 0.1, "cpu_s": 0.0, "stack": None})[0]


async def test_a_loop_that_sleeps_is_seen_where_it_does(tmp_path: Path):
    probe = LoopProbe(tmp_path / "pauses")
    probe.start()
    await asyncio.sleep(0.1)
    time.sleep(0.4)  # noqa: ASYNC251 — the pause that is to be seen
    await asyncio.sleep(0.05)
    probe.close()
    await asyncio.sleep(0.02)
    pauses = [each for each in read_pauses(tmp_path / "pauses") if each["stack"]]
    assert any("test_a_loop_that_sleeps" in frame for frame in pauses[0]["stack"])
    assert pauses[0]["looks"]
    assert judge(pauses[0])[0], "it slept, and the machine had nothing to do with it"


async def test_a_pause_while_no_broker_serves_does_not_count_and_the_next_one_does(tmp_path: Path):
    probe = LoopProbe(tmp_path / "pauses")
    for what in ("open", "serve", "open again", "serve again"):
        if what.startswith("serve"):
            probe.start()
        else:
            probe.rest()
        await asyncio.sleep(0.05)
        time.sleep(0.3 if what == "serve again" else 0.2 if what == "serve" else 0.6)  # noqa: ASYNC251 — the pauses
        await asyncio.sleep(0.05)
    probe.close()
    await asyncio.sleep(0.02)
    lasted = [each["lasted_s"] for each in read_pauses(tmp_path / "pauses") if each["stack"]]
    assert len(lasted) == 2
    assert max(lasted) < 0.6, "the store was opened then"


def test_the_kernel_tells_of_this_process():
    before = read_counters(time.monotonic())
    sum(range(2_000_000))
    after = read_counters(time.monotonic())
    assert after.process_cpu_s >= before.process_cpu_s
    assert after.since(before)["at_s"] > 0
    assert look_at(str(os.getpid())).startswith("R")
