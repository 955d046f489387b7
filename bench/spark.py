"""Rows a second, and rows a CPU-second, through Spark: what our sources reach beside Spark's own ceiling, in one run.

Cases take turns, round after round, over the same messages (1 KiB bodies, 4 queues): a neighbour on the machine disturbs all of
them. The CPU is that of the driver, its JVM and its Python workers. A case's figure is its best round.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from bench import Figure
from bench._process_tree import Spent, TreeWatch
from bench._synthetic import Synthetic
from bench.store_arrow import GROUP, NOW_MS, message
from skyrocket.spark.offline.store_options import store_options
from skyrocket.spark.offline.store_reader import StoreReader
from skyrocket.store.config import StoreConfig
from skyrocket.store.message import unplaced
from skyrocket.store.message_store import MessageStore

MESSAGES = 400_000
ROUNDS = 5
TASKS = 8  # of the synthetic source: about as many as the offline one has
SEGMENT_BYTES = 1024 * 1024 * 1024
PREPARED_BATCHES = 8
THREE_COLUMNS = "queueId,queueOffset,storeTimestamp"
CONFIG = {"spark.driver.memory": "2g", "spark.ui.enabled": "false"}


class Case(NamedTuple):
    name: str
    run: Callable[[], None]
    rows: int
    bar: str = ""
    beside: str = ""  # the name of the case that it is told as a share of


class Measured(NamedTuple):
    rows_per_s: float
    rows_per_cpu_s: float


def figures() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory(prefix="skyrocket-bench-") as home, spark_session() as spark:
        store = filled_store(Path(home) / "store")
        cases = offline_cases(spark, Path(home), store)
        yield from told(cases, taken_in_turns(cases))


@contextmanager
def spark_session() -> Iterator[Any]:
    import skyrocket.spark  # noqa: PLC0415 — Spark's packages are large, and other benchmarks do without

    spark = skyrocket.spark.session("bench", "local[2]", CONFIG)
    spark.dataSource.register(Synthetic)
    try:
        yield spark
    finally:
        spark.stop()


def taken_in_turns(cases: Sequence[Case]) -> dict[str, Measured]:
    """The best of several rounds; the first, in which Java compiles and workers start, does not count."""
    best: dict[str, Measured] = {}
    for number in range(ROUNDS + 1):
        for case in cases:
            watch = TreeWatch()
            case.run()
            if number:
                best[case.name] = _better(best.get(case.name), watch.spent(), case.rows)
    return best


def _better(so_far: Measured | None, spent: Spent, rows: int) -> Measured:
    now = Measured(rows / spent.clock_s, rows / spent.cpu_s)
    return now if so_far is None else Measured(*map(max, so_far, now))


def told(cases: Sequence[Case], measured: Mapping[str, Measured]) -> Iterator[Figure]:
    for case in cases:
        rates = measured[case.name]
        share = f"{rates.rows_per_s / measured[case.beside].rows_per_s:.0%} of {case.beside}" if case.beside else ""
        remark = ", ".join(part for part in (f"{rates.rows_per_cpu_s / 1000:.0f}k a CPU-second", share, case.bar) if part)
        yield Figure(case.name, f"{rates.rows_per_s / 1000:.0f}k rows/s", remark)


def to_noop(frame: Any) -> None:
    frame.write.format("noop").mode("overwrite").save()


# --- offline


def filled_store(directory: Path, messages: int = MESSAGES) -> Path:
    """As our broker leaves it. Its segments are those of a broker in use."""
    store = MessageStore(directory, StoreConfig(segment_bytes=SEGMENT_BYTES, index_enabled=False))
    store.open()
    for first in range(0, messages, GROUP):
        store.append([unplaced(message(number)) for number in range(first, first + GROUP)], NOW_MS + first)
    store.close()
    return directory


def offline_cases(spark: Any, home: Path, store: Path) -> list[Case]:
    cases = []
    for name, options in (
        ("all columns but properties", {}),
        ("all columns", {"includeProperties": "true"}),
        ("three columns, no body", {"columns": THREE_COLUMNS}),
    ):
        synthetic, offline = f"synthetic Arrow → noop, {name}", f"offline → noop, {name}"
        made = synthetic_frame(spark, home, store, options)
        read = spark.read.format("rocketmq-store").options(**options).load(str(store))
        cases += [
            Case(synthetic, lambda made=made: to_noop(made), MESSAGES),
            Case(offline, lambda read=read: to_noop(read), MESSAGES, "bar: 80%", synthetic),
        ]
    return cases


def synthetic_frame(spark: Any, home: Path, store: Path, options: Mapping[str, str]) -> Any:
    """The first batches that the offline source gives: the same columns, batch sizes and contents, without the reading."""
    import pyarrow as pa  # noqa: PLC0415

    given = {"path": str(store), **options}
    chosen = store_options(given)
    reader = StoreReader(given, chosen.schema)
    batches = reader.read(reader.partitions()[0])
    first = [next(batches) for _ in range(PREPARED_BATCHES)]
    file = home / f"prepared-{len(chosen.columns)}.arrow"
    with pa.OSFile(str(file), "wb") as opened, pa.ipc.new_file(opened, first[0].schema) as writer:
        for batch in first:
            writer.write_batch(batch)
    told = {"batches": str(file), "columns": ",".join(chosen.columns), "rows": str(MESSAGES), "tasks": str(TASKS)}
    return spark.read.format("synthetic").options(**told).load()
