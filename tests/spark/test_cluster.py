"""Jobs on a standalone cluster: master, worker and executors are separate processes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.spark.processes import job, python_without_skyrocket, standalone_cluster
from tests.support.stores.sample_stores import sample_store

BODIES = sorted(f"body {number}" for number in range(200))


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with standalone_cluster(tmp_path_factory.mktemp("cluster")) as address:
        yield address


def run_jobs(master: str, nameserver: str, home: Path) -> dict[str, Any]:
    """Run a sink, a source, a stream and an offline reader on this master, and return what each found."""
    topic = f"{home.name}-{os.getpid()}"
    places = {"onto": f"{topic}-onto", "checkpoint": home / "checkpoint", "store": sample_store(home / "store", 150)}
    return job(home, "each", master, nameserver=nameserver, topic=topic, **places)


@pytest.fixture(scope="module")
def found(master: str, ours: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return run_jobs(master, ours.nameserver, tmp_path_factory.mktemp("jobs"))


def test_sink_and_source(found: dict[str, Any]):
    assert found["sink_and_source"] == {"bodies": BODIES, "tags": ["red"]}


def test_stream(found: dict[str, Any]):
    assert found["stream"] == {"bodies": BODIES}


def test_offline_reader(found: dict[str, Any]):
    assert found["offline"] == {"rows": 137, "topics": ["topic-0", "topic-1", "topic-2"]}


def test_ship_code_sends_the_package_to_workers(master: str, ours: Any, topic: str, tmp_path: Path):
    given = {"PYSPARK_PYTHON": str(python_without_skyrocket(tmp_path / "python"))}
    found = job(tmp_path, "sink_and_source", master, given=given, nameserver=ours.nameserver, topic=topic, ship_code=True)
    assert found == {"bodies": BODIES, "tags": ["red"]}
