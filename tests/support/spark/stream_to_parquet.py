"""A job to be killed: streams a topic into Parquet, and restarts the stream after a failure, as a supervisor does.

python -m tests.support.spark.stream_to_parquet '{"options": {…}, "out": …, "checkpoint": …}'
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import skyrocket.spark
from tests.support.spark.crash import FINISH, READY
from tests.support.spark.java import java_options

FAILURES_MAX = 100
CONFIG = {
    "spark.driver.memory": "512m",
    "spark.driver.extraJavaOptions": java_options(),
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
}


def say(word: str) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


def count_failure(failures: int, query: Any) -> int:
    say(f"Failed: {query.exception()}".splitlines()[0])
    if failures == FAILURES_MAX:
        raise SystemExit("The query fails too often.")
    return failures + 1


def to_parquet(frame: Any, arguments: dict[str, Any]) -> Any:
    return frame.writeStream.format("parquet").option("path", arguments["out"])


def main(arguments: dict[str, Any], writer_of: Callable[[Any, dict[str, Any]], Any] = to_parquet) -> None:
    finish = threading.Event()

    def listen() -> None:
        for line in sys.stdin:
            if line.strip() == FINISH:
                finish.set()

    threading.Thread(target=listen, daemon=True).start()
    spark = skyrocket.spark.session("to-parquet", "local[2,4]", CONFIG)  # a task may fail three times

    def start_query(*, available_now: bool = False) -> Any:
        frame = spark.readStream.format("rocketmq").options(**arguments["options"]).load()
        writer = writer_of(frame, arguments).option("checkpointLocation", arguments["checkpoint"])
        return (writer.trigger(availableNow=True) if available_now else writer).start()

    query, failures, is_ready = start_query(), 0, False
    while not finish.is_set():
        if not is_ready and query.lastProgress is not None:
            say(READY)
            is_ready = True
        if not query.isActive:
            failures = count_failure(failures, query)
            query = start_query()
        time.sleep(0.05)
    query.stop()
    query = start_query(available_now=True)
    while query.isActive or query.exception() is not None:
        if not query.isActive:
            failures = count_failure(failures, query)
            query = start_query(available_now=True)
        time.sleep(0.05)
    spark.stop()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
