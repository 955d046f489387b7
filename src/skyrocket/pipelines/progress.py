"""What a job tells about itself while it runs. The command line draws a bar from it; a program may log it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

LOOK_S: Final = 0.5
LOOKS_MAX: Final = 2_000  # of a history


class JobProgress(NamedTuple):
    """A step of a job, and how much of it is done."""

    what: str  # such as "archiving"
    done: int = 0
    total: int | None = None  # None: not known
    unit: str = "messages"
    below: tuple[str, ...] = ()  # lines to show below the bar, such as a table of what happens now

    def counted(self) -> str:
        """Return the numbers as text, such as "1,200 of 5,000 messages"."""
        if self.total is None:
            return f"{self.done:,} {self.unit}" if self.done else ""
        return f"{self.done:,} of {self.total:,} {self.unit}"


OnProgress = Callable[[JobProgress], None]
"""Called on the driver, some times a second at most. It must not block."""


class ProgressHistory:
    """How much was done when, for a chart of rates. Of too many looks, every second one goes."""

    def __init__(self, most: int = LOOKS_MAX) -> None:
        assert most >= 2
        self._most = most
        self._looks: list[tuple[int, int]] = []  # (time in ms, done since the job began)
        self._last = 0

    def add(self, at_ms: int, done: int) -> None:
        """Add a look. A job that counts from 0 again, as one that follows a topic, goes on from where it was."""
        before = self._looks[-1][1] if self._looks else 0
        self._looks.append((at_ms, before + (done - self._last if done >= self._last else done)))
        self._last = done
        if len(self._looks) > self._most:
            self._looks = [*self._looks[:-1:2], self._looks[-1]]

    def rates(self) -> list[tuple[float, float]]:
        """Return how much was done a second between two looks, at the time of the second one."""
        pairs = zip(self._looks, self._looks[1:], strict=False)
        return [(float(end_ms), (done - before) * 1000 / (end_ms - ms)) for (ms, before), (end_ms, done) in pairs if end_ms > ms]


def record_progress(history: ProgressHistory, on_progress: OnProgress) -> OnProgress:
    """Return a callback that adds each report of known length to the history, with the time, before it passes it on."""

    def record(progress: JobProgress) -> None:
        if progress.total is not None:
            history.add(time.time_ns() // 1_000_000, progress.done)
        on_progress(progress)

    return record


def ignore_progress(_progress: JobProgress) -> None:
    """Do nothing: for callers that show no progress."""


@contextmanager
def watching(look: Callable[[], JobProgress], on_progress: OnProgress) -> Iterator[None]:
    """Call `look` in a thread twice a second, and report what it returns, while the caller waits for Spark."""
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(LOOK_S):
            on_progress(look())

    thread = threading.Thread(target=watch, name="skyrocket-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
