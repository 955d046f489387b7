"""A bar advances while Spark works: it shows tasks that have ended, before all have."""

from __future__ import annotations

import time
from pathlib import Path

from pyspark.sql import SparkSession

from skyrocket.pipelines import verify_stores
from skyrocket.pipelines.progress import JobProgress
from skyrocket.pipelines.task_progress import watching_tasks
from tests.support.stores.sample_stores import sample_store
from tests.support.waiting import WAIT_S_MAX

TASKS = 4


def test_tasks_that_have_ended_are_reported_while_others_run(spark: SparkSession, tmp_path: Path):
    seen: list[JobProgress] = []
    gate, deadline_s = tmp_path / "gate", time.monotonic() + WAIT_S_MAX

    def wait_in_the_last_one(number: int) -> int:
        while number == TASKS - 1 and not gate.exists() and time.monotonic() < deadline_s:
            time.sleep(0.05)
        return number

    def look(progress: JobProgress) -> None:
        seen.append(progress)
        if progress.done:
            gate.touch()

    before = spark.sparkContext.getLocalProperty("spark.jobGroup.id")
    with watching_tasks(spark, lambda done, tasks: JobProgress("working", done, tasks, "tasks"), look):
        assert spark.sparkContext.parallelize(range(TASKS), TASKS).map(wait_in_the_last_one).sum() == 6
    assert any(0 < progress.done < (progress.total or 0) == TASKS for progress in seen)
    assert spark.sparkContext.getLocalProperty("spark.jobGroup.id") == before


def test_each_phase_of_a_verification_is_reported_to_its_end(spark: SparkSession, tmp_path: Path):
    seen: list[JobProgress] = []
    (result,) = verify_stores(spark, [sample_store(tmp_path / "store")], on_progress=seen.append)
    for what in ("verifying logs", "verifying queues and indexes"):
        phase = [progress for progress in seen if progress.what == what]
        assert (phase[0].done, phase[-1].done) == (0, phase[-1].total)
        assert [one.done for one in phase] == sorted(one.done for one in phase)
    assert seen[0].total == result.counts["segments"]
