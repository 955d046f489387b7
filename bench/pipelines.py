"""Rows per second and rows per CPU second of the job `archive`, beside Spark's own writer and its Kafka connector, in one run.

The cases take turns over the same messages (1 KiB bodies, 4 queues), as in `bench.spark`, which has the helpers. An archive has
every column, with properties; Spark's writer behind our source has all but properties, and the connector has what Kafka has. CPU
time is that of the driver, its JVM and its Python workers. Each round of the archive begins a new one. `SKYROCKET_BENCH_MESSAGES`
is the number of messages.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from bench import Figure, _kafka, _spark_kafka, spark
from bench.spark import TOPIC, Case, RowRate, measure_in_turns, report, serving, spark_session
from bench.store_arrow import BODY

MESSAGES = int(os.environ.get("SKYROCKET_BENCH_MESSAGES", "1000000"))
ARCHIVE = "archive → Parquet (lz4)"


def figures() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory(prefix="skyrocket-bench-", ignore_cleanup_errors=True) as folder:
        home = Path(folder)
        with spark_session() as session, serving(home / "broker", {}, MESSAGES) as nameserver:
            cases = archive_cases(session, home, nameserver)
            measured = measure_in_turns(cases)
            yield from report(cases, measured)
        shutil.rmtree(home / "broker")
        yield from connector_figures(home / "kafka", measured[ARCHIVE])


def archive_cases(session: Any, home: Path, nameserver: str) -> list[Case]:
    from skyrocket.pipelines import archive_topics  # noqa: PLC0415 — imports Spark, which other benchmarks do not need

    def archive(table_format: Any, compression: str) -> None:
        shutil.rmtree(home / "archive", ignore_errors=True)
        cluster = {"nameserver": nameserver}
        archive_topics(session, [TOPIC], home / "archive", cluster=cluster, table_format=table_format, compression=compression)

    def spark_writer() -> None:
        options = {"nameserver": nameserver, "subscribe": TOPIC}
        frame = session.read.format("rocketmq").options(**options).load()
        frame.write.option("compression", "lz4").mode("overwrite").parquet(str(home / "parquet"))

    runs: dict[str, Callable[[], None]] = {
        "source → Parquet (lz4), Spark's writer": spark_writer,
        ARCHIVE: partial(archive, "parquet", "lz4"),
        "archive → Parquet (zstd)": partial(archive, "parquet", "zstd"),
        "archive → Delta (lz4)": partial(archive, "delta", "lz4"),
    }
    return [Case(name, run, MESSAGES) for name, run in runs.items()]


def connector_figures(home: Path, ours: RowRate) -> Iterator[Figure]:
    reason = _kafka.missing()
    if reason is not None:
        yield Figure("Spark's Kafka connector", "–", f"not measured: {reason}")
        return
    home.mkdir()
    results = [row for row in _spark_kafka.run_job(home, [BODY], MESSAGES, spark.ROUNDS + 1) if row["case"] == "parquet"]
    best = RowRate(*(max(row[name] for row in results) for name in ("rows_per_s", "rows_per_cpu_s")))
    share = ours.rows_per_cpu_s / best.rows_per_cpu_s
    remark = f"{best.rows_per_cpu_s / 1000:.0f}k a CPU-second; {ARCHIVE}: {share:.2f} of its rows a CPU-second"
    yield Figure("Kafka connector → Parquet", f"{best.rows_per_s / 1000:.0f}k rows/s", remark)
