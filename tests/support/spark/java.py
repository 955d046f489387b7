"""Java's options for the Sparks that tests start: JVMs that live for a minute on two cores.

The quick compiler alone and the serial collector cost the least in a minute. A class-data archive halves the CPU time of a start:
Spark loads some 17,000 classes. The first test that needs a Spark makes the archive in about 30 s, by running a few queries in a
JVM that writes the archive when it ends. They read from our broker and write to it, as most tests do. The archive stays in
.cache. A JVM that cannot use it starts without it.

    python -m tests.support.spark.java ARCHIVE     make the archive
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark

from skyrocket.spark.session.java import provide_java
from tests.support.apache.packages import ROOT, only_one

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto -XX:-UsePerfData"
OPTIONS = "SKYROCKET_TEST_SPARK_JAVA"  # the environment variable in which processes that tests start find Java's options
MAKE_S_MAX = 600.0


def java_options() -> str:
    """Java's options with the archive, which the first caller makes; also in os.environ[OPTIONS] from then on."""
    if OPTIONS not in os.environ:
        path = _archive()
        os.environ[OPTIONS] = QUICK if path is None else f"{QUICK} -XX:SharedArchiveFile={path}"
    return os.environ[OPTIONS]


def _archive() -> Path | None:
    environ = dict(os.environ)
    provide_java(environ)
    java = Path(environ["JAVA_HOME"], "bin", "java") if "JAVA_HOME" in environ else Path("java")
    version = subprocess.run([java, "-version"], capture_output=True, check=True).stderr
    made_by = Path(__file__).read_bytes()
    digest = hashlib.sha256(version + pyspark.__file__.encode() + pyspark.__version__.encode() + made_by).hexdigest()[:16]
    folder = ROOT / ".cache" / f"spark-{digest}"
    made, log = folder / "classes.jsa", folder / "log"
    with only_one("spark"):
        if not log.exists():  # the log comes last, whether there is an archive or not
            folder.mkdir(parents=True, exist_ok=True)
            made.unlink(missing_ok=True)
            with (folder / "draft").open("wb") as draft:
                command = [sys.executable, "-m", "tests.support.spark.java", str(made)]
                try:
                    subprocess.run(command, stdout=draft, stderr=draft, cwd=ROOT, timeout=MAKE_S_MAX, check=True)
                except subprocess.SubprocessError:
                    made.unlink(missing_ok=True)
            (folder / "draft").rename(log)
    return made if made.exists() else None


def make(archive: str) -> None:
    """Run queries of the kinds that tests run, in a JVM that writes the classes it loaded to `archive` when it ends."""
    import skyrocket.spark
    from tests.support.processes.skyrocket_process import Skyrocket

    with tempfile.TemporaryDirectory() as folder, Skyrocket(Path(folder, "broker")) as broker:
        config = {
            "spark.driver.memory": "1g",
            "spark.driver.extraJavaOptions": f"{QUICK} -XX:ArchiveClassesAtExit={archive}",
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.warehouse.dir": f"{folder}/warehouse",
        }
        spark = skyrocket.spark.session("archive", "local[2]", config)
        spark.range(100).selectExpr("id", "id % 3 as k").groupBy("k").count().collect()
        spark.range(100).write.parquet(f"{folder}/rows")
        spark.read.parquet(f"{folder}/rows").createOrReplaceTempView("rows")
        spark.sql("select count(*) from rows where id > 3").collect()
        ticks = spark.readStream.format("rate").load().writeStream.format("parquet").trigger(availableNow=True)
        ticks.option("checkpointLocation", f"{folder}/checkpoint").start(f"{folder}/ticks").awaitTermination(60)
        use_broker(spark, broker.nameserver, folder)
        gateway = spark.sparkContext._gateway
        spark.stop()
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(MAKE_S_MAX)


def use_broker(spark: SparkSession, nameserver: str, folder: str) -> None:
    """Write rows to a topic, read them, and stream them to another topic and to Parquet."""
    rows = spark.range(20).selectExpr("cast(concat('body ', id) as binary) as body", "map('key', 'value') as properties")
    own = {"nameserver": nameserver, "subscribe": "rows", "startingOffsets": "earliest"}
    for delivery in ({}, {"delivery": "exactly-once", "writeId": "archive"}):
        rows.write.format("rocketmq").options(nameserver=nameserver, topic="rows", **delivery).mode("append").save()
    spark.read.format("rocketmq").options(**own).load().select("body", "queueOffset").collect()
    stream = spark.readStream.format("rocketmq").options(**own, commitGroup="archive").load()
    onto = stream.select("body").writeStream.format("rocketmq").options(nameserver=nameserver, topic="others")
    files = stream.writeStream.format("parquet").option("path", f"{folder}/messages")
    for name, writer in {"onto": onto, "files": files}.items():
        query = writer.trigger(availableNow=True).option("checkpointLocation", f"{folder}/{name}").start()
        query.awaitTermination(60)
        query.stop()


if __name__ == "__main__":
    make(sys.argv[1])
