"""What starting Python for a purpose costs: CPU time, and modules imported."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROUNDS_MIN, ROUNDS_MAX = 4, 16


def costs_less_than(limit: float, arguments: list[str], baseline: list[str], cache: Path) -> bool:
    """Whether `python arguments…` takes less than `limit` times the CPU time of `python baseline…`, with bytecode in `cache`.

    Both run by turns, and the fastest run of each counts: a busy machine makes a run slower, and never faster.
    """
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(cache)}
    own_s, baseline_s = [], []
    for _ in range(ROUNDS_MAX):
        own_s.append(_cpu_s(arguments, environment))
        baseline_s.append(_cpu_s(baseline, environment))
        if len(own_s) > ROUNDS_MIN and min(own_s[1:]) < limit * min(baseline_s[1:]):  # the first round writes the bytecode
            return True
    return False


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
