"""What the kernel tells about a pause of an event loop, and whose pause it was.

    looks      what the loop's thread was doing, each time that another thread looked: R running, S sleeping, D waiting for the
               disk, and the system call that it was in
    counters   before and after: time without a processor, time that other machines had (steal), pressure of processor, disk and
               memory (/proc/pressure), computing time of the process, page faults that waited for the disk

`judge` decides from the evidence alone. A pause is the machine's in three cases only. Otherwise it is ours, however busy the
machine was: time in which threads of the process had no processor is left out of a pause before it is judged.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any, Final, NamedTuple

SYSTEM_CALLS: Final = {
    0: "read", 1: "write", 3: "close", 5: "fstat", 9: "mmap", 11: "munmap", 17: "pread64", 18: "pwrite64", 20: "writev",
    26: "msync", 28: "madvise", 44: "sendto", 45: "recvfrom", 46: "sendmsg", 47: "recvmsg", 74: "fsync", 75: "fdatasync",
    77: "ftruncate", 82: "rename", 83: "mkdir", 87: "unlink", 202: "futex", 217: "getdents64", 232: "epoll_wait",
    257: "openat", 262: "newfstatat", 263: "unlinkat", 281: "epoll_pwait", 285: "fallocate", 295: "preadv", 296: "pwritev",
    327: "preadv2",
}  # fmt: skip
LOOK_S: Final = 0.01  # between two looks
IDLE_PART: Final = 0.2  # of a pause: a process that computed for less, and was not seen, did not run
SEEN_PART: Final = 0.34  # of the looks that were due: with no more of them, the thread that looks did not run either
WAITING_PART: Final = 0.5  # of a pause: with so much of it at the disk, under pressure, the disk was busy with others


class Counters(NamedTuple):
    """Counters of the kernel, in seconds but for the faults."""

    at_s: float
    stolen_s: float
    cpu_pressure_s: float
    io_pressure_s: float
    memory_pressure_s: float
    process_cpu_s: float
    faults: int

    def since(self, before: Counters) -> dict[str, float]:
        return {name: round(now - then, 4) for name, now, then in zip(self._fields, self, before, strict=True)}


@dataclass
class Pause:
    at: float  # when it ended, by the monotonic clock
    pause_s: float  # without the time in which the process had no processor
    lasted_s: float  # with it
    cpu_s: float  # of the loop's thread
    stack: list[str] | None
    looks: list[str] = field(default_factory=list)  # such as "D pwrite64"
    others: list[str] = field(default_factory=list)  # the same of the other threads, in the middle of the pause
    counters: dict[str, float] = field(default_factory=dict)  # how much each has grown

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def judge(pause: dict[str, Any]) -> tuple[bool, str]:
    """Return whether a pause is ours, and a sentence of evidence."""
    looks, counters, lasted_s = pause.get("looks") or [], pause.get("counters") or {}, pause["lasted_s"]
    evidence = _describe(pause)
    if not counters:
        return True, evidence
    ran_s, faults = counters["process_cpu_s"], counters["faults"]
    if lasted_s > 3 * LOOK_S and ran_s < IDLE_PART * lasted_s and not faults:
        if not looks:
            return False, f"no thread of the process ran; {evidence}"
        # The thread that looks needs a processor, too. It ran far too seldom, while others waited for processors all the time.
        could_look = (lasted_s - 2 * LOOK_S) / LOOK_S
        had_none_s = counters["cpu_pressure_s"] + counters["stolen_s"]
        if len(looks) <= SEEN_PART * could_look and had_none_s >= lasted_s and all(look.startswith("R") for look in looks):
            return False, f"hardly any thread of the process got a processor; {evidence}"
    waiting = sum(look.startswith("D") for look in looks)
    if waiting >= WAITING_PART * max(1, len(looks)) and counters["io_pressure_s"] >= WAITING_PART * lasted_s and not faults:
        return False, f"it waited for a disk that was under pressure; {evidence}"
    return True, evidence


def _describe(pause: dict[str, Any]) -> str:
    seen: dict[str, int] = {}
    for look in pause.get("looks") or []:
        seen[look] = seen.get(look, 0) + 1
    counters = pause.get("counters") or {}
    parts = [f"{round(pause['pause_s'] * 1000)} ms of {round(pause['lasted_s'] * 1000)}, {round(pause['cpu_s'] * 1000)} CPU"]
    parts.append("seen " + ", ".join(f"{count} x {look}" for look, count in seen.items()) if seen else "never seen")
    parts += [f"{name} {value}" for name, value in counters.items() if name != "at_s" and value]
    if pause.get("others"):
        parts.append("others " + " ".join(pause["others"]))
    return "; ".join(parts)


# Reading the kernel ---------------------------------------------------------------------------------------------------


def read_counters(now_s: float) -> Counters:
    times = os.times()
    with open("/proc/stat") as file:  # noqa: PTH123 — often
        stolen_s = int(file.readline().split()[8]) / os.sysconf("SC_CLK_TCK")
    faults = int(_fields_of("/proc/self/stat")[9])
    pressures = [_pressure_s(kind) for kind in ("cpu", "io", "memory")]
    return Counters(now_s, stolen_s, *pressures, times.user + times.system, faults)


def _pressure_s(kind: str) -> float:
    """Return for how long some task of the machine has waited for this; 0 where the kernel does not tell."""
    with suppress(OSError, ValueError, IndexError), open(f"/proc/pressure/{kind}") as file:  # noqa: PTH123 — often
        return int(file.readline().rpartition("total=")[2]) / 1e6
    return 0.0


def look_at(thread: str) -> str:
    """Return the state of a thread of this process and its system call, such as "D pwrite64"."""
    try:
        state = _fields_of(f"/proc/self/task/{thread}/stat")[0]
        with open(f"/proc/self/task/{thread}/syscall") as file:  # noqa: PTH123 — often
            call = file.read().split()[0]
    except (OSError, IndexError):
        return "gone"
    return f"{state} {call}" if call == "running" else f"{state} {SYSTEM_CALLS.get(int(call), f'call {call}')}"


def look_at_others(loop_thread: int) -> list[str]:
    """Return what the other threads of this process are doing."""
    found = []
    for thread in os.listdir("/proc/self/task"):  # noqa: PTH208 — names, and quickly
        if int(thread) != loop_thread and not (look := look_at(thread)).startswith("S futex"):
            found.append(f"({look})")
    return found


def _fields_of(path: str) -> list[str]:
    """Return the fields behind the name of a `stat` file: the state first."""
    with open(path) as file:  # noqa: PTH123 — often
        return file.read().rpartition(")")[2].split()
