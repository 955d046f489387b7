"""Creates a Spark session with sensible settings: a Java that exists, this Python in the workers, quiet logs, both sources.

    spark = skyrocket.spark.session()                                        # on this machine
    spark = skyrocket.spark.session("nightly", "spark://master:7077", {"spark.executor.memory": "2g"})
    spark = skyrocket.spark.session(master="sc://host:15002")                # Spark Connect

Settings in `config` and in the environment take precedence; this module sets only what they leave open.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from skyrocket.spark.errors import OptionError
from skyrocket.spark.registration import register
from skyrocket.spark.session.java import provide_java

# Spark would otherwise print a page of Python traceback around the one sentence of an error in a source.
RUNTIME_CONFIG: Final = {"spark.sql.execution.pyspark.udf.hideTraceback.enabled": "true"}
QUIET_CONFIG: Final = {"spark.log.level": "ERROR", "spark.ui.showConsoleProgress": "false", **RUNTIME_CONFIG}


def session(
    app_name: str = "skyrocket",
    master: str | None = None,
    config: Mapping[str, object] | None = None,
    *,
    ship_code: bool = False,
) -> SparkSession:
    """Return the active session, or create one.

    Without a `master`, Spark's own settings decide where it runs; without those, it runs on this machine's cores.
    `ship_code` is for clusters whose workers do not have this package: see `register`.
    """
    wanted = {key: _text(value) for key, value in (config or {}).items()}
    if master is not None:
        wanted["spark.remote" if is_remote(master) else "spark.master"] = master
    active = SparkSession.getActiveSession() or _process_session()
    if active is not None:
        _reconfigure(active, wanted)
        return register(active, ship_code=ship_code)
    remote = wanted.get("spark.remote") or (os.environ.get("SPARK_REMOTE") if "spark.master" not in wanted else None)
    if remote is not None:
        created = _create(app_name, {**RUNTIME_CONFIG, **wanted, "spark.remote": remote})
    else:
        _prepare_environment(wanted)
        created = _create(app_name, {**QUIET_CONFIG, **_logging(os.environ), **wanted})
    return register(created, ship_code=ship_code)


def _process_session() -> SparkSession | None:
    """Return the session of this process if no session is active in this thread.

    Spark's builder would return this session too, but it ignores settings that a running session cannot take, without an error.
    """
    created: SparkSession | None = getattr(SparkSession, "_instantiatedSession", None)
    context = getattr(created, "_sc", None)
    return created if context is not None and getattr(context, "_jsc", None) is not None else None


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def is_remote(master: str) -> bool:
    return master.startswith("sc://")


def is_local(master: str) -> bool:
    return master.startswith("local") and not master.startswith("local-cluster")


def _create(app_name: str, config: Mapping[str, str]) -> SparkSession:
    builder = SparkSession.Builder().appName(app_name)
    for key, value in config.items():
        builder = builder.config(key, value)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)  # nothing here uses pandas
        return builder.getOrCreate()


def _prepare_environment(wanted: Mapping[str, str]) -> None:
    """Set the environment variables that Spark reads once, when its Java process starts."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        return  # spark-submit started this process, and its Java runs already
    if is_local(wanted.get("spark.master") or default_master(os.environ)):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # avoids a host name lookup, and opens no port to others
    provide_java()


def default_master(environ: Mapping[str, str]) -> str:
    """Return the master that Spark uses if neither `session` nor its `config` names one."""
    for defaults in _conf_files(environ, "spark-defaults.conf"):
        for line in defaults.read_text(errors="replace").splitlines():
            key, _, value = line.strip().replace("=", " ").partition(" ")
            if key == "spark.master" and value.strip():
                return value.strip()
    return environ.get("MASTER") or "local[*]"


def _logging(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the log settings of the Java side, unless the user has some. `spark.driver.extraJavaOptions` override them."""
    settings = Path(__file__).with_name("log4j2.properties")
    if _conf_files(environ, "log4j2.*") or not settings.is_file():
        return {}
    return {"spark.driver.defaultJavaOptions": f'"-Dlog4j2.configurationFile={settings.as_uri()}"'}


def _conf_files(environ: Mapping[str, str], pattern: str) -> list[Path]:
    """Return the files of Spark's settings folder that match `pattern`; none without such a folder."""
    home = environ.get("SPARK_HOME")
    folder = environ.get("SPARK_CONF_DIR") or (f"{home}/conf" if home else None)
    return [] if folder is None else sorted(Path(folder).glob(pattern))


def _reconfigure(active: SparkSession, wanted: Mapping[str, str]) -> None:
    """Apply settings to a running session. Raise OptionError for a setting that a running session cannot change."""
    for key, value in {**RUNTIME_CONFIG, **wanted}.items():
        has = active.conf.get(key, None)
        if has == value or (key == "spark.remote" and is_remote(value) and has is None):
            continue
        if key not in RUNTIME_CONFIG and not active.conf.isModifiable(key):
            now = f"has {key}={has}" if has is not None else f"runs without {key}"
            raise OptionError(f"The active session {now} and cannot change it to {value}. Stop the session first.")
        active.conf.set(key, value)
