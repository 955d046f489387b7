"""Flow control: a request that waited too long is answered SYSTEM_BUSY instead of being served late.

    refusal(code, waited_ms, now_ms)    why a request is not served; None when it is
    record_served(code, took_ms, now_ms)       the requests of a read event are done and took this long

There are two signs of overload. First, requests wait: each kind of request has a limit, and the waits must continue for as long
as that limit, because a single pause is no overload and the requests behind it are best served. Second, the disk stalls: the
sends of one read event took longer than their limit. Then sends are refused for as long as that stall lasted, so half of the
time is left for consumers.

The limits are Apache's settings `waitTimeMillsIn…Queue` and `osPageCacheBusyTimeOutMills`. With `brokerFastFailureEnable`
false, no request is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from skyrocket.broker.settings import BrokerSettings
from skyrocket.protocol.requests import RequestCode

PAUSE_MS_MAX: Final = 5_000  # the longest pause, however long the stall was
CALM_MS: Final = 1_000  # an overload ends when no request has exceeded its limit for this long

_SENDS: Final = frozenset(
    {
        RequestCode.SEND_MESSAGE,
        RequestCode.SEND_MESSAGE_V2,
        RequestCode.SEND_BATCH_MESSAGE,
        RequestCode.CONSUMER_SEND_MSG_BACK,
        RequestCode.SEND_REPLY_MESSAGE,
        RequestCode.SEND_REPLY_MESSAGE_V2,
    }
)
# The setting that limits the wait of each request code. Requests without a row are served however late they are.
_LIMITS: Final[dict[int, str]] = {
    **dict.fromkeys(_SENDS, "send_wait_ms_max"),
    RequestCode.PULL_MESSAGE: "pull_wait_ms_max",
    RequestCode.LITE_PULL_MESSAGE: "lite_pull_wait_ms_max",
    RequestCode.HEART_BEAT: "heartbeat_wait_ms_max",
    RequestCode.END_TRANSACTION: "end_transaction_wait_ms_max",
}


class FlowControl:
    def __init__(self, settings: Callable[[], BrokerSettings]) -> None:
        self._settings = settings
        self._limit_ms_for: BrokerSettings | None = None
        self._least_limit_ms = 0  # the lowest limit of these settings
        self._late_since_ms = 0
        self._late_ms = -CALM_MS  # when a request last exceeded its limit
        self._paused_until_ms = 0
        self._slow_send_ms = 0
        self.waited_ms = 0  # the wait of the last read event
        self.longest_send_ms = 0

    def record_served(self, code: int, took_ms: int, now_ms: int) -> None:
        """Record how long the requests of a read event took. `code` is the code of the first one."""
        if not took_ms or code not in _SENDS:
            return
        if took_ms > self.longest_send_ms:  # noqa: PLR1730 — runs at every read event; max() is slower
            self.longest_send_ms = took_ms
        if took_ms > self._settings().append_ms_max:
            self._slow_send_ms = took_ms
            self._paused_until_ms = now_ms + min(took_ms, PAUSE_MS_MAX)

    def is_calm(self, waited_ms: int, now_ms: int) -> bool:
        """Whether `refusal` can be skipped for all requests of a read event."""
        self.waited_ms = waited_ms
        if not waited_ms:
            return now_ms >= self._paused_until_ms
        settings = self._settings()
        if settings is not self._limit_ms_for:
            self._limit_ms_for = settings
            self._least_limit_ms = min(getattr(settings, limit) for limit in _LIMITS.values())
        if waited_ms < self._least_limit_ms:
            return now_ms >= self._paused_until_ms
        if now_ms - self._late_ms > CALM_MS:
            self._late_since_ms = now_ms
        self._late_ms = now_ms
        return False

    def refusal(self, code: int, waited_ms: int, now_ms: int) -> str | None:
        """Say why a request is refused; None when it is served."""
        settings = self._settings()
        if not settings.refuse_late:
            return None
        if code in _SENDS and now_ms < self._paused_until_ms:
            took_ms, limit_ms = self._slow_send_ms, settings.append_ms_max
            return f"The disk is busy: the last sends took {took_ms} ms to store; {limit_ms} ms are allowed."
        limit = _LIMITS.get(code)
        if limit is None or min(waited_ms, now_ms - self._late_since_ms) < (limit_ms := getattr(settings, limit)):
            return None
        return f"The broker is busy: this request has waited for {waited_ms} ms; {limit_ms} ms are allowed."
