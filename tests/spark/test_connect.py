"""Jobs through Spark Connect: the job itself has no Java, and talks to a server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.spark.conftest import config_with_archive
from tests.spark.test_cluster import BODIES, run_jobs
from tests.support.spark.processes import connect_server, job, python_without_skyrocket

pytest.importorskip("grpc")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with connect_server(tmp_path_factory.mktemp("connect"), config_with_archive()) as address:
        yield address


@pytest.fixture(scope="module")
def found(server: str, ours: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return run_jobs(server, ours.nameserver, tmp_path_factory.mktemp("connected"))


def test_sink_and_source(found: dict[str, Any]):
    assert found["sink_and_source"] == {"bodies": BODIES, "tags": ["red"]}


def test_stream(found: dict[str, Any]):
    assert found["stream"] == {"bodies": BODIES}


def test_offline_reader(found: dict[str, Any]):
    assert found["offline"] == {"rows": 137, "topics": ["topic-0", "topic-1", "topic-2"]}


def test_error_is_a_short_message_through_connect(server: str, tmp_path: Path):
    error = job(tmp_path, "bad_option", server)["error"]
    assert "Option 'subscribed' does not exist for the source rocketmq. Did you mean 'subscribe'?" in error
    assert "Traceback" not in error


def test_ship_code_sends_the_package_to_the_server(ours: Any, topic: str, tmp_path: Path):
    python = python_without_skyrocket(tmp_path / "python")
    with connect_server(tmp_path / "server", config_with_archive(), PYSPARK_PYTHON=str(python)) as server:
        found = job(tmp_path, "sink_and_source", server, nameserver=ours.nameserver, topic=topic, ship_code=True)
    assert found == {"bodies": BODIES, "tags": ["red"]}
