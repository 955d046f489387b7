"""What a job tells about itself while it runs. The command line draws a bar from it; a program may log it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

LOOK_S: Final = 0.5


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
