"""When an address that could not be reached is tried again: soon at first, then less and less often. Pure."""

from __future__ import annotations

from typing import NamedTuple

_ADDRESSES_MAX = 10_000  # with a failure remembered; beyond, the oldest is forgotten


class _Failures(NamedTuple):
    times: int
    not_before_ms: int


class Reconnects:
    def __init__(self, first_ms: int, most_ms: int) -> None:
        self._first_ms = first_ms
        self._most_ms = most_ms
        self._failed: dict[str, _Failures] = {}

    def wait_ms(self, address: str, now_ms: int) -> int:
        """How long to wait before the next attempt."""
        failures = self._failed.get(address)
        return 0 if failures is None else max(0, failures.not_before_ms - now_ms)

    def failed(self, address: str, now_ms: int) -> None:
        """Told by everyone who waited for the same attempt; it counts once."""
        times, not_before_ms = self._failed.pop(address, _Failures(0, now_ms))
        if now_ms >= not_before_ms:
            times += 1
            not_before_ms = now_ms + min(self._most_ms, self._first_ms << min(times - 1, 20))
        self._failed[address] = _Failures(times, not_before_ms)
        if len(self._failed) > _ADDRESSES_MAX:
            del self._failed[next(iter(self._failed))]

    def connected(self, address: str) -> None:
        self._failed.pop(address, None)
