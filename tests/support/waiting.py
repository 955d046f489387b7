"""How long tests wait for something that has to happen.

The limits are generous: a machine may be busy with other work, and a test that passes does not wait longer for them. Tests wait
for a condition, and look for it often. A test waits for a fixed time only to see that something does not happen.
"""

from __future__ import annotations

import time
from collections.abc import Callable

WAIT_S_MAX = 180.0


def wait_until(
    is_so: Callable[[], bool], what: str | Callable[[], str], limit_s: float = WAIT_S_MAX, *, every_s: float = 0.05
) -> float:
    """Wait until `is_so` holds, and return the seconds that it took. Fails with `what` after `limit_s`."""
    began = time.monotonic()
    while not is_so():
        assert time.monotonic() - began < limit_s, f"{what if isinstance(what, str) else what()}: not within {limit_s} s"
        time.sleep(every_s)
    return time.monotonic() - began
