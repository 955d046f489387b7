"""A progress bar on standard error, for work that takes longer than a moment. Only on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from skyrocket.pipelines.progress import JobProgress, OnProgress, ignore_progress


def is_terminal() -> bool:
    """Whether a person sees standard error."""
    return sys.stderr.isatty()


@contextmanager
def show_progress(first_step: str, *, is_shown: bool) -> Iterator[OnProgress]:
    """Show a bar on a terminal; nowhere else, so that logs and pipes stay clean."""
    if not is_shown:
        yield ignore_progress
        return
    from rich.console import Console, Group  # noqa: PLC0415 — a job in a pipe needs no bar
    from rich.live import Live  # noqa: PLC0415
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[counted]}"), TimeElapsedColumn())
    # What is printed meanwhile goes above the bar; where standard output is a file, it stays there.
    both = sys.stdout.isatty()
    bars = Progress(*columns)
    task = bars.add_task(first_step, total=None, counted="")
    with Live(bars, console=Console(stderr=True), transient=True, redirect_stdout=both, redirect_stderr=both) as live:

        def show(progress: JobProgress) -> None:
            bars.update(
                task,
                description=progress.what,
                total=progress.total,
                completed=progress.done,
                counted=progress.counted(),
            )
            live.update(Group(bars, *map(Text, progress.below)) if progress.below else bars)

        yield show
