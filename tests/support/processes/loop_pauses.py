"""The longest pause of an event loop: how long it ran one callback and could serve nobody else.

    async with measured_pauses() as pauses:
        await something_that_may_block()
    pauses.check(limit_ms=50)

A pause counts the time that the callback took, both computing and waiting for a disk or a lock. It does not count the time in
which another process had the processor, so that the figure holds on a busy machine too. Linux reports that time for each thread.
It counts for all threads of the process, because the loop also stands still while a thread that has Python's lock is not running.
A timer notes where the loop stands when a callback takes long: `check` fails with that stack.

It measures asyncio's own loop, in the main thread of this process. uvloop does not call `Handle._run`.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import time
import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

LIMIT_MS = 50.0  # what a broker's loop may take for one callback
LOOK_S = 0.01  # between two looks at where the loop stands
SEEN_MS = 20.0  # a callback that takes longer is worth a look


@dataclass(slots=True)
class Pause:
    took_ms: float
    callback: str
    where: str = ""  # the stack of the loop's thread in the middle of the pause


@dataclass(slots=True)
class LoopPauses:
    """The pauses of one loop, longest first."""

    pauses: list[Pause] = field(default_factory=list)
    callbacks: int = 0

    KEPT = 20

    @property
    def longest_ms(self) -> float:
        return self.pauses[0].took_ms if self.pauses else 0.0

    def add(self, pause: Pause) -> None:
        self.callbacks += 1
        if len(self.pauses) < self.KEPT or pause.took_ms > self.pauses[-1].took_ms:
            self.pauses.append(pause)
            self.pauses.sort(key=lambda one: one.took_ms, reverse=True)
            del self.pauses[self.KEPT :]

    def report(self) -> str:
        """Say how long the longest pauses were, and where."""
        lines = [f"{self.callbacks} callbacks; the longest took {self.longest_ms:.1f} ms."]
        for pause in self.pauses[:3]:
            lines += [f"{pause.took_ms:.1f} ms in {pause.callback}", pause.where]
        return "\n".join(line for line in lines if line)

    def check(self, limit_ms: float = LIMIT_MS) -> None:
        assert self.callbacks, "the loop ran nothing"
        assert self.longest_ms < limit_ms, f"the loop stood still for more than {limit_ms:.0f} ms: {self.report()}"


@asynccontextmanager
async def measured_pauses() -> AsyncIterator[LoopPauses]:
    """Measure the pauses of the running loop."""
    with _measuring(asyncio.get_running_loop()) as pauses:
        await asyncio.sleep(0)  # begin with a new callback
        yield pauses
        await asyncio.sleep(0)  # and end with one


@contextmanager
def _measuring(loop: asyncio.AbstractEventLoop) -> Any:
    pauses, look, queueing = LoopPauses(), _Look(), _QueueingTimes()
    run = asyncio.Handle._run

    def timed_run(handle: asyncio.Handle) -> None:
        if handle._loop is not loop:
            run(handle)
            return
        callback = getattr(handle, "_callback", None)
        queueing.begin()
        began_ns, began_cpu_ns = time.perf_counter_ns(), time.thread_time_ns()
        look.begin(began_ns)
        run(handle)  # it reports exceptions to the loop and raises none
        if not look.is_closed:  # otherwise this callback ended the measurement
            took_ns, computed_ns = time.perf_counter_ns() - began_ns, time.thread_time_ns() - began_cpu_ns
            waited_ns = max(0, took_ns - computed_ns - queueing.passed_ns())
            pauses.add(Pause((computed_ns + waited_ns) / 1e6, _name(callback), look.end()))

    gc.collect()
    gc.freeze()  # the collector does not look at what pytest and earlier tests have left, which no broker has
    asyncio.Handle._run = timed_run  # type: ignore[method-assign]
    look.start()
    try:
        yield pauses
    finally:
        asyncio.Handle._run = run  # type: ignore[method-assign]
        look.close()
        queueing.close()
        gc.unfreeze()
        gc.collect()
        gc.freeze()  # as conftest.py has left it


class _QueueingTimes:
    """How long the threads of this process have been ready to run, without a processor."""

    def __init__(self) -> None:
        self._files: dict[str, int] = {}  # thread id -> descriptor of its schedstat: "time running, time queueing, turns"
        self._began_ns: dict[str, int] = {}

    def begin(self) -> None:
        self._began_ns = self._read()

    def passed_ns(self) -> int:
        """Return how long the threads that were there at `begin` have queued since then."""
        began_ns = self._began_ns
        return sum(queued_ns - began_ns[thread] for thread, queued_ns in self._read().items() if thread in began_ns)

    def _read(self) -> dict[str, int]:
        queued_ns = {}
        for thread in os.listdir("/proc/self/task"):  # noqa: PTH208 — names, and quickly
            with suppress(OSError):  # the thread has just ended
                if thread not in self._files:
                    self._files[thread] = os.open(f"/proc/self/task/{thread}/schedstat", os.O_RDONLY)
                queued_ns[thread] = int(os.pread(self._files[thread], 100, 0).split()[1])
        return queued_ns

    def close(self) -> None:
        for file in self._files.values():
            os.close(file)


def _name(callback: Any) -> str:
    task = getattr(callback, "__self__", None)
    if isinstance(task, asyncio.Task):
        return f"task {task.get_name()} ({getattr(task.get_coro(), '__qualname__', task.get_coro())})"
    return str(getattr(callback, "__qualname__", callback))


class _Look:
    """Notes where the loop stands while one callback takes long.

    A signal looks, not a thread: a thread would compete for Python's lock, and the loop would stand still for it.
    """

    def __init__(self) -> None:
        self._began_ns = 0  # of the callback that runs; 0 between callbacks
        self._seen: tuple[int, str] = (0, "")
        self._previous: Any = None
        self.is_closed = False

    def begin(self, now_ns: int) -> None:
        self._began_ns = now_ns

    def end(self) -> str:
        began_ns, self._began_ns = self._began_ns, 0
        seen_ns, where = self._seen
        return where if seen_ns == began_ns else ""

    def start(self) -> None:
        self._previous = signal.signal(signal.SIGALRM, self._see)
        signal.setitimer(signal.ITIMER_REAL, LOOK_S, LOOK_S)

    def close(self) -> None:
        self.is_closed = True
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self._previous)

    def _see(self, _number: int, frame: Any) -> None:
        began_ns = self._began_ns
        if began_ns and self._seen[0] != began_ns and (time.perf_counter_ns() - began_ns) / 1e6 > SEEN_MS:
            self._seen = (began_ns, "".join(traceback.format_stack(frame)[-12:]))
