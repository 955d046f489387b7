"""Spark's processes on loopback: a standalone cluster (master and workers), a Connect server, and jobs as separate processes.

Each has its own free ports and home directory, and is ended by its process id. Java is found as `skyrocket.spark.session` does.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.find_spark_home import _find_spark_home

from skyrocket.spark.session.java import provide_java
from tests.support.ports import free_port
from tests.support.spark.java import OPTIONS, java_options
from tests.support.waiting import WAIT_S_MAX

START_S_MAX = 600.0
JOB_S_MAX = 600.0
JOBS = Path(__file__).with_name("jobs.py")

_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1


def _die_with_parent() -> None:
    """Make the child end with its parent, so that killed tests leave no process behind."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def environment(home: Path, **more: str) -> dict[str, str]:
    """Return an environment without this process's own Spark settings, as on another machine."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("SPARK_", "PYSPARK_"))}
    provide_java(kept)
    own = {"SPARK_HOME": _find_spark_home(), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_DIRS": str(home / "local")}
    daemons = {
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": java_options(),
        OPTIONS: java_options(),
        "PYSPARK_PYTHON": sys.executable,
    }
    return {**kept, **own, **daemons, **more}


class SparkProcess:
    def __init__(self, name: str, home: Path, words: Sequence[object], given: Mapping[str, str]) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.name, self._log = name, home / f"{name}.log"
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [f"{given['SPARK_HOME']}/bin/{words[0]}", *map(str, words[1:])],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=home,
                env=dict(given),
                preexec_fn=_die_with_parent,  # noqa: PLW1509 one system call: it takes no lock that another thread may hold
            )

    def output(self) -> str:
        return self._log.read_text(errors="replace")

    def wait_for(self, pattern: str) -> None:
        """Wait until the process has printed this text."""
        deadline = time.monotonic() + START_S_MAX
        while not re.search(pattern, self.output()):
            assert self.process.poll() is None, f"{self.name} ended with {self.process.returncode}:\n{self.output()[-3000:]}"
            assert time.monotonic() < deadline, f"{self.name} did not start in {START_S_MAX} s:\n{self.output()[-3000:]}"
            time.sleep(0.1)

    def stop(self) -> None:
        """Terminate the process, so that a worker can end its executors."""
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(WAIT_S_MAX)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(WAIT_S_MAX)


@contextmanager
def standalone_cluster(home: Path, workers: int = 1) -> Iterator[str]:
    """Start a master and workers, and yield the master's address: spark://127.0.0.1:port."""
    port, given = free_port(), environment(home, SPARK_NO_DAEMONIZE="1")
    pages = ["--webui-port", free_port()]
    started = [
        SparkProcess(
            "master", home, ["spark-class", "org.apache.spark.deploy.master.Master", "-h", "127.0.0.1", "-p", port, *pages], given
        )
    ]
    try:
        started[0].wait_for("I have been elected leader")
        address = f"spark://127.0.0.1:{port}"
        for name in ["worker", *(f"worker-{number}" for number in range(2, workers + 1))]:
            sizes = ["-c", "2", "-m", "1g", "-d", home / f"work-{name}", "-h", "127.0.0.1", "--webui-port", free_port()]
            command = ["spark-class", "org.apache.spark.deploy.worker.Worker", *sizes, address]
            started.append(SparkProcess(name, home, command, given))
        for process in started[1:]:
            process.wait_for("Successfully registered with master")
        yield address
    finally:
        for process in reversed(started):
            process.stop()


@contextmanager
def connect_server(home: Path, config: Mapping[str, str], **more: str) -> Iterator[str]:
    """Start a server, and yield its address: sc://127.0.0.1:port."""
    port = free_port()
    every = {"spark.connect.grpc.binding.port": str(port), "spark.connect.grpc.binding.address": "127.0.0.1", **config}
    words = [word for key, value in every.items() for word in ("--conf", f"{key}={value}")]
    service = ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
    given = environment(home, SPARK_DAEMON_MEMORY="1g", **more)  # Spark counts the server among its daemons
    server = SparkProcess("connect", home, ["spark-submit", "--master", "local[2]", *words, *service], given)
    try:
        deadline = time.monotonic() + START_S_MAX
        while not _listens(port):
            assert server.process.poll() is None, f"the server ended:\n{server.output()[-3000:]}"
            assert time.monotonic() < deadline, f"the server did not start:\n{server.output()[-3000:]}"
            time.sleep(0.1)
        yield f"sc://127.0.0.1:{port}"
    finally:
        server.stop()


def _listens(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


def job(home: Path, verb: str, master: str, *, given: Mapping[str, str] | None = None, **arguments: object) -> dict[str, Any]:
    """Run a job of `jobs.py` against this master in a separate process, and return what it prints."""
    home.mkdir(parents=True, exist_ok=True)
    own = {key: value for key, value in environment(home).items() if key not in ("SPARK_HOME", "SPARK_LOCAL_IP", "JAVA_HOME")}
    words = [sys.executable, JOBS, verb, master, json.dumps({key: str(value) for key, value in arguments.items()})]
    done = subprocess.run(
        list(map(str, words)),
        cwd=home,
        env={**own, **(given or {})},
        capture_output=True,
        text=True,
        check=False,
        timeout=JOB_S_MAX,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    printed: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return printed


def python_without_skyrocket(home: Path) -> Path:
    """A Python environment with all packages but this one, like a cluster's worker."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True)
    (packages,) = home.glob("lib/python*/site-packages")
    others = [path for path in sys.path if path.endswith("site-packages")]  # whose own .pth files, and skyrocket, do not count
    (packages / "others.pth").write_text("\n".join(others))
    return home / "bin" / "python"
