"""Registration of the sources: by Spark's own search, by `register`, and with the package sent to workers."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from skyrocket.spark import register
from skyrocket.spark.registration import zip_package
from tests.spark.conftest import config_with_archive
from tests.support.spark.processes import python_without_skyrocket
from tests.support.stores.sample_stores import sample_store

ROOT = Path(__file__).resolve().parents[2]
PLAIN_SESSION = """
import sys
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[1]").config("spark.log.level", "ERROR")
for word in sys.argv[2:]:
    builder = builder.config(*word.split("=", 1))
spark = builder.getOrCreate()
print("rows", spark.read.format("rocketmq-store").load(sys.argv[1]).count())
try:
    spark.read.format("rocketmq").option("subscribed", "orders").load()
except Exception as error:
    print("error", str(error))
assert "skyrocket" not in sys.modules, "nothing has imported the package"
"""


def test_plain_session_finds_both_sources(tmp_path: Path):
    store = sample_store(tmp_path / "store", 50)
    script = tmp_path / "plain.py"
    script.write_text(PLAIN_SESSION)
    config = [f"{key}={value}" for key, value in config_with_archive().items()]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1", "JAVA_HOME": java_home()}
    done = subprocess.run(
        [sys.executable, str(script), str(store), *config],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.startswith("rows 46\n")
    assert "Option 'subscribed' does not exist for the source rocketmq. Did you mean 'subscribe'?" in done.stdout


def java_home() -> str:
    """Return the JAVA_HOME that `session` would set."""
    from skyrocket.spark.session.java import provide_java

    environ = dict(os.environ)
    provide_java(environ)
    return environ.get("JAVA_HOME", "")


def test_register_returns_the_users_session(spark: Any, tmp_path: Path):
    own = spark.newSession()
    assert register(own) is own
    assert own.read.format("rocketmq-store").load(str(sample_store(tmp_path / "store", 50))).count() == 46


def test_zipped_package_can_be_imported(tmp_path: Path):
    """test_cluster.py and test_connect.py run jobs with it."""
    program = "import skyrocket.spark.source.batch_reader, skyrocket.spark.offline.store_reader as there; print(there.__file__)"
    environment = {**os.environ, "PYTHONPATH": str(zip_package())}
    python = python_without_skyrocket(tmp_path / "python")
    done = subprocess.run([python, "-c", program], env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert done.stdout.startswith(str(zip_package())), done.stderr[-2000:]


def test_wheel_has_the_modules_that_spark_searches(tmp_path: Path):
    pytest.importorskip("hatchling")
    built = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert built.returncode == 0, built.stderr[-2000:]
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {
        "pyspark_rocketmq/__init__.py",
        "pyspark_rocketmq_store/__init__.py",
        "skyrocket/spark/session/log4j2.properties",
    } <= names
