"""A benchmark of `python -m bench` as part of the whole run: its rows go to the record, as far as they come within a time limit.

`python -m bench.suite.parts MODULE` prints each figure of a module as a line of JSON, once it is measured. It is a process of its
own, with its servers as children, so that a benchmark that hangs can be ended with all of them.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress

import msgspec

from bench.suite.generator import ROOT
from bench.suite.record import Row

GROWTH = "bench.growth"
GROWTH_S_MAX = 240.0


def has_part(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def measure_part(module: str, seconds_max: float) -> tuple[list[Row], str]:
    """Return the rows of a benchmark, and why it did not end well; nothing when it did."""
    command = [sys.executable, "-m", "bench.suite.parts", module]
    where = os.environ.get("SKYROCKET_BENCH_DIR")
    with (
        tempfile.TemporaryDirectory(prefix="skyrocket-bench-", dir=where, ignore_cleanup_errors=True) as home,
        subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=ROOT,
            env={**os.environ, "TMPDIR": home},  # what it leaves behind when it is ended goes with this folder
            start_new_session=True,
        ) as process,
    ):
        assert process.stdout is not None
        assert process.stderr is not None
        timer = threading.Timer(seconds_max, _end, [process.pid])
        started_s = time.monotonic()
        timer.start()
        try:
            rows = [msgspec.json.decode(line, type=Row) for line in process.stdout if line.startswith(b"{")]
            errors = process.stderr.read().decode(errors="replace").strip().splitlines()
            code = process.wait()
        finally:
            timer.cancel()
            _end(process.pid)
    if time.monotonic() - started_s >= seconds_max:
        return rows, f"{module} was ended after {seconds_max:.0f} s"
    return rows, f"{module} failed: {errors[-1] if errors else code}" if code else ""


def _end(group: int) -> None:
    """End a process and everything it has started."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def main(module: str) -> None:
    for figure in importlib.import_module(module).figures():
        print(msgspec.json.encode(Row(figure.name, figure.value, figure.remark)).decode(), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
