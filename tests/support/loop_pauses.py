"""The longest pause of an event loop: how long it ran one callback and could serve nobody else.

    async with measured_pauses() as pauses:
        await something_that_may_block()
    pauses.check(limit_ms=50)

A pause counts the time that the callback took, both computing and waiting for a disk or a lock. It does not count the time in
which another process had the processor (Linux reports it for each thread), so that the figure holds on a busy machine too. A
watching thread notes where the loop stands when a callback takes long: `check` fails with that stack.

It measures asyncio's own loop, in this process. uvloop does not call `Handle._run`.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

LIMIT_MS = 50.0  # what a broker's loop may take for one callback
WATCH_S = 0.005  # between two looks of the watching thread
SEEN_MS = 20.0  # a callback that takes longer is worth a look


@dataclass(slots=True)
class Pause:
    took_ms: float
    callback: str
    where: str = ""  # the stack of the loop's thread in the middle of the pause, if the watching thread saw it


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
    pauses, watch = LoopPauses(), _Watch(threading.get_ident())
    run = asyncio.Handle._run
    schedstat = os.open(f"/proc/self/task/{threading.get_native_id()}/schedstat", os.O_RDONLY)

    def timed_run(handle: asyncio.Handle) -> None:
        if handle._loop is not loop:
            run(handle)
            return
        callback = getattr(handle, "_callback", None)
        queued_ns = _queued_ns(schedstat)
        began_ns = time.perf_counter_ns()
        watch.begin(began_ns)
        run(handle)  # it reports exceptions to the loop and raises none
        if not watch.is_closed:  # otherwise this callback ended the measurement
            took_ns = time.perf_counter_ns() - began_ns
            where = watch.end()
            took_ms = max(0, took_ns - (_queued_ns(schedstat) - queued_ns)) / 1e6
            pauses.add(Pause(took_ms, _name(callback), where))

    asyncio.Handle._run = timed_run  # type: ignore[method-assign]
    watch.start()
    try:
        yield pauses
    finally:
        asyncio.Handle._run = run  # type: ignore[method-assign]
        watch.close()
        os.close(schedstat)


def _queued_ns(schedstat: int) -> int:
    """Return how long the thread has been ready to run without a processor, since it began."""
    return int(os.pread(schedstat, 100, 0).split()[1])


def _name(callback: Any) -> str:
    task = getattr(callback, "__self__", None)
    if isinstance(task, asyncio.Task):
        return f"task {task.get_name()} ({getattr(task.get_coro(), '__qualname__', task.get_coro())})"
    return str(getattr(callback, "__qualname__", callback))


class _Watch(threading.Thread):
    """Notes where the loop's thread stands while one callback takes long."""

    def __init__(self, watched: int) -> None:
        super().__init__(name="loop-pauses", daemon=True)
        self._watched = watched
        self._began_ns = 0  # of the callback that runs; 0 between callbacks
        self._seen: tuple[int, str] = (0, "")
        self._closed = threading.Event()

    def begin(self, now_ns: int) -> None:
        self._began_ns = now_ns

    def end(self) -> str:
        began_ns, self._began_ns = self._began_ns, 0
        seen_ns, where = self._seen
        return where if seen_ns == began_ns else ""

    @property
    def is_closed(self) -> bool:
        return self._closed.is_set()

    def close(self) -> None:
        self._closed.set()
        self.join()

    def run(self) -> None:
        while not self._closed.wait(WATCH_S):
            began_ns = self._began_ns
            if began_ns and self._seen[0] != began_ns and (time.perf_counter_ns() - began_ns) / 1e6 > SEEN_MS:
                frame = sys._current_frames().get(self._watched)
                self._seen = (began_ns, "".join(traceback.format_stack(frame)[-12:]))
