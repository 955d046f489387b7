"""One Spark session for all tests of a process, and brokers to read from and write to: ours and Apache's.

def test_something(spark, ours, topic):
    ours.nameserver, ours.store
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.apache.cluster import ApacheCluster
from tests.support.processes.skyrocket_process import Skyrocket
from tests.support.spark.java import QUICK, java_options

# A JVM that lives for a minute on two cores: a small heap, no web page, few tasks for a shuffle.
TEST_CONFIG = {
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": QUICK,
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.pollingDelay": "50ms",
}
_NUMBERS = itertools.count()


def config_with_archive() -> dict[str, str]:
    """TEST_CONFIG for the Java of this process: with its archive of Spark's classes."""
    return {**TEST_CONFIG, "spark.driver.extraJavaOptions": java_options()}


class Cluster(NamedTuple):
    nameserver: str  # host:port
    store: Path  # the broker's directory
    broker_name: str
    process: object  # with kill and start, or stop


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    import skyrocket.spark

    folder = tmp_path_factory.mktemp("spark")
    os.environ.setdefault("SPARK_LOCAL_DIRS", str(folder / "local"))
    config = {**config_with_archive(), "spark.sql.warehouse.dir": str(folder / "warehouse")}
    made = skyrocket.spark.session("tests", "local[2]", config)
    yield made
    made.stop()


@pytest.fixture(scope="session")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A process with our nameserver and broker. A test that stops it must start it again, or use its own."""
    with Skyrocket(tmp_path_factory.mktemp("ours"), {"enablePropertyFilter": "true"}) as process:
        yield Cluster(process.nameserver, process.data / "store", "broker-a", process)


@pytest.fixture(scope="module")
def apache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Apache's nameserver and broker. Skipped without a Java compiler or Maven.

    It ends with the test file: a broker without work takes 4 % of a core, and more while it has open transactions to check.
    """
    home = tmp_path_factory.mktemp("apache")
    with ApacheCluster(home) as cluster:
        small = {
            "mappedFileSizeCommitLog": 16_777_216,
            "maxHashSlotNum": 5000,
            "maxIndexNum": 20_000,
            "enablePropertyFilter": "true",
        }
        process = cluster.broker(home / "store", small)
        yield Cluster(cluster.nameserver, home / "store", "broker1", process)


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic name that no other test uses. The first message creates the topic, or the test does."""
    return f"t{os.getpid()}-{next(_NUMBERS)}"
