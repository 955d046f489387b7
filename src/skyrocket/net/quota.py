"""The quota of a client: so many requests and bytes a second (pure).

    charge(rates, requests, size_bytes, now_ms)   add what a read event brought and what was written; return the debt
    debt_ms(now_ms)                               how long until everything so far is paid for; 0 within the quota

Each charge moves a due time forward by what it costs at the client's rate. The due time may lie up to BURST_MS in the past, so a
client that was quiet may send a second's worth at once. A due time in the future is a debt. The server reads nothing from a
connection that made a debt until it is paid, for at most a second. It refuses requests that arrive at a greater debt.

           now - BURST_MS            now              now + DEBT_SERVED_MS_MAX
    ───────────┼──────────────────────┼──────────────────────┼──────────────▶ due
               │ within the quota     │ slowed: not read     │ refused
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

BURST_MS: Final = 1_000
DEBT_SERVED_MS_MAX: Final = 1_000  # Apache's clients wait for three seconds: they get an answer in time, if only a refusal
DEBT_MS_MAX: Final = 60_000  # a debt is forgotten above it, so that no client is locked out for hours


@dataclass(frozen=True, slots=True)
class QuotaRates:
    """What one client may use. 0 stands for no limit."""

    requests_per_second: int = 0
    bytes_per_second: int = 0

    @property
    def are_limited(self) -> bool:
        return self.requests_per_second > 0 or self.bytes_per_second > 0


UNLIMITED: Final = QuotaRates()


class Quota:
    """What one client has used. Requests and bytes have a due time each; the later one counts."""

    __slots__ = ("_bytes_due_ms", "_requests_due_ms")

    def __init__(self) -> None:
        self._requests_due_ms = 0.0
        self._bytes_due_ms = 0.0

    def charge(self, rates: QuotaRates, requests: int, size_bytes: int, now_ms: int) -> int:
        if rates.requests_per_second:
            self._requests_due_ms = _advance(self._requests_due_ms, requests / rates.requests_per_second, now_ms)
        if rates.bytes_per_second:
            self._bytes_due_ms = _advance(self._bytes_due_ms, size_bytes / rates.bytes_per_second, now_ms)
        return self.debt_ms(now_ms)

    def debt_ms(self, now_ms: int) -> int:
        return max(0, int(max(self._requests_due_ms, self._bytes_due_ms) - now_ms))


def _advance(due_ms: float, cost_s: float, now_ms: int) -> float:
    return min(max(due_ms, now_ms - BURST_MS) + 1000 * cost_s, now_ms + DEBT_MS_MAX)
