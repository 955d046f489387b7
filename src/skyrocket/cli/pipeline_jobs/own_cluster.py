"""A nameserver and a broker of the job's own: `skyrocket run` in a process, on free ports, over a temporary folder."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from skyrocket.cli.local_cluster.supervisor import die_with_parent
from skyrocket.pipelines.errors import PipelineError

STOP_S_MAX: Final = 60.0
_READY: Final = re.compile(r"^skyrocket is ready .*?: nameserver (\S+),")


@contextmanager
def run_own_cluster() -> Iterator[str]:
    """Start a nameserver and a broker, and yield the nameserver's address. Both, and their messages, are gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="skyrocket-cluster-") as folder:
        log_path = Path(folder) / "cluster.log"
        with log_path.open("wb") as log:
            process = subprocess.Popen(  # noqa: S603 — this package, with our own arguments
                [sys.executable, "-m", "skyrocket", "run", "--data", f"{folder}/data", "--namesrv-port", "0", "--port", "0"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,  # Ctrl-C reaches the job alone, which stops the cluster
                preexec_fn=die_with_parent if sys.platform == "linux" else None,  # noqa: PLW1509 — a system call only
            )
        try:
            yield _wait_until_ready(process, log_path)
        finally:
            process.terminate()
            try:
                process.wait(STOP_S_MAX)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            assert process.stdout is not None
            process.stdout.close()


def _wait_until_ready(process: subprocess.Popen[str], log_path: Path) -> str:
    assert process.stdout is not None
    for line in process.stdout:
        found = _READY.match(line)
        if found is not None:
            return found[1]
    said = log_path.read_text(errors="replace").strip().splitlines()
    raise PipelineError(f"The demo's own broker did not start: {said[-1] if said else 'it said nothing'}")
