"""Rows per second and rows per CPU second of the job `archive`, beside Spark's own writer and its Kafka connector, in one run.

The cases take turns over the same messages (1 KiB bodies, 4 queues), as in `bench.spark`, which has the helpers. An archive has
every column, with properties; Spark's writer behind our source and the source that writes its own files (`parquetPath`) have all
but properties, and the connector has what Kafka has. CPU time is that of the driver, its JVM and its Python workers. Each round
of the archive begins a new one. Then archives of larger topics are measured, once each.

SKYROCKET_BENCH_MESSAGES   the number of messages
SKYROCKET_BENCH_ROUNDS     rounds that count
SKYROCKET_BENCH_CASES      some of the cases, by the words in ARCHIVE_CASES, and "connector"
SKYROCKET_BENCH_GROWTH     how many times as many messages the larger topics have: "10" for ten million; empty for none
SKYROCKET_BENCH_BODY       bytes of a body in the larger topics
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from bench import Figure, _kafka, _spark_kafka, spark
from bench._process_tree import TreeWatch
from bench.spark import MESSAGES, TOPIC, Case, RowRate, measure_in_turns, report, serving, spark_session, to_noop
from bench.store_arrow import BODY

CASES = os.environ.get("SKYROCKET_BENCH_CASES", "spark,parquet,zstd,delta,tasks,connector").split(",")
GROWTH = [int(times) for times in os.environ.get("SKYROCKET_BENCH_GROWTH", "").split(",") if times]
GROWTH_BODY_BYTES = int(os.environ.get("SKYROCKET_BENCH_BODY", str(len(BODY))))
CONNECTOR = "connector"
ARCHIVE_CASES = {
    "spark": "source → Parquet (lz4), Spark's writer",
    "parquet": "archive → Parquet (lz4)",
    "zstd": "archive → Parquet (zstd)",
    "delta": "archive → Delta (lz4)",
    "tasks": "source → Parquet (lz4), written by tasks",
}


def figures() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory(prefix="skyrocket-bench-", ignore_cleanup_errors=True) as folder:
        home = Path(folder)
        with spark_session() as session, serving(home / "broker", {}, MESSAGES) as broker:
            cases = archive_cases(session, home, broker.nameserver)
            measured = measure_in_turns(cases, [broker.pid])
            yield from report(cases, measured)
        shutil.rmtree(home / "broker")
        if CONNECTOR in CASES:
            yield from connector_figures(home / "kafka", measured)
        shutil.rmtree(home / "kafka", ignore_errors=True)
        yield from growth_figures(home)


def archive_cases(session: Any, home: Path, nameserver: str) -> list[Case]:
    def spark_writer() -> None:
        frame = session.read.format("rocketmq").options(nameserver=nameserver, subscribe=TOPIC).load()
        frame.write.option("compression", "lz4").mode("overwrite").parquet(str(home / "parquet"))

    def tasks() -> None:
        files = {"parquetPath": str(home / "files"), "parquetCompression": "lz4"}
        to_noop(session.read.format("rocketmq").options(nameserver=nameserver, subscribe=TOPIC, **files).load())

    begin = partial(archive, session, home / "archive", nameserver)
    runs: dict[str, Callable[[], None]] = {
        "spark": spark_writer,
        "parquet": partial(begin, "parquet", "lz4"),
        "zstd": partial(begin, "parquet", "zstd"),
        "delta": partial(begin, "delta", "lz4"),
        "tasks": tasks,
    }
    return [Case(name, runs[word], MESSAGES) for word, name in ARCHIVE_CASES.items() if word in CASES]


def archive(session: Any, folder: Path, nameserver: str, table_format: Any, compression: str) -> None:
    from skyrocket.pipelines import archive_topics  # noqa: PLC0415 — imports Spark, which other benchmarks do not need

    shutil.rmtree(folder, ignore_errors=True)
    cluster = {"nameserver": nameserver}
    archive_topics(session, [TOPIC], folder, cluster=cluster, table_format=table_format, compression=compression)


def growth_figures(home: Path) -> Iterator[Figure]:
    """Archive a topic, and topics that are larger by the factors in GROWTH. The first archive of a session is not measured."""
    first: RowRate | None = None
    for times in [1, *GROWTH] if GROWTH else []:
        messages = MESSAGES * times
        with spark_session() as session, serving(home / "grown", {}, messages, b"x" * GROWTH_BODY_BYTES) as broker:
            run = partial(archive, session, home / "archive", broker.nameserver, "parquet", "lz4")
            if times == 1:
                run()
            watch = TreeWatch([broker.pid])
            run()
            rate = RowRate(messages / watch.spent().clock_s, messages / watch.spent().cpu_s)
        shutil.rmtree(home / "grown")
        first = first or rate
        share = first.rows_per_cpu_s / rate.rows_per_cpu_s
        remark = f"{rate.rows_per_cpu_s / 1000:.0f}k a CPU-second; {share:.2f} times the first one's CPU a row"
        name = f"archive of {messages:,} messages of {GROWTH_BODY_BYTES} B"
        yield Figure(name, f"{rate.rows_per_s / 1000:.0f}k rows/s", remark)


def connector_figures(home: Path, ours: Mapping[str, RowRate]) -> Iterator[Figure]:
    reason = _kafka.missing()
    if reason is not None:
        yield Figure("Spark's Kafka connector", "–", f"not measured: {reason}")
        return
    home.mkdir()
    results = list(_spark_kafka.run_job(home, [BODY], MESSAGES, spark.ROUNDS + 1, ("parquet",)))
    best = RowRate(*(max(row[name] for row in results) for name in ("rows_per_s", "rows_per_cpu_s")))
    remark = f"{best.rows_per_cpu_s / 1000:.0f}k a CPU-second"
    for name, mine in ours.items():
        remark += f"; {name}: {mine.rows_per_cpu_s / best.rows_per_cpu_s:.2f} of its rows a CPU-second"
    yield Figure("Kafka connector → Parquet", f"{best.rows_per_s / 1000:.0f}k rows/s", remark)
