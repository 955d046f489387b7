"""What starting Python for a purpose costs: CPU time, and modules imported."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

RUNS = 5  # each counts by its fastest, since a busy machine makes a run slower and never faster


def times_as_much(arguments: list[str], than: list[str], cache: Path) -> float:
    """The CPU time of `python arguments…` as a multiple of that of `python than…`. Both have their bytecode in `cache`."""
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(cache)}
    runs = [(_cpu_s(arguments, environment), _cpu_s(than, environment)) for _ in range(RUNS + 1)]
    compared, baseline = zip(*runs[1:], strict=True)  # the first ones write the bytecode
    return min(compared) / min(baseline)


def _cpu_s(arguments: list[str], environment: dict[str, str]) -> float:
    with subprocess.Popen([sys.executable, *arguments], env=environment, stdout=subprocess.DEVNULL) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, arguments
    return used.ru_utime + used.ru_stime


def imported_by(script: str) -> set[str]:
    """The modules in `sys.modules` once a script has run."""
    code = f"{script}\nimport sys\nprint(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    return set(done.stderr.split())
