"""A Kafka 4 cluster of one node on loopback, from Maven packages, and Kafka's Python clients in a folder under .cache."""

from __future__ import annotations

import hashlib
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.support.apache.cluster import JavaProcess
from tests.support.ports import free_port

ROOT = Path(__file__).resolve().parents[1]
POM = ROOT / "bench" / "kafka" / "pom.xml"
REQUIREMENTS = ROOT / "requirements" / "bench.txt"
CACHE = ROOT / ".cache" / "kafka"
START_S_MAX = 60
PAUSE_MS_MAX = 600_000  # while others are measured, Kafka is stopped; its controller must not give the broker up for that
CLUSTER = "c2t5cm9ja2V0LWJlbmNoIQ"  # any 16 bytes in base64

SETTINGS = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
log.dirs={home}/log
num.partitions=4
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
group.initial.rebalance.delay.ms=0
broker.session.timeout.ms={pause_ms}
"""


class KafkaServer(NamedTuple):
    address: str
    pid: int


def missing() -> str | None:
    """Name the first missing tool, or return None when every tool is installed."""
    return next((f"{tool} is not installed" for tool in ("java", "mvn") if shutil.which(tool) is None), None)


def jars() -> Path:
    """Return the folder of Kafka's jars. The first call downloads them with Maven."""
    folder = CACHE / f"lib-{hashlib.sha256(POM.read_bytes()).hexdigest()[:8]}"  # another version, another folder
    if not (folder / ".complete").exists():
        maven = ["mvn", "-q", "-B", "-f", str(POM), "dependency:copy-dependencies", f"-DoutputDirectory={folder}"]
        subprocess.run(maven, check=True)
        (folder / ".complete").touch()
    return folder


def use_clients() -> Path:
    """Make Kafka's Python clients importable and return their folder, which is outside the development environment."""
    folder = CACHE / f"python{sys.version_info.major}.{sys.version_info.minor}"
    if not (folder / ".complete").exists():
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target", str(folder)]
        subprocess.run([*pip, "--require-hashes", "-r", str(REQUIREMENTS)], check=True)
        (folder / ".complete").touch()
    sys.path.append(str(folder))
    return folder


@contextmanager
def kafka(home: Path) -> Iterator[str]:
    """Run Kafka and yield its address. A topic has as many partitions as a topic of our broker has queues."""
    with kafka_server(home, ["-Xmx512m"]) as server:
        yield server.address


@contextmanager
def kafka_server(home: Path, java: list[str]) -> Iterator[KafkaServer]:
    """Run Kafka in a JVM with the given options, and yield its address and process."""
    port, controller = free_port(), free_port()
    home.mkdir(parents=True, exist_ok=True)
    settings = home / "server.properties"
    settings.write_text(SETTINGS.format(port=port, controller=controller, home=home, pause_ms=PAUSE_MS_MAX))
    path = f"{jars()}/*"
    format_log = ["java", "-cp", path, "kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c", str(settings)]
    subprocess.run(format_log, check=True, capture_output=True)
    server = JavaProcess("Kafka", home / "server", [*java, "-cp", path, "kafka.Kafka", str(settings)])
    try:
        deadline_s = time.monotonic() + START_S_MAX
        while not _listens(port):
            assert time.monotonic() < deadline_s, server.log_tail()
            assert server.process.poll() is None, server.log_tail()
            time.sleep(0.1)
        yield KafkaServer(f"127.0.0.1:{port}", server.process.pid)
    finally:
        server.stop()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
