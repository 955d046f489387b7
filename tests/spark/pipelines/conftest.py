"""What the tests of the pipeline jobs share."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from skyrocket.cli.pipeline_jobs.job_command import JobOptions


@pytest.fixture
def keeps_spark(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a command use the session of the tests, and not stop it."""
    monkeypatch.setattr(JobOptions, "session", lambda _self, _job: spark)
    monkeypatch.setattr(type(spark), "stop", lambda _self: None)
