"""A machine's two clocks that only the test moves: the wall clock, which can jump, and the monotonic clock, which cannot."""

from __future__ import annotations

from collections.abc import Callable

BEGIN_MS = 1_700_000_000_000
SECOND_MS = 1_000
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS

# What is done to the clock, one after the other.
JUMPS: dict[str, tuple[int, ...]] = {
    "none": (),
    "an hour back": (-HOUR_MS,),
    "an hour forward": (HOUR_MS,),
    "a day back": (-DAY_MS,),
    "a day forward": (DAY_MS,),
    "a day forward and back": (DAY_MS, -DAY_MS),
    "a day back and forward": (-DAY_MS, DAY_MS),
}


class JumpingClock:
    def __init__(self, machine_ms: int = BEGIN_MS) -> None:
        self._machine_ms = machine_ms
        self._monotonic_ms = 5_000

    def machine(self) -> int:
        return self._machine_ms

    def monotonic(self) -> int:
        return self._monotonic_ms

    def jump(self, by_ms: int) -> None:
        """Set the machine's clock forward or back."""
        self._machine_ms += by_ms

    def pass_ms(self, span_ms: int) -> None:
        """Let time pass."""
        self._machine_ms += span_ms
        self._monotonic_ms += span_ms

    def elapsed(self) -> Callable[[], int]:
        """Return a function that returns how much time has passed since this call."""
        began_ms = self._monotonic_ms
        return lambda: self._monotonic_ms - began_ms
