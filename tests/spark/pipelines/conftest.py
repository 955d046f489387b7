"""What the tests of the pipeline jobs share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from skyrocket.cli.pipeline_jobs.job_command import JobOptions
from tests.support.pipelines.kills import IS_LONG, Victim, driver_victim, executor_victim, worker_victim
from tests.support.processes.skyrocket_process import Skyrocket
from tests.support.spark.processes import standalone_cluster

VICTIMS = ["driver", "worker", *(["executor"] if IS_LONG else [])]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Skyrocket]:
    """A broker of its own for a test that kills it. It flushes before it acknowledges."""
    with Skyrocket(tmp_path / "broker", {"flushDiskType": "SYNC_FLUSH"}) as made:
        yield made


@pytest.fixture(scope="module")
def cluster_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of `two_workers`, with the logs of master and workers, and a folder of applications for each worker."""
    return tmp_path_factory.mktemp("cluster")


@pytest.fixture(scope="module")
def two_workers(cluster_home: Path) -> Iterator[str]:
    """The master of a standalone cluster with two workers."""
    with standalone_cluster(cluster_home, workers=2) as address:
        yield address


@pytest.fixture(params=VICTIMS)
def victim(request: pytest.FixtureRequest) -> Victim:
    """What a test kills. Executors only with SKYROCKET_PIPELINE_KILLS: their cluster takes half a minute to start."""
    if request.param == "executor":
        return executor_victim(request.getfixturevalue("two_workers"))
    return worker_victim() if request.param == "worker" else driver_victim()


@pytest.fixture
def keeps_spark(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a command use the session of the tests, and not stop it."""
    monkeypatch.setattr(JobOptions, "session", lambda _self, _job: spark)
    monkeypatch.setattr(type(spark), "stop", lambda _self: None)
