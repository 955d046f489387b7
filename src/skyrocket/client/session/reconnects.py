"""Backoff of reconnects: an unreachable address is tried again soon, then with growing pauses. Pure, but for the random numbers.

Each pause is between a half and the whole of its nominal length. Otherwise all clients that lost a broker at the same moment
would come back at the same moments, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from skyrocket.chance import CHANCE

_ADDRESSES_MAX = 10_000  # whose failures are kept; beyond, the oldest entry is dropped


class _AddressFailures(NamedTuple):
    times: int
    not_before_ms: int


class ReconnectBackoff:
    """The failed connection attempts of each address. The nominal pause doubles from `first_ms` up to `most_ms`."""

    def __init__(self, first_ms: int, most_ms: int, draw: Callable[[], float] = CHANCE.random) -> None:
        """`draw` returns random numbers from 0 to 1."""
        self._first_ms = first_ms
        self._most_ms = most_ms
        self._draw = draw
        self._failed: dict[str, _AddressFailures] = {}

    def wait_ms(self, address: str, now_ms: int) -> int:
        """Return how long to wait before the next attempt."""
        failures = self._failed.get(address)
        return 0 if failures is None else max(0, failures.not_before_ms - now_ms)

    def record_failure(self, address: str, now_ms: int) -> None:
        """Note a failed attempt. Every caller that waited for the attempt reports it; it counts once."""
        times, not_before_ms = self._failed.pop(address, _AddressFailures(0, now_ms))
        if now_ms >= not_before_ms:
            times += 1
            pause_ms = min(self._most_ms, self._first_ms << min(times - 1, 20))
            not_before_ms = now_ms + pause_ms - int(pause_ms / 2 * self._draw())
        self._failed[address] = _AddressFailures(times, not_before_ms)
        if len(self._failed) > _ADDRESSES_MAX:
            del self._failed[next(iter(self._failed))]

    def record_success(self, address: str) -> None:
        self._failed.pop(address, None)
