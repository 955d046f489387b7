"""One process that runs commands of `skyrocket` one after another, and keeps its Spark session between them.

A command on a standalone cluster starts a JVM for the driver and one for each worker, which costs more than the job of a test.
Here the first command starts them, and they end with the process:

    with CommandProcess(home, environment) as commands:
        done = commands.run("pipeline", "archive", …)

The process is this module, run as a script: a line of standard input is a command, a line of standard output is its result.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple, Self

from typer.testing import CliRunner

from skyrocket.cli.main import app
from skyrocket.cli.pipeline_jobs.job_command import JobOptions

ROOT = Path(__file__).resolve().parents[3]


class Done(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


class CommandProcess:
    def __init__(self, home: Path, environment: Mapping[str, str]) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self._log = home / "commands.log"  # of Spark
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __spec__.name],
                cwd=home,
                env={**environment, "PYTHONPATH": str(ROOT)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )

    def run(self, *words: object) -> Done:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(list(map(str, words))) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"the process ended:\n{self._log.read_text(errors='replace')[-4000:]}"
        return Done(**json.loads(line))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_about: object) -> None:
        with self._process:  # closes its pipes and waits for its end
            pass


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
