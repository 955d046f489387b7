"""How long other work has kept tests from a CPU.

A test that holds a limit of wall time adds this time to the limit. On a machine that has nothing else to do, it adds nothing.
"""

from __future__ import annotations

import time
from pathlib import Path

_PRESSURE = Path("/proc/pressure/cpu")  # "some avg10=0.00 avg60=0.00 avg300=0.00 total=1234", the total in microseconds


def read_cpu_wait_s() -> float:
    """Return the seconds since boot in which some task was ready to run and had no CPU.

    Where the kernel does not count them, return all seconds: nothing then says that the machine was idle.
    """
    try:
        return int(_PRESSURE.read_text().split("total=")[1].split()[0]) / 1e6
    except OSError:
        return time.monotonic()
