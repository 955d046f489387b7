"""The clocks of this machine, in whole milliseconds. Each turn of a server's event loop reads them several times."""

from __future__ import annotations

import time

from skyrocket.compiled import twin


def _monotonic_ms() -> int:
    """Return a clock that never jumps. It starts anywhere: only differences mean something."""
    return time.monotonic_ns() // 1_000_000


def _machine_ms() -> int:
    """Return the machine's clock, in ms since 1970. An administrator or NTP may set it forward or back."""
    return time.time_ns() // 1_000_000


monotonic_ms = twin("clock", _monotonic_ms)
machine_ms = twin("clock", _machine_ms)
