"""How long the event loop of this process was blocked, and by what.

A task in the loop wakes up every PERIOD_S. How much later it wakes up is the loop's pause, without the time in which threads of
this process could have run and another process had the processor: Linux counts that in /proc/self/task/*/schedstat. All threads
count, because one that has no processor may hold Python's lock. Time in which another virtual machine had the processor does not
count either (`steal` in /proc/stat). A thread notes the stack of a pause while it lasts, and what the kernel tells about it
(`pause_evidence`). Pauses are lines of JSON in a file that survives kill -9.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
import time
import traceback
from collections import deque
from contextlib import suppress
from itertools import count
from math import inf
from pathlib import Path
from typing import Any, Final

from tests.soak.pause_evidence import Counters, Pause, look_at, look_at_others, read_counters

PERIOD_S: Final = 0.01
NOTED_S: Final = 0.03  # shorter pauses are not noted
STACK_S: Final = 0.025  # into a pause, its stack is taken
FRAMES: Final = 12
SAMPLES: Final = 1_000
COUNTERS_EVERY: Final = 5  # looks
LOOKS_MAX: Final = 100


class LoopProbe:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._woke_s = time.monotonic()
        self._serves_since_s = inf
        self._stack: list[str] | None = None
        self._main = threading.get_ident()
        self._loop_thread = threading.get_native_id()
        self._looks: list[str] = []
        self._others: list[str] = []
        self._counters: deque[Counters] = deque(maxlen=SAMPLES)
        self._samples: deque[tuple[float, float]] = deque(maxlen=SAMPLES)
        self._stopping = threading.Event()
        self._task: asyncio.Task[None] | None = None

    def rest(self) -> None:
        """The broker serves nobody until the next `start`: it opens its store, perhaps again, when a full disk has room."""
        self._serves_since_s = inf

    def start(self) -> None:
        """Watch the running loop from now on."""
        self._serves_since_s = time.monotonic()
        if self._task is not None:
            return
        self._task = asyncio.get_running_loop().create_task(self._watch())
        threading.Thread(target=self._take_stacks, name="loop-probe", daemon=True).start()

    def close(self) -> None:
        self._stopping.set()
        if self._task is not None:
            self._task.cancel()

    async def _watch(self) -> None:
        with self._path.open("a") as file:
            while True:
                began_s, began_cpu_s = time.monotonic(), time.thread_time()
                await asyncio.sleep(PERIOD_S)
                self._woke_s = now_s = time.monotonic()
                stack, self._stack = self._stack, None
                looks, self._looks = self._looks, []
                others, self._others = self._others, []
                lasted_s = pause_s = now_s - began_s - PERIOD_S
                if pause_s < NOTED_S or began_s < self._serves_since_s:
                    continue
                pause_s -= _descheduled_s() - self._descheduled_before_s(began_s)
                if pause_s >= NOTED_S:
                    cpu_s = time.thread_time() - began_cpu_s
                    before = [each for each in list(self._counters) if each.at_s <= began_s][-1:]
                    grown = read_counters(now_s).since(before[0]) if before else {}
                    noted = Pause(now_s, pause_s, lasted_s, cpu_s, stack, looks, others, grown)
                    file.write(json.dumps(noted.to_json()) + "\n")
                    file.flush()

    def _descheduled_before_s(self, began_s: float) -> float:
        """Return the last sample before a pause began."""
        before = [descheduled_s for at_s, descheduled_s in list(self._samples) if at_s <= began_s]
        return before[-1] if before else _descheduled_s()

    def _take_stacks(self) -> None:
        for number in count():
            if self._stopping.wait(PERIOD_S):
                return
            self._samples.append((time.monotonic(), _descheduled_s()))  # here, not in the loop, which it would hold up
            if number % COUNTERS_EVERY == 0:
                self._counters.append(read_counters(time.monotonic()))
            late_s = time.monotonic() - self._woke_s - PERIOD_S
            if late_s > PERIOD_S and len(self._looks) < LOOKS_MAX:
                self._looks.append(look_at(str(self._loop_thread)))
            if self._stack is None and late_s > STACK_S:
                self._others = look_at_others(self._loop_thread)
                frame = sys._current_frames().get(self._main)
                self._stack = [f"{each.name} {Path(each.filename).name}:{each.lineno}" for each in _innermost(frame)]


def _innermost(frame: Any) -> list[traceback.FrameSummary]:
    return list(traceback.extract_stack(frame))[-FRAMES:]


def _descheduled_s() -> float:
    """Return for how long threads of this process wanted to run and had no processor, and others had the whole machine's."""
    with open("/proc/stat") as file:  # noqa: PTH123 — it runs a hundred times a second
        stolen_s = int(file.readline().split()[8]) / os.sysconf("SC_CLK_TCK")
    waited_ns = 0
    for thread in os.listdir("/proc/self/task"):  # noqa: PTH208 — likewise
        with suppress(OSError), open(f"/proc/self/task/{thread}/schedstat") as file:  # noqa: PTH123 — likewise
            waited_ns += int(file.read().split()[1])
    return waited_ns / 1e9 + stolen_s


def read_pauses(path: Path) -> list[dict[str, Any]]:
    """Read the noted pauses, longest first, without those inside the probe itself. The last line may be torn by a kill."""
    if not path.exists():
        return []
    noted = [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")]
    return sorted((each for each in noted if not _is_own(each["stack"])), key=lambda each: -each["pause_s"])


def _is_own(stack: list[str] | None) -> bool:
    return any(Path(__file__).name in frame for frame in stack or ())
