"""The retry policy of a send: whether a failed attempt is repeated, and after which pause. Pure.

After a failure the next attempt goes
- to another broker, when the topic has one and the caller did not fix the queue;
- else to the same queue. A broker that is unreachable is retried until the deadline, with growing pauses and without counting: it
  stored nothing, so a retry cannot store the message twice;
- in any case again, until the deadline and without counting, when a broker answers SYSTEM_BUSY: it stored nothing, and
  `BackPressure` says when to try;
- nowhere, when every broker would answer alike (message too large, unknown code), or when the only broker answers NO_PERMISSION.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from skyrocket.client.errors import BrokerError, ClientError, DisconnectedError, TimedOutError, UnreachableError
from skyrocket.protocol.responses import ResponseCode

RETRIED_CODES: Final = frozenset(
    {
        *(ResponseCode.TOPIC_NOT_EXIST, ResponseCode.SERVICE_NOT_AVAILABLE, ResponseCode.SYSTEM_ERROR, ResponseCode.SYSTEM_BUSY),
        *(ResponseCode.NO_PERMISSION, ResponseCode.NO_BUYER_ID, ResponseCode.NOT_IN_CURRENT_UNIT, ResponseCode.GO_AWAY),
    }
)
"""Codes after which another broker, or the same one a moment later, may accept the message. Apache's list."""

_NO_PERMISSION: Final = int(ResponseCode.NO_PERMISSION)
FIRST_PAUSE_MS: Final = 50  # before the same broker is tried again after a refusal or a failed connection; doubled each time
PAUSE_MS_MAX: Final = 1_000


@dataclass(slots=True)
class RetryPolicy:
    """The retries of one send."""

    retries_max: int  # attempts beyond the first
    used: int = 0
    _pauses: int = 0

    @property
    def is_last(self) -> bool:
        """Whether the next attempt is the last one."""
        return self.used >= self.retries_max

    def pause_ms(self, error: ClientError, *, is_alone: bool) -> int | None:
        """Return the pause before the next attempt; None: give up. `is_alone`: there is no other broker to try."""
        if isinstance(error, BrokerError) and (error.code not in RETRIED_CODES or (is_alone and error.code == _NO_PERMISSION)):
            return None
        if is_busy(error):
            return 0
        if not (is_alone and isinstance(error, UnreachableError)):
            self.used += 1
            if self.used > self.retries_max:
                return None
        if not is_alone or isinstance(error, DisconnectedError | TimedOutError):
            return 0
        self._pauses += 1
        return min(PAUSE_MS_MAX, FIRST_PAUSE_MS << min(self._pauses - 1, 10))


def is_busy(error: ClientError) -> bool:
    """Whether the broker stored nothing, because it has too much to do, and may accept the message a moment later."""
    return isinstance(error, BrokerError) and error.code == ResponseCode.SYSTEM_BUSY
