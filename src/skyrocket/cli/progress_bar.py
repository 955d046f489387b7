"""A progress bar on standard error, for work that takes longer than a moment. Only on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Protocol

from skyrocket.pipelines.progress import JobProgress

if TYPE_CHECKING:
    from rich.live import Live
    from rich.progress import Progress


class ProgressDisplay(Protocol):
    """Where a job's progress goes."""

    def __call__(self, progress: JobProgress, /) -> None: ...

    def paused(self) -> AbstractContextManager[None]:
        """Take the bar away for as long as somebody is asked a question."""


def is_terminal() -> bool:
    """Whether a person sees standard error."""
    return sys.stderr.isatty()


class HiddenProgress:
    """Shows nothing."""

    def __call__(self, progress: JobProgress, /) -> None:
        pass

    def paused(self) -> AbstractContextManager[None]:
        return nullcontext()


class ProgressBar:
    """One bar, with lines below it."""

    def __init__(self, first_step: str, bars: Progress, live: Live) -> None:
        self._bars, self._live = bars, live
        self._task = bars.add_task(first_step, total=None, counted="")

    def __call__(self, progress: JobProgress, /) -> None:
        from rich.console import Group  # noqa: PLC0415 — a job in a pipe needs no bar
        from rich.text import Text  # noqa: PLC0415

        self._bars.update(
            self._task,
            description=progress.what,
            total=progress.total,
            completed=progress.done,
            counted=progress.counted(),
        )
        self._live.update(Group(self._bars, *map(Text, progress.below)) if progress.below else self._bars)

    @contextmanager
    def paused(self) -> Iterator[None]:
        self._live.stop()
        try:
            yield
        finally:
            self._live.start()


@contextmanager
def show_progress(first_step: str, *, is_shown: bool) -> Iterator[ProgressDisplay]:
    """Show a bar on a terminal; nowhere else, so that logs and pipes stay clean."""
    if not is_shown:
        yield HiddenProgress()
        return
    from rich.console import Console  # noqa: PLC0415
    from rich.live import Live  # noqa: PLC0415
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[counted]}"), TimeElapsedColumn())
    # What is printed meanwhile goes above the bar; where standard output is a file, it stays there.
    both = sys.stdout.isatty()
    bars = Progress(*columns)
    live = Live(bars, console=Console(stderr=True), transient=True, redirect_stdout=both, redirect_stderr=both)
    bar = ProgressBar(first_step, bars, live)
    with live:
        yield bar
