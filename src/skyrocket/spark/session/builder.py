"""A session that is set up right: quiet, on a Java that is there, with this Python in its workers, and with the sources known.

    spark = skyrocket.spark.session.builder()                                        # on this machine
    spark = skyrocket.spark.session.builder("nightly", "spark://master:7077", {"spark.executor.memory": "2g"})
    spark = skyrocket.spark.session.builder(master="sc://host:15002")                # Spark Connect

What `config` and the environment say is left as they say it; the rest is filled in.
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

# One clear sentence instead of a page: unless told not to, Spark shows the Python trace of an error in a source.
RUNTIME_CONFIG: Final = {"spark.sql.execution.pyspark.udf.hideTraceback.enabled": "true"}
QUIET_CONFIG: Final = {"spark.log.level": "ERROR", "spark.ui.showConsoleProgress": "false", **RUNTIME_CONFIG}


def session(
    app_name: str = "skyrocket",
    master: str | None = None,
    config: Mapping[str, object] | None = None,
    *,
    ship_code: bool = False,
) -> SparkSession:
    """The session that is active, or a new one. Without a `master`, where Spark's own settings say, or on this machine's cores.

    `ship_code` is for clusters whose workers do not have this package: see `register`.
    """
    wanted = {key: _text(value) for key, value in (config or {}).items()}
    if master is not None:
        wanted["spark.remote" if is_remote(master) else "spark.master"] = master
    active = SparkSession.getActiveSession() or _default()
    if active is not None:
        _adopt(active, wanted)
        return register(active, ship_code=ship_code)
    remote = wanted.get("spark.remote") or (os.environ.get("SPARK_REMOTE") if "spark.master" not in wanted else None)
    if remote is not None:
        made = _made(app_name, {**RUNTIME_CONFIG, **wanted, "spark.remote": remote})
    else:
        _set_up(wanted)
        made = _made(app_name, {**QUIET_CONFIG, **_logging(os.environ), **wanted})
    return register(made, ship_code=ship_code)


def _default() -> SparkSession | None:
    """The session of this process, where none is active in this thread. Spark's builder would give it too, but pass over what it
    can no longer become without a word."""
    made: SparkSession | None = getattr(SparkSession, "_instantiatedSession", None)
    context = getattr(made, "_sc", None)
    return made if context is not None and getattr(context, "_jsc", None) is not None else None


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def is_remote(master: str) -> bool:
    return master.startswith("sc://")


def is_local(master: str) -> bool:
    return master.startswith("local") and not master.startswith("local-cluster")


def _made(app_name: str, config: Mapping[str, str]) -> SparkSession:
    builder = SparkSession.Builder().appName(app_name)
    for key, value in config.items():
        builder = builder.config(key, value)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)  # nothing here uses pandas
        return builder.getOrCreate()


def _set_up(wanted: Mapping[str, str]) -> None:
    """What Spark takes from the environment, as it does when its Java process starts and then no more."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        return  # by spark-submit: its Java runs already
    if is_local(wanted.get("spark.master") or default_master(os.environ)):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # no name of this machine to look up, and nothing open to others
    provide_java()


def default_master(environ: Mapping[str, str]) -> str:
    """Where Spark runs when it is not told."""
    for defaults in _conf_files(environ, "spark-defaults.conf"):
        for line in defaults.read_text(errors="replace").splitlines():
            key, _, value = line.strip().replace("=", " ").partition(" ")
            if key == "spark.master" and value.strip():
                return value.strip()
    return environ.get("MASTER") or "local[*]"


def _logging(environ: Mapping[str, str]) -> dict[str, str]:
    """Settings of the Java side's log, where the user has none. `spark.driver.extraJavaOptions` come behind them, and win."""
    settings = Path(__file__).with_name("log4j2.properties")
    if _conf_files(environ, "log4j2.*") or not settings.is_file():
        return {}
    return {"spark.driver.defaultJavaOptions": f'"-Dlog4j2.configurationFile={settings.as_uri()}"'}


def _conf_files(environ: Mapping[str, str], pattern: str) -> list[Path]:
    """Files of these names in the folder of Spark's own settings, where there is one."""
    home = environ.get("SPARK_HOME")
    folder = environ.get("SPARK_CONF_DIR") or (f"{home}/conf" if home else None)
    return [] if folder is None else sorted(Path(folder).glob(pattern))


def _adopt(active: SparkSession, wanted: Mapping[str, str]) -> None:
    """Give a session that runs what is wanted of it. What it can no longer become is an error."""
    for key, value in {**RUNTIME_CONFIG, **wanted}.items():
        has = active.conf.get(key, None)
        if has == value or (key == "spark.remote" and is_remote(value) and has is None):
            continue
        if key not in RUNTIME_CONFIG and not active.conf.isModifiable(key):
            now = f"has {key}={has}" if has is not None else f"runs without {key}"
            raise OptionError(f"The active session {now}, which cannot be changed to {value}; stop it first.")
        active.conf.set(key, value)
