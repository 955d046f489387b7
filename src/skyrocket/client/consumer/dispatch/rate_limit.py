"""A rate limit: at most so many messages a second, in even steps. Pure: a token bucket that is told the time.

The bucket holds what a tenth of a second allows, and at least one message. So a consumer that was idle does not begin
with a burst.
"""

from __future__ import annotations

import math
from typing import Final

from skyrocket.client.errors import ConfigurationError

BURST_S: Final = 0.1


class RateLimit:
    """Says how many messages may begin now, or how long to wait for the next."""

    def __init__(self, per_second: float) -> None:
        if not 0 < per_second < math.inf:
            raise ConfigurationError(f"rate_limit must be a positive number of messages a second, not {per_second}.")
        self._per_ms = per_second / 1000
        self._most = max(1.0, per_second * BURST_S)
        self._tokens = self._most
        self._filled_ms = 0.0

    def available(self, now_ms: float) -> int:
        """Return how many messages may begin now."""
        if now_ms > self._filled_ms:
            self._tokens = min(self._most, self._tokens + (now_ms - self._filled_ms) * self._per_ms)
            self._filled_ms = now_ms
        return int(self._tokens)

    def use(self, messages: int) -> None:
        """Note that messages begin."""
        self._tokens -= messages

    def wait_ms(self) -> int:
        """Return how long to wait, counted from the last call of `available`, until one message may begin. At least 1."""
        return max(1, math.ceil((1 - self._tokens) / self._per_ms))
