"""Spark's Kafka connector with a Kafka from Maven packages, for `bench spark`.

It runs in its own environment under .cache, with Spark 4.0.0: the last version whose connector jars are all available.
"""

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
JOB_S_MAX = 1_800


def connector_jars() -> str:
    """Return the connector's jars as a value of `spark.jars`. The first call downloads them with Maven."""
    folder = CACHE / "lib"
    if not (folder / ".complete").exists():
        maven = ["mvn", "-q", "-B", "-f", str(POM), "dependency:copy-dependencies", f"-DoutputDirectory={folder}"]
        subprocess.run(maven, check=True)
        (folder / ".complete").touch()
    return ",".join(str(jar) for jar in sorted(folder.glob("*.jar")))


def python() -> Path:
    """Return the interpreter of an environment with Spark 4.0.0. The first call creates the environment."""
    venv = CACHE / f"python{sys.version_info.major}.{sys.version_info.minor}"
    interpreter = venv / "bin" / "python"
    if not (venv / ".complete").exists():
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
        pip = [str(interpreter), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes"]
        subprocess.run([*pip, "-r", str(REQUIREMENTS)], check=True)
        (venv / ".complete").touch()
    return interpreter


def fill(server: str, bodies: list[bytes], count: int) -> None:
    """Send `count` messages to the partitions of the topic in turn, repeating the bodies."""
    _kafka.use_clients()
    from confluent_kafka import Producer  # noqa: PLC0415 — importable since the line above

    producer: Any = Producer({"bootstrap.servers": server, "linger.ms": 5, "queue.buffering.max.messages": 200_000})
    for number in range(count):
        while True:
            try:
                producer.produce(TOPIC, bodies[number % len(bodies)], partition=number % 4)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(60) == 0, "Kafka did not accept all messages"


def run_job(
    home: Path, bodies: list[bytes], count: int, rounds: int, cases: tuple[str, ...] = ("noop", "parquet", "stream")
) -> Iterator[dict[str, Any]]:
    """Run the job and yield its results, each with case, round, rows, rows_per_s and rows_per_cpu_s."""
    with _kafka.kafka(home) as server:
        fill(server, bodies, count)
        words = [python(), "-m", "bench._spark_kafka_job", server, TOPIC, rounds, home, connector_jars(), ",".join(cases)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": str(python())}
        environment.pop("SPARK_HOME", None)
        done = subprocess.run(
            list(map(str, words)), cwd=ROOT, env=environment, capture_output=True, check=False, timeout=JOB_S_MAX, text=True
        )
        assert done.returncode == 0, done.stderr[-3000:]
    for line in done.stdout.splitlines():
        if line.startswith("{"):
            result = json.loads(line)
            assert result["rows"] == count, f"the connector found {result['rows']} rows of {count}"
            yield result
