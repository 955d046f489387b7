"""The delay before a failed message is delivered again. Pure.

Concurrent consumers: the broker delays the message by a delay level, 3 for the first retry and one more for each further:

    retry      1     2     3    4    5    6    7    8    9   10   11   12    13    14  15  16
    level      3     4     5    6    7    8    9   10   11   12   13   14    15    16  17  18
    delay    10 s  30 s  1 min  2    3    4    5    6    7    8    9   10    20    30 1 h 2 h

As a rule the broker computes the level. This client computes it only when it sends the message to the retry topic itself.

Orderly consumers: the queue itself pauses here, so that no later message overtakes.
"""

from __future__ import annotations

from typing import Final

from skyrocket.client.consumer.limits import ConsumerLimits

FIRST_RETRY_LEVEL: Final = 3
UNLIMITED_RETRIES: Final = 2**31 - 1  # the default of orderly consumers


def retry_delay_level(reconsume_times: int) -> int:
    """Return the delay level of the next retry of a message that was retried `reconsume_times` times before."""
    return FIRST_RETRY_LEVEL + reconsume_times


def suspend_delay_ms(requested_ms: int | None, limits: ConsumerLimits) -> int:
    """Return how long an orderly queue pauses: what the handler requested, else the default, within the limits."""
    delay_ms = limits.suspend_ms if requested_ms is None else requested_ms
    return min(max(delay_ms, limits.suspend_least_ms), limits.suspend_most_ms)
