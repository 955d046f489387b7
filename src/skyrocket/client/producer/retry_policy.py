"""Whether a failed send is tried again, and after which pause. Pure.

What is tried after a failure
- at another broker, where the topic has one and the sender left the queue open;
- else at the same queue. A broker that cannot be reached, or says that it is busy, is then tried until the time is over, less and
  less often, without counting: nothing was stored, so nothing can be stored twice;
- not at all where the broker's answer would be the same everywhere (a message too large, an unknown code), or where it does not
  permit it and there is no other broker.
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
"""Another broker may say otherwise, or the same one in a moment. Apache's list."""

_NO_PERMISSION: Final = int(ResponseCode.NO_PERMISSION)
FIRST_PAUSE_MS: Final = 50  # before the same broker is asked again after it said no, or was not there; doubled each time
PAUSE_MS_MAX: Final = 1_000


@dataclass(slots=True)
class Retries:
    """Of one send."""

    most: int  # attempts beyond the first
    used: int = 0
    _pauses: int = 0

    @property
    def is_last(self) -> bool:
        """No other attempt follows the next one."""
        return self.used >= self.most

    def pause_ms(self, error: ClientError, *, is_alone: bool) -> int | None:
        """After this failure, how long to wait before the next attempt; None: give up. `is_alone`: there is no other broker to
        turn to."""
        if isinstance(error, BrokerError) and (error.code not in RETRIED_CODES or (is_alone and error.code == _NO_PERMISSION)):
            return None
        if not (is_alone and _is_harmless(error)):
            self.used += 1
            if self.used > self.most:
                return None
        if not is_alone or isinstance(error, DisconnectedError | TimedOutError):
            return 0
        self._pauses += 1
        return min(PAUSE_MS_MAX, FIRST_PAUSE_MS << min(self._pauses - 1, 10))


def _is_harmless(error: ClientError) -> bool:
    """Nothing was stored, and that may change by itself."""
    return isinstance(error, UnreachableError) or (isinstance(error, BrokerError) and error.code == ResponseCode.SYSTEM_BUSY)
