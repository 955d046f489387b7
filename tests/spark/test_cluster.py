"""Jobs on a standalone cluster: master, worker and executors are separate processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.sample_stores import sample_store
from tests.support.spark_processes import job, python_without_skyrocket, standalone_cluster

BODIES = sorted(f"body {number}" for number in range(200))


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with standalone_cluster(tmp_path_factory.mktemp("cluster")) as address:
        yield address


def test_sink_and_source(master: str, ours: Any, topic: str, tmp_path: Path):
    found = job(tmp_path, "sink_and_source", master, nameserver=ours.nameserver, topic=topic)
    assert found == {"bodies": BODIES, "tags": ["red"]}
    onto = {"onto": f"{topic}-onto", "checkpoint": tmp_path / "checkpoint"}
    assert job(tmp_path, "stream", master, nameserver=ours.nameserver, topic=topic, **onto) == {"bodies": BODIES}


def test_offline_reader(master: str, tmp_path: Path):
    store = sample_store(tmp_path / "store", 150)
    assert job(tmp_path, "offline", master, store=store) == {"rows": 137, "topics": ["topic-0", "topic-1", "topic-2"]}


def test_ship_code_sends_the_package_to_workers(master: str, ours: Any, topic: str, tmp_path: Path):
    given = {"PYSPARK_PYTHON": str(python_without_skyrocket(tmp_path / "python"))}
    found = job(tmp_path, "sink_and_source", master, given=given, nameserver=ours.nameserver, topic=topic, ship_code=True)
    assert found == {"bodies": BODIES, "tags": ["red"]}
