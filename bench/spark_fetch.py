"""Cost of what a Spark task does, without Spark: fetch a queue from our broker, decode it into Arrow, and write a Parquet file.

CPU time of this process and of the broker for each row of 1 KiB, of four queues whose messages alternate in the log. The broker
has not written them itself, so it checks them (`store/read/queue_run.py`). The best of several rounds counts.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from bench import Figure
from bench._process_tree import tree_cpu_s
from bench.spark import QUEUES, TOPIC, Serving, serving
from skyrocket.client.queues import Queue
from skyrocket.client.sync import Admin
from skyrocket.spark.fetch.range_reader import RangeReader
from skyrocket.spark.options.source_options import source_options
from skyrocket.spark.source.parquet_files import ParquetFile
from skyrocket.spark.source.partitions import QueuePartition

Use = Callable[[QueuePartition, Iterator[Any]], int]
"""Uses the rows of a partition, and returns how many there were."""

MESSAGES = 200_000
ROUNDS = 4


class RowCost(NamedTuple):
    task_us: float
    broker_us: float


def figures() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory(prefix="skyrocket-bench-", ignore_cleanup_errors=True) as folder:
        home = Path(folder)
        with serving(home / "broker", {}, MESSAGES) as broker:
            uses: dict[str, Use] = {"fetched": count_rows, "fetched and written to Parquet (lz4)": FileWriter(home / "files")}
            for name, use in uses.items():
                costs = [measure(broker, use) for _ in range(ROUNDS)]
                best = RowCost(*map(min, zip(*costs, strict=True)))
                yield Figure(f"a row {name}: the task", f"{best.task_us:.2f} µs")
                yield Figure(f"a row {name}: the broker", f"{best.broker_us:.2f} µs")


def measure(broker: Serving, use: Use) -> RowCost:
    options = source_options({"nameserver": broker.nameserver, "subscribe": TOPIC, "startingOffsets": "earliest"})
    with Admin(broker.nameserver) as admin:
        (settings,) = admin.topics.get(TOPIC)
    task_s, broker_s, rows = time.process_time(), tree_cpu_s(broker.pid), 0
    for queue_id in range(QUEUES):
        part = QueuePartition(Queue(TOPIC, settings.broker_name, queue_id), 0, MESSAGES // QUEUES)
        rows += use(part, RangeReader(options, part).batches())
    assert rows == MESSAGES, f"{rows} rows of {MESSAGES}"
    return RowCost((time.process_time() - task_s) / rows * 1e6, (tree_cpu_s(broker.pid) - broker_s) / rows * 1e6)


def count_rows(_part: QueuePartition, batches: Iterator[Any]) -> int:
    return sum(batch.num_rows for batch in batches)


class FileWriter:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __call__(self, part: QueuePartition, batches: Iterator[Any]) -> int:
        about = list(ParquetFile(str(self._folder), "lz4", part).write(batches))
        return sum(row for batch in about for row in batch.column("rows").to_pylist())
