"""Streams of Spark over topics, for tests: sends messages, starts queries as users do, and reads the output.

scene = Scene(spark, nameserver, tmp_path)
scene.send("orders", 100)
scene.run_available(subscribe="orders")
assert scene.output() == scene.sent
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import pyarrow.parquet as pq

from skyrocket.client import sync as client
from skyrocket.client.message import Message
from skyrocket.client.queues import Queue

ENOUGH_S = 120.0
COLUMNS = ("topic", "broker", "queueId", "queueOffset", "body")


class Row(NamedTuple):
    topic: str
    broker: str
    queue_id: int
    queue_offset: int
    body: bytes


class Scene:
    def __init__(self, spark: Any, nameserver: str, folder: Path) -> None:
        self.spark = spark
        self.nameserver = nameserver
        self.out, self.checkpoint = folder / "out", folder / "checkpoint"
        self.sent: Counter[Row] = Counter()

    # --- messages

    def create(self, topic: str, queues: int) -> None:
        with client.Admin(self.nameserver) as admin:
            admin.topics.create(topic, queues=queues)

    def send(self, topic: str, messages: int, queue: Queue | None = None, **about: Any) -> list[Row]:
        """Send messages, and remember each with its queue and offset."""
        rows = []
        with client.Producer(self.nameserver) as producer:
            for number in range(messages):
                message = Message(topic, f"{topic} {len(self.sent) + number} {time.monotonic_ns()}".encode(), **about)
                receipt = producer.send(message, queue=queue)
                at = receipt.queue
                rows.append(Row(topic, at.broker_name, at.queue_id, receipt.queue_offset, message.body))
        self.sent.update(rows)
        return rows

    # --- queries

    def options(self, options: Mapping[str, str]) -> dict[str, str]:
        return {"nameserver": self.nameserver, "startingOffsets": "earliest", **options}

    def start(self, *, available_now: bool = False, every: str | None = None, name: str | None = None, **options: str) -> Any:
        """Start a query that writes Parquet."""
        frame = self.spark.readStream.format("rocketmq").options(**self.options(options)).load()
        writer = (
            frame.writeStream.format("parquet").option("path", str(self.out)).option("checkpointLocation", str(self.checkpoint))
        )
        if name is not None:
            writer = writer.queryName(name)
        if available_now:
            writer = writer.trigger(availableNow=True)
        elif every is not None:
            writer = writer.trigger(processingTime=every)
        return writer.start()

    def run_available(self, **options: str) -> Any:
        """Run a query until everything that exists is written. Raise its error."""
        query = self.start(available_now=True, **options)
        assert query.awaitTermination(int(ENOUGH_S)), "the query does not end"
        return query

    # --- output

    def output(self) -> Counter[Row]:
        return read_output(self.out)

    def await_output(self, query: Any, expected: Counter[Row] | None = None) -> None:
        """Wait until exactly these rows are written: by default everything that was sent."""
        wanted = self.sent if expected is None else expected
        self.await_that(query, lambda: sum(self.output().values()) >= sum(wanted.values()))
        assert self.output() == wanted

    def await_that(self, query: Any, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + ENOUGH_S
        while not holds():
            assert query.exception() is None, f"the query ended: {query.exception()}"
            assert time.monotonic() < deadline, f"it did not happen in {ENOUGH_S} s; last: {query.lastProgress}"
            time.sleep(0.1)

    def committed(self, group: str, topic: str) -> dict[int, int | None]:
        with client.Admin(self.nameserver) as admin:
            return {row.queue.queue_id: row.offset for row in admin.offsets.get(group, topic)}


def rows_of_batches(query: Any) -> list[int]:
    """Return the number of rows of each batch that has any."""
    return [progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]]


def read_output(out: Path) -> Counter[Row]:
    """Return the rows of a stream's Parquet files. As in Spark, only files in Spark's own log of them count."""
    rows: Counter[Row] = Counter()
    for path in committed_files(out):
        columns = pq.read_table(path, columns=list(COLUMNS)).to_pydict()
        rows.update(map(Row._make, zip(*(columns[name] for name in COLUMNS), strict=True)))
    return rows


def committed_files(out: Path) -> list[Path]:
    """Return the files in Spark's log. Batches write 0, 1, 2 …, and sometimes one with all before it: 9.compact."""
    logs = {int(path.name.split(".")[0]): path for path in (out / "_spark_metadata").glob("[0-9]*")}
    whole = max((number for number, path in logs.items() if path.suffix == ".compact"), default=-1)
    found: list[Path] = []
    for number in sorted(number for number in logs if number >= whole):
        for line in logs[number].read_text().splitlines()[1:]:  # the first is a version
            found.append(Path(unquote(urlsplit(json.loads(line)["path"]).path)))
    return found
