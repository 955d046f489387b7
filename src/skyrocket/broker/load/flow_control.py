"""Flow control: a request that has waited too long is answered SYSTEM_BUSY with the figure, instead of being served late.

    refusal(code, waited_ms, now_ms)    why a request is not served; None when it is
    served(code, took_ms, now_ms)       what a read event brought is done, and took so long

Two signs of too much to do. Requests wait: each kind may wait for so long, and it must go on for as long, since a single pause is
no overload and who waited for its end is best served. And the disk stalls: the sends of one read event took longer than they may.
Then sends are refused for as long as that took, so that the next ones do not stall everybody again: half of the time belongs to
those who read.

Limits are Apache's: `waitTimeMillsIn…Queue` and `osPageCacheBusyTimeOutMills`. With `brokerFastFailureEnable` false, nothing is
refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from skyrocket.broker.settings import BrokerSettings
from skyrocket.protocol.requests import RequestCode

PAUSE_MS_MAX: Final = 5_000  # however long the sends took
CALM_MS: Final = 1_000  # when nothing has waited too long for this time, it is over

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
# Which setting says how long a request may wait. One that is in no row is served however late it is.
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
        self._least_limit_ms = 0  # with these settings, of all kinds of requests
        self._late_since_ms = 0
        self._late_ms = -CALM_MS  # when something had waited too long for the last time
        self._paused_until_ms = 0
        self._slow_send_ms = 0
        self.waited_ms = 0  # what was read last
        self.longest_send_ms = 0

    def served(self, code: int, took_ms: int, now_ms: int) -> None:
        """`code` is that of the first request."""
        if not took_ms or code not in _SENDS:
            return
        if took_ms > self.longest_send_ms:  # noqa: PLR1730 — at every read event
            self.longest_send_ms = took_ms
        if took_ms > self._settings().append_ms_max:
            self._slow_send_ms = took_ms
            self._paused_until_ms = now_ms + min(took_ms, PAUSE_MS_MAX)

    def is_calm(self, waited_ms: int, now_ms: int) -> bool:
        """At each read event: no request has to be looked at."""
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
