"""Clocks of a broker whose machine's clock may be set forward or back while it runs.

    machine clock    12:00 ─── 12:10 │ set back by an hour  11:10 ─── 11:20 ───────────── 21:10 ─── 21:20
    SteadyClock      12:00 ─── 12:10 ───────────────────────12:10 ─── 12:19 ───────────── 21:10 ─── 21:20

`SteadyClock` stamps messages, and every schedule of the broker goes by it. It never goes back: after the machine's clock was set
back it goes on, a tenth slower than time passes, until the machine's clock has caught up. So a delay of ten seconds takes ten to
eleven, whatever happens to the clock, and stamps and delays agree with each other. When the machine's clock is set forward, it
follows at once.

`RetentionClock` says how old files are. It does not follow a clock that was set forward at once, but twice as fast as time
passes: a clock that is wrong by a day for an hour makes messages expire an hour early, and not a day.

Times that a producer names (TIMER_DELIVER_MS) go by the machine's clock itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from skyrocket.clock import machine_ms, monotonic_ms

Clock = Callable[[], int]  # in ms


class SteadyClock:
    def __init__(self, machine: Clock, monotonic: Clock) -> None:
        self._machine = machine
        self._monotonic = monotonic
        self._tenths = 10 * machine()  # of a millisecond: the last time
        self._last_ms = monotonic()

    def __call__(self) -> int:
        now_ms = self._monotonic()
        at_least = self._tenths + 9 * (now_ms - self._last_ms)
        machine_ms = self._machine()
        self._last_ms = now_ms
        if at_least > 10 * machine_ms:
            self._tenths = at_least
            return at_least // 10
        self._tenths = 10 * machine_ms  # nearly always
        return machine_ms

    def advance_to(self, time_ms: int) -> None:
        """Go on from `time_ms`, if that is later: the store has messages with that stamp."""
        self._tenths = max(self._tenths, 10 * time_ms)


class RetentionClock:
    def __init__(self, clock: Clock, monotonic: Clock) -> None:
        self._clock = clock
        self._monotonic = monotonic
        self._time_ms = clock()
        self._last_ms = monotonic()

    def __call__(self) -> int:
        now_ms = self._monotonic()
        self._time_ms = min(self._clock(), self._time_ms + 2 * (now_ms - self._last_ms))
        self._last_ms = now_ms
        return self._time_ms


@dataclass(frozen=True, slots=True)
class BrokerClocks:
    machine_ms: Clock
    wall_ms: Clock
    retention_ms: Clock
    advance_to: Callable[[int], None]

    @classmethod
    def of(cls, machine: Clock, monotonic: Clock) -> Self:
        steady = SteadyClock(machine, monotonic)
        return cls(machine, steady.__call__, RetentionClock(steady, monotonic), steady.advance_to)

    @classmethod
    def real(cls) -> Self:
        return cls.of(machine_ms, monotonic_ms)

    @classmethod
    def simulated(cls, clock: Clock) -> Self:
        """Use one clock for everything. It is the test's business how it moves."""
        return cls(clock, clock, clock, lambda _time_ms: None)
