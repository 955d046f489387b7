"""Rows per second and rows per CPU second through Spark: our sources, Spark's own limit and its Kafka connector, in one run.

The cases take turns, round after round, over the same messages (1 KiB bodies, 4 queues), so that other load on the machine
disturbs all of them. Spark's own limit is measured first, in a session whose workers import nothing of ours. CPU time is that of
the driver, its JVM and its Python workers. Our broker and Kafka are other processes, which share the two cores. The figure of a
case is its best round. The connector needs another Spark, so it comes last. `SKYROCKET_BENCH_MESSAGES` is the number of messages,
`SKYROCKET_BENCH_ROUNDS` the number of rounds.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.processes.skyrocket_process import Skyrocket

from bench import Figure, _kafka, _spark_kafka
from bench._process_tree import Spent, TreeWatch
from bench._synthetic import Synthetic
from bench.store_arrow import BODY, GROUP, NOW_MS, message
from skyrocket.client.sync import Admin
from skyrocket.spark.offline.store_reader import StoreReader
from skyrocket.spark.options.store_options import store_options
from skyrocket.store.config import StoreConfig
from skyrocket.store.message import append_request_of
from skyrocket.store.message_store import MessageStore

MESSAGES = int(os.environ.get("SKYROCKET_BENCH_MESSAGES", "1000000"))
QUEUES = 4
ROUNDS = int(os.environ.get("SKYROCKET_BENCH_ROUNDS", "4"))
SEGMENT_BYTES = 1024 * 1024 * 1024
PREPARED_BATCHES = 8
THREE_COLUMNS = "queueId,queueOffset,storeTimestamp"
TOPIC = message(0).topic
CONFIG = {"spark.driver.memory": "2g", "spark.ui.enabled": "false"}


COLUMNS: dict[str, dict[str, str]] = {
    "all columns but properties": {},
    "all columns": {"includeProperties": "true"},
    "three columns, no body": {"columns": THREE_COLUMNS},
}


class Case(NamedTuple):
    name: str
    run: Callable[[], None]
    rows: int
    bar: str = ""
    beside: str = ""  # the case of which this one is reported as a share


class Serving(NamedTuple):
    nameserver: str
    pid: int


class RowRate(NamedTuple):
    rows_per_s: float
    rows_per_cpu_s: float


def figures() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory(prefix="skyrocket-bench-", ignore_cleanup_errors=True) as folder:
        home = Path(folder)
        measured: dict[str, RowRate] = {}
        store = fill_store(home / "store")
        with spark_session() as spark:
            cases = ceiling_cases(spark, home, store)
            measured |= measure_in_turns(cases)
            yield from report(cases, measured)
        with spark_session() as spark, serving(home / "usual", {}) as usual:
            cases = [*offline_cases(spark, store), *source_cases(spark, home, usual.nameserver)]
            measured |= measure_in_turns(cases, [usual.pid])
            yield from report(cases, measured)
        shutil.rmtree(home / "store")
        yield from connector_figures(home / "kafka", measured)


@contextmanager
def spark_session() -> Iterator[Any]:
    import skyrocket.spark  # noqa: PLC0415 — imports Spark, which other benchmarks do not need

    spark = skyrocket.spark.session("bench", "local[2]", CONFIG)
    spark.dataSource.register(Synthetic)
    try:
        yield spark
    finally:
        spark.stop()


def measure_in_turns(cases: Sequence[Case], servers: Sequence[int] = ()) -> dict[str, RowRate]:
    """Return the best round of each case. The first round does not count: Java compiles and workers start.

    The CPU time of `servers` does not count, as that of Kafka does not count for its connector.
    """
    best: dict[str, RowRate] = {}
    for number in range(ROUNDS + 1):
        for case in cases:
            watch = TreeWatch(servers)
            case.run()
            if number:
                best[case.name] = _better(best.get(case.name), watch.spent(), case.rows)
    return best


def _better(so_far: RowRate | None, spent: Spent, rows: int) -> RowRate:
    now = RowRate(rows / spent.clock_s, rows / spent.cpu_s)
    return now if so_far is None else RowRate(*map(max, so_far, now))


def report(cases: Sequence[Case], measured: Mapping[str, RowRate]) -> Iterator[Figure]:
    for case in cases:
        rates = measured[case.name]
        share = f"{rates.rows_per_s / measured[case.beside].rows_per_s:.0%} of {case.beside}" if case.beside else ""
        remark = ", ".join(part for part in (f"{rates.rows_per_cpu_s / 1000:.0f}k a CPU-second", share, case.bar) if part)
        yield Figure(case.name, f"{rates.rows_per_s / 1000:.0f}k rows/s", remark)


def to_noop(frame: Any) -> None:
    frame.write.format("noop").mode("overwrite").save()


# --- offline


def fill_store(directory: Path, messages: int = MESSAGES, body: bytes = BODY) -> Path:
    """Write a store as our broker does, with segments of the default size."""
    store = MessageStore(directory, StoreConfig(segment_bytes=SEGMENT_BYTES, index_enabled=False))
    store.open()
    for first in range(0, messages, GROUP):
        store.append([append_request_of(message(number, body)) for number in range(first, first + GROUP)], NOW_MS + first)
    store.close()
    return directory


def ceiling(columns: str) -> str:
    return f"synthetic Arrow → noop, {columns}"


def ceiling_cases(spark: Any, home: Path, store: Path) -> list[Case]:
    cases = []
    for name, options in COLUMNS.items():
        made = synthetic_frame(spark, home, store, options)
        cases.append(Case(ceiling(name), partial(to_noop, made), MESSAGES))
    return cases


def offline_cases(spark: Any, store: Path) -> list[Case]:
    cases = []
    for name, options in COLUMNS.items():
        read = spark.read.format("rocketmq-store").options(**options).load(str(store))
        cases.append(Case(f"offline → noop, {name}", partial(to_noop, read), MESSAGES, "bar: 80%", ceiling(name)))
    return cases


def synthetic_frame(spark: Any, home: Path, store: Path, options: Mapping[str, str]) -> Any:
    """Return a frame that repeats the first batches of the offline source: equal columns, sizes and tasks, but no reading."""
    import pyarrow as pa  # type: ignore[import-untyped]  # noqa: PLC0415

    given = {"path": str(store), **options}
    chosen = store_options(given)
    reader = StoreReader(given, chosen.schema)
    parts = reader.partitions()
    batches = reader.read(parts[0])
    first = [next(batches) for _ in range(PREPARED_BATCHES)]
    file = home / f"prepared-{len(chosen.columns)}.arrow"
    with pa.OSFile(str(file), "wb") as opened, pa.ipc.new_file(opened, first[0].schema) as writer:
        for batch in first:
            writer.write_batch(batch)
    given = {"batches": str(file), "columns": ",".join(chosen.columns), "rows": str(MESSAGES), "tasks": str(len(parts))}
    return spark.read.format("synthetic").options(**given).load()


# --- the source, with a broker


@contextmanager
def serving(home: Path, settings: Mapping[str, object], messages: int = MESSAGES, body: bytes = BODY) -> Iterator[Serving]:
    """Run our broker with the messages."""
    fill_store(home / "data" / "store", messages, body)
    with Skyrocket(home, {"mappedFileSizeCommitLog": SEGMENT_BYTES, **settings}) as running:
        with Admin(running.nameserver) as admin:
            admin.topics.create(TOPIC, queues=QUEUES)
        assert running.process is not None
        yield Serving(running.nameserver, running.process.pid)
        running.stop()


def source_cases(spark: Any, home: Path, usual: str) -> list[Case]:
    def source(nameserver: str, options: Mapping[str, str], reader: Any = None) -> Any:
        given = {"nameserver": nameserver, "subscribe": TOPIC, "startingOffsets": "earliest", **options}
        return (reader or spark.read).format("rocketmq").options(**given).load()

    def to_parquet(frame: Any) -> None:
        frame.write.option("compression", "lz4").mode("overwrite").parquet(str(home / "parquet"))

    def stream_to_parquet() -> None:
        for name in ("checkpoint", "streamed"):
            shutil.rmtree(home / name, ignore_errors=True)
        writer = source(usual, {}, spark.readStream).writeStream.format("parquet").option("compression", "lz4")
        writer = writer.option("checkpointLocation", str(home / "checkpoint")).option("path", str(home / "streamed"))
        writer.trigger(availableNow=True).start().awaitTermination()

    cases = []
    for name, options in COLUMNS.items():
        frame = source(usual, options)
        cases.append(Case(f"source → noop, {name}", partial(to_noop, frame), MESSAGES, "bar: 50%", ceiling(name)))
    frame_to_file = source(usual, {})
    cases.append(Case("source → Parquet (lz4)", lambda: to_parquet(frame_to_file), MESSAGES))
    files = {"parquetPath": str(home / "files"), "parquetCompression": "lz4"}
    cases.append(Case("source → Parquet (lz4), written by tasks", lambda: to_noop(source(usual, files)), MESSAGES))
    cases.append(Case("stream → Parquet (lz4)", stream_to_parquet, MESSAGES))
    return cases


# --- Spark's Kafka connector

CONNECTOR = {
    "noop": ["source → noop, all columns but properties"],
    "parquet": ["source → Parquet (lz4)", "source → Parquet (lz4), written by tasks"],
    "stream": ["stream → Parquet (lz4)"],
}


def connector_figures(home: Path, ours: Mapping[str, RowRate]) -> Iterator[Figure]:
    reason = _kafka.missing()
    if reason is not None:
        yield Figure("Spark's Kafka connector", "–", f"not measured: {reason}")
        return
    home.mkdir()
    best: dict[str, RowRate] = {}
    for result in _spark_kafka.run_job(home, [BODY], MESSAGES, ROUNDS + 1):
        now = RowRate(result["rows_per_s"], result["rows_per_cpu_s"])
        so_far = best.get(result["case"], now)
        best[result["case"]] = RowRate(*map(max, so_far, now))
    for case, several in CONNECTOR.items():
        rates = best[case]
        remark = f"{rates.rows_per_cpu_s / 1000:.0f}k a CPU-second"
        for beside in several:
            mine = ours[beside]
            shares = (mine.rows_per_s / rates.rows_per_s, mine.rows_per_cpu_s / rates.rows_per_cpu_s)
            remark += f"; {beside}: {shares[0]:.2f} of its rows/s, {shares[1]:.2f} of its rows a CPU-second"
        yield Figure(f"Kafka connector → {case}", f"{rates.rows_per_s / 1000:.0f}k rows/s", remark)
