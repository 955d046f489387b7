"""In a fresh clone, write the bytecode of all tests before several workers import them.

pytest rewrites the asserts of each test file, and keeps the result beside the file for the next run. That takes ten seconds of
CPU time for all files. Workers begin at the same time, so that in a fresh clone each of them would rewrite all files.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
PROCESSES = 2
MISSING_MIN = 50  # fewer files cost less than a process that collects them


def without_bytecode(folder: Path) -> list[Path]:
    """Return the test files below a folder that no pytest has rewritten."""
    files = sorted(folder.rglob("test_*.py"))
    return [file for file in files if not any((file.parent / "__pycache__").glob(f"{file.stem}.*-pytest-*.pyc"))]


def write_bytecode(folder: Path = TESTS, missing_min: int = MISSING_MIN) -> None:
    """Let a few processes collect the files without bytecode, which writes it. What they cannot collect, the workers report."""
    missing = without_bytecode(folder)
    if len(missing) < missing_min or sys.dont_write_bytecode:
        return
    collect = [sys.executable, "-m", "pytest", "--collect-only", "-qq", "-p", "no:cacheprovider"]
    started = [
        subprocess.Popen(
            [*collect, *map(str, missing[first::PROCESSES])], cwd=TESTS.parent, env=_alone(), stdout=subprocess.DEVNULL
        )
        for first in range(PROCESSES)
        if missing[first::PROCESSES]
    ]
    for process in started:
        process.wait()


def _alone() -> dict[str, str]:
    """The environment without what makes pytest a worker of another, or its options."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
