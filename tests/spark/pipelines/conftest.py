"""What the tests of the pipeline jobs share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from skyrocket.cli.pipeline_jobs.job_command import JobOptions
from tests.support.skyrocket_process import Skyrocket


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Skyrocket]:
    """A broker of its own for a test that kills it. It flushes before it acknowledges."""
    with Skyrocket(tmp_path / "broker", {"flushDiskType": "SYNC_FLUSH"}) as made:
        yield made


@pytest.fixture
def keeps_spark(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a command use the session of the tests, and not stop it."""
    monkeypatch.setattr(JobOptions, "session", lambda _self, _job: spark)
    monkeypatch.setattr(type(spark), "stop", lambda _self: None)
