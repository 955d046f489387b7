"""Jobs as users write them, run by `spark.processes.job`: python jobs.py JOB MASTER ARGUMENTS. They print JSON."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import skyrocket.spark

SMALL = {
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
    "spark.driver.extraJavaOptions": os.environ["SKYROCKET_TEST_SPARK_JAVA"],  # from tests.support.spark.java
    "spark.executor.extraJavaOptions": os.environ["SKYROCKET_TEST_SPARK_JAVA"],
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
}


def session(master: str, given: dict[str, str]) -> Any:
    config = {} if master.startswith("sc://") else SMALL
    return skyrocket.spark.session("job", master, config, ship_code="ship_code" in given)


def sink_and_source(master: str, given: dict[str, str]) -> dict[str, Any]:
    spark = session(master, given)
    rows = spark.range(0, 200, numPartitions=2).selectExpr("cast(concat('body ', id) as binary) as body", "'red' as tags")
    cluster = {"nameserver": given["nameserver"]}
    rows.write.format("rocketmq").options(**cluster, topic=given["topic"]).mode("append").save()
    read = spark.read.format("rocketmq").options(**cluster, subscribe=given["topic"]).load()
    return {
        "bodies": sorted(bytes(row.body).decode() for row in read.select("body").collect()),
        "tags": [row.tags for row in read.select("tags").distinct().collect()],
    }


def stream(master: str, given: dict[str, str]) -> dict[str, Any]:
    """Stream everything from one topic to another."""
    spark = session(master, given)
    cluster = {"nameserver": given["nameserver"]}
    read = spark.readStream.format("rocketmq").options(**cluster, subscribe=given["topic"], startingOffsets="earliest").load()
    query = (
        read.select("body", "tags")
        .writeStream.format("rocketmq")
        .options(**cluster, topic=given["onto"], checkpointLocation=given["checkpoint"])
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    arrived = spark.read.format("rocketmq").options(**cluster, subscribe=given["onto"]).load()
    return {"bodies": sorted(bytes(row.body).decode() for row in arrived.select("body").collect())}


def offline(master: str, given: dict[str, str]) -> dict[str, Any]:
    spark = session(master, given)
    frame = spark.read.format("rocketmq-store").option("maxPartitionBytes", 1024 * 1024).load(given["store"])
    return {"rows": frame.count(), "topics": sorted(row.topic for row in frame.select("topic").distinct().collect())}


def bad_option(master: str, given: dict[str, str]) -> dict[str, Any]:
    try:
        session(master, given).read.format("rocketmq").options(nameserver="127.0.0.1:1", subscribed="x").load().count()
    except Exception as error:  # the test checks its text
        return {"error": str(error)}
    return {}


def each(master: str, given: dict[str, str]) -> dict[str, Any]:
    """Run three jobs, one after another in one application: a start of Spark costs more than all of them."""
    return {job.__name__: job(master, given) for job in (sink_and_source, stream, offline)}


JOBS = {job.__name__: job for job in (sink_and_source, stream, offline, each, bad_option)}

if __name__ == "__main__":
    print(json.dumps(JOBS[sys.argv[1]](sys.argv[2], json.loads(sys.argv[3]))))  # noqa: T201
