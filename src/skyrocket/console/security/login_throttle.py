"""How often an address may try passwords. Pure: the time is given."""

from __future__ import annotations

from collections import OrderedDict

from skyrocket.console.limits import LOGIN_FAILURES_MAX, LOGIN_PAUSE_MS, THROTTLED_ADDRESSES_MAX


class LoginThrottle:
    """After five failures an address waits a minute, whether its next password is right or not.

    It remembers a bounded number of addresses; the ones that failed longest ago make room.
    """

    def __init__(self) -> None:
        self._failures: OrderedDict[str, tuple[int, int]] = OrderedDict()  # address -> count, time of the last one

    def wait_ms(self, address: str, now_ms: int) -> int:
        """Return how long this address has to wait before it may try a password; 0: not at all."""
        count, failed_ms = self._failures.get(address, (0, 0))
        return max(0, failed_ms + LOGIN_PAUSE_MS - now_ms) if count >= LOGIN_FAILURES_MAX else 0

    def note_failure(self, address: str, now_ms: int) -> None:
        count, failed_ms = self._failures.pop(address, (0, 0))
        is_recent = now_ms - failed_ms < LOGIN_PAUSE_MS
        self._failures[address] = (count + 1 if is_recent else 1, now_ms)
        if len(self._failures) > THROTTLED_ADDRESSES_MAX:
            self._failures.popitem(last=False)

    def note_success(self, address: str) -> None:
        self._failures.pop(address, None)
