"""How many tasks of a Spark job have ended, while the caller waits for it: a bar that advances.

    with watching_tasks(spark, lambda done, tasks: JobProgress("counting", done, tasks, "tasks"), on_progress):
        frame.collect()

In its own process Spark is asked twice a second about the jobs of a group. Spark Connect tells by itself, through a handler.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final
from uuid import uuid4

from pyspark import SparkContext
from pyspark.sql import SparkSession

from skyrocket.pipelines.clusters import is_connect
from skyrocket.pipelines.progress import JobProgress, OnProgress, watching

Report = Callable[[int, int], JobProgress]
"""Takes how many tasks have ended, and how many are known of."""

_GROUP: Final = "spark.jobGroup.id"


def share_of(total: int, done: int, tasks: int) -> int:
    """Return how much of `total` is done if every task does the same. Pure."""
    return total * done // tasks if tasks else 0


@contextmanager
def watching_tasks(spark: SparkSession, report: Report, on_progress: OnProgress) -> Iterator[None]:
    """Report the tasks of the jobs that the caller starts in this thread."""
    if is_connect(spark):
        with _watching_connect(spark, report, on_progress):
            yield
        return
    context, group = spark.sparkContext, f"skyrocket-{uuid4().hex}"
    before = context.getLocalProperty(_GROUP)
    _set_group(context, group)
    try:
        with watching(lambda: report(*_count_tasks(context, group)), on_progress):
            yield
    finally:
        _set_group(context, before)


def _set_group(context: SparkContext, group: str | None) -> None:
    context.setLocalProperty(_GROUP, group)  # type: ignore[arg-type]  # None takes it away


def _count_tasks(context: SparkContext, group: str) -> tuple[int, int]:
    tracker = context.statusTracker()
    done = tasks = 0
    for job in tracker.getJobIdsForGroup(group):
        found = tracker.getJobInfo(job)
        for stage in () if found is None else found.stageIds:
            info = tracker.getStageInfo(stage)  # None for a stage that has not begun, or that Spark has forgotten
            if info is not None:
                done, tasks = done + info.numCompletedTasks, tasks + info.numTasks
    return done, tasks


@contextmanager
def _watching_connect(spark: Any, report: Report, on_progress: OnProgress) -> Iterator[None]:
    def handle(stages: Any = (), **_more: Any) -> None:
        known = list(stages or ())
        on_progress(report(sum(one.num_completed_tasks for one in known), sum(one.num_tasks for one in known)))

    spark.registerProgressHandler(handle)
    try:
        yield
    finally:
        spark.removeProgressHandler(handle)
