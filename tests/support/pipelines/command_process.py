"""One process that runs commands of `skyrocket` one after another, and keeps its Spark session between them.

A command on a standalone cluster starts a JVM for the driver and one for each worker, which costs more than the job of a test.
Here the first command starts them, and they end with the process:

    with CommandProcess(home, environment) as commands:
        done = commands.run("pipeline", "archive", …)

The process is this module, run as a script: a line of standard input is a command, a line of standard output is its result.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple, NoReturn, Self

from typer.testing import CliRunner

from skyrocket.cli.main import app
from skyrocket.cli.pipeline_jobs.job_command import JobOptions
from tests.support.spark.processes import JOB_S_MAX

ROOT = Path(__file__).resolve().parents[3]
_THIS_MODULE = (sys.executable, "-m", __spec__.name)
_PIECE_BYTES = 64 * 1024


class Done(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


class CommandProcess:
    def __init__(
        self,
        home: Path,
        environment: Mapping[str, str],
        program: Sequence[str] = _THIS_MODULE,
        *,
        limit_s: float = JOB_S_MAX,
    ) -> None:
        """`limit_s` is the limit of each command, and of the process's end. A process beyond it is killed, and its test fails."""
        home.mkdir(parents=True, exist_ok=True)
        self._limit_s = limit_s
        self._log = home / "commands.log"  # of Spark
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                program,
                cwd=home,
                env={**environment, "PYTHONPATH": str(ROOT)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
            )

    @property
    def returncode(self) -> int | None:
        return self._process.poll()

    def run(self, *words: object) -> Done:
        command = list(map(str, words))
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(command).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            self._kill("The process ended")
        return Done(**json.loads(self._read_line(" ".join(["skyrocket", *command]))))

    def _read_line(self, what: str) -> bytes:
        assert self._process.stdout is not None
        descriptor, line = self._process.stdout.fileno(), b""
        until_s = time.monotonic() + self._limit_s
        while not line.endswith(b"\n"):  # a process that hangs may have begun its line
            if not select.select([descriptor], [], [], max(0.0, until_s - time.monotonic()))[0]:
                self._kill(f"{what} has not ended within {self._limit_s} s")
            piece = os.read(descriptor, _PIECE_BYTES)
            if not piece:
                self._kill("The process ended")
            line += piece
        return line

    def _kill(self, reason: str) -> NoReturn:
        self._process.kill()
        self._process.wait()
        raise AssertionError(f"{reason}:\n{self._log.read_text(errors='replace')[-4000:]}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_about: object) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(BrokenPipeError):  # what could not be written to a process that has ended
                pipe.close()
        try:
            self._process.wait(self._limit_s)
        except subprocess.TimeoutExpired:
            self._kill(f"The process has not ended within {self._limit_s} s")


def _keep(session: Callable[[JobOptions, str], Any]) -> Callable[[JobOptions, str], Any]:
    """Wrap `JobOptions.session`: a job that stops its session only leaves it."""

    def kept(options: JobOptions, job: str) -> Any:
        made = session(options, job)
        made.stop = lambda: None
        return made

    return kept


def serve(commands: IO[str], results: IO[str]) -> None:
    JobOptions.session = _keep(JobOptions.session)  # type: ignore[method-assign]
    for line in commands:
        done = CliRunner().invoke(app, json.loads(line))
        results.write(json.dumps(Done(done.exit_code, done.stdout, done.stderr)._asdict()) + "\n")
        results.flush()


if __name__ == "__main__":
    serve(sys.stdin, sys.stdout)
