"""Counts the funnel on Spark: a stream over the sign-ups and the steps that services tell of.

Every look returns the funnel of all messages so far (`complete` mode). Users are counted once in each step: services tell of a
step again when a message comes again. The state has a row for each user and step, of which a demo has a bounded number.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as f

from skyrocket.pipelines.signup.funnel import REGISTERED, UNREADABLE, StepCount

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BODY: Final = "user string, at bigint, late boolean, step string"
LOOK_EVERY: Final = "1 second"
SHUFFLE_PARTITIONS: Final = "2"  # a demo has few rows: more tasks would only take longer
_SHUFFLE: Final = "spark.sql.shuffle.partitions"


def count_steps(messages: DataFrame, minute_s: float) -> DataFrame:
    """Count users by minute and step. `messages` has the columns body, keys and bornTimestamp of both topics."""
    minute_ms = round(minute_s * 1000)
    parsed = messages.select(
        f.from_json(f.col("body").cast("string"), BODY).alias("b"),
        f.col("keys").getItem(0).alias("key"),
        f.unix_millis("bornTimestamp").alias("born"),
    )
    is_readable = f.col("b.user").isNotNull() & f.col("b.at").isNotNull()
    step = f.when(~is_readable, UNREADABLE).when(f.col("b.step") == "", REGISTERED).otherwise(f.col("b.step"))
    at_ms = f.when(is_readable, f.col("b.at")).otherwise(f.col("born"))
    events = parsed.select(
        (at_ms - at_ms % minute_ms).alias("minute"),
        step.alias("step"),
        f.when(is_readable, f.col("b.user")).otherwise(f.col("key")).alias("user"),
        f.coalesce(f.col("b.late"), f.lit(False)).cast("int").alias("late"),
    )
    return (
        events.dropDuplicates(["step", "user"])
        .groupBy("minute", "step")
        .agg(f.count("*").alias("users"), f.sum("late").alias("late"))
    )


class FunnelStream:
    """A running stream, whose counts can be looked at."""

    def __init__(self, spark: SparkSession, cluster: Mapping[str, str], topics: list[str], minute_s: float, name: str) -> None:
        """`name` becomes a temporary table of the session. Names with a hyphen are not possible."""
        self._spark = spark
        self._name = name
        before = spark.conf.get(_SHUFFLE)
        spark.conf.set(_SHUFFLE, SHUFFLE_PARTITIONS)
        try:
            options = {
                **cluster,
                "subscribe": ",".join(topics),
                "startingOffsets": "earliest",
                "columns": "body,keys,bornTimestamp",
            }
            messages = spark.readStream.format("rocketmq").options(**options).load()
            writer = count_steps(messages, minute_s).writeStream.format("memory").queryName(name).outputMode("complete")
            self._query: Any = writer.trigger(processingTime=LOOK_EVERY).start()
        finally:
            spark.conf.set(_SHUFFLE, before or SHUFFLE_PARTITIONS)

    def look(self) -> list[StepCount]:
        """Return the counts as of the last finished batch. Raise Spark's error if the stream has failed."""
        error = self._query.exception()
        if error is not None:
            raise error
        return [StepCount(row.minute, row.step, row.users, row.late) for row in self._spark.table(self._name).collect()]

    def finish(self) -> list[StepCount]:
        """Count all messages that the topics have now, and return the counts."""
        self._query.processAllAvailable()
        return self.look()

    def stop(self) -> None:
        self._query.stop()
        self._spark.catalog.dropTempView(self._name)
