"""Measure Spark's Kafka connector: `python -m bench._spark_kafka_job SERVER TOPIC ROUNDS HOME JARS CASES`, with Spark 4.0.0.

Prints a line of JSON for each round of each case: the number of rows, rows per second, and rows per CPU second of the driver and
its JVM. The CPU time of the Kafka server does not count, as that of our broker does not count in `bench.spark`.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from bench._process_tree import TreeWatch


def main(server: str, topic: str, rounds: int, home: Path, jars: str, wanted: list[str]) -> None:
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.jars", jars)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "2g")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )

    def reader(stream: bool = False) -> Any:
        start = spark.readStream if stream else spark.read
        return (
            start.format("kafka")
            .option("kafka.bootstrap.servers", server)
            .option("subscribe", topic)
            .option("startingOffsets", "earliest")
            .load()
        )

    def noop() -> None:
        reader().write.format("noop").mode("overwrite").save()

    def parquet() -> None:
        reader().write.option("compression", "lz4").mode("overwrite").parquet(str(home / "parquet"))

    def stream() -> None:
        for name in ("checkpoint", "streamed"):
            shutil.rmtree(home / name, ignore_errors=True)
        query = (
            reader(stream=True)
            .writeStream.format("parquet")
            .option("compression", "lz4")
            .option("checkpointLocation", str(home / "checkpoint"))
            .option("path", str(home / "streamed"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    rows = reader().count()
    cases: dict[str, Callable[[], None]] = {"noop": noop, "parquet": parquet, "stream": stream}
    for number in range(rounds):
        for name in wanted:
            run = cases[name]
            watch = TreeWatch()
            run()
            print(json.dumps({"case": name, "round": number, "rows": rows, **watch.spent().rates(rows)}), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4]), sys.argv[5], sys.argv[6].split(","))
