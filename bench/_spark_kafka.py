"""Spark's Kafka connector on a Kafka from Maven's packages, for `bench spark`, in an environment of its own under .cache. Spark
4.0.0 is the last for which all its jars are there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench import _kafka

ROOT = Path(__file__).resolve().parents[1]
POM = ROOT / "bench" / "kafka" / "connector" / "pom.xml"
REQUIREMENTS = ROOT / "requirements" / "bench-connector.txt"
CACHE = ROOT / ".cache" / "kafka-connector"
TOPIC = "BenchRows"
JOB_S_MAX = 900


def connector_jars() -> str:
    """Resolved once; as Spark wants to be told them."""
    folder = CACHE / "lib"
    if not (folder / ".complete").exists():
        maven = ["mvn", "-q", "-B", "-f", str(POM), "dependency:copy-dependencies", f"-DoutputDirectory={folder}"]
        subprocess.run(maven, check=True)
        (folder / ".complete").touch()
    return ",".join(str(jar) for jar in sorted(folder.glob("*.jar")))


def python() -> Path:
    """With Spark 4.0.0; made once."""
    venv = CACHE / f"python{sys.version_info.major}.{sys.version_info.minor}"
    interpreter = venv / "bin" / "python"
    if not (venv / ".complete").exists():
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
        pip = [str(interpreter), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes"]
        subprocess.run([*pip, "-r", str(REQUIREMENTS)], check=True)
        (venv / ".complete").touch()
    return interpreter


def fill(server: str, bodies: list[bytes], count: int) -> None:
    """The topic, with `count` messages, these bodies over and over, spread over its partitions."""
    _kafka.use_clients()
    from confluent_kafka import Producer  # noqa: PLC0415 - importable only now

    producer: Any = Producer({"bootstrap.servers": server, "linger.ms": 5, "queue.buffering.max.messages": 200_000})
    for number in range(count):
        while True:
            try:
                producer.produce(TOPIC, bodies[number % len(bodies)], partition=number % 4)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(60) == 0, "Kafka did not take all messages"


def measured(home: Path, bodies: list[bytes], count: int, rounds: int) -> Iterator[dict[str, Any]]:
    """The job's lines: case, round, rows, rows_per_s, rows_per_cpu_s."""
    with _kafka.kafka(home) as server:
        fill(server, bodies, count)
        words = [python(), "-m", "bench._spark_kafka_job", server, TOPIC, rounds, home, connector_jars()]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": str(python())}
        environment.pop("SPARK_HOME", None)
        done = subprocess.run(
            list(map(str, words)), cwd=ROOT, env=environment, capture_output=True, check=False, timeout=JOB_S_MAX, text=True
        )
        assert done.returncode == 0, done.stderr[-3000:]
    for line in done.stdout.splitlines():
        if line.startswith("{"):
            told = json.loads(line)
            assert told["rows"] == count, f"the connector found {told['rows']} rows of {count}"
            yield told
