"""Flow control: a request that waited too long for an overloaded broker is answered SYSTEM_BUSY instead of being served late.

    record_round(late_ms, worked_ms, now_ms)             a round of the event loop is over
    is_calm(waited_ms, now_ms)                           whether no request of a read event can be refused
    refusal(code, waited_ms, worked_ms, now_ms)          why a request is not served; None when it is
    record_served(code, took_ms, now_ms)                 the requests of a read event are done and took this long

There are two signs of overload. First, requests wait longer than their kind may, and rounds of the event loop have been as long
for some time (`overload.py`). A single long round or a pause of the machine refuses no request. Second, the disk stalls: the
sends of one read event took longer than their limit, twice within ten seconds. Then sends are refused for as long as the second
stall lasted, a second at most, so consumers get about half of the time.

The limits are Apache's settings `waitTimeMillsIn…Queue` and `osPageCacheBusyTimeOutMills`. With `brokerFastFailureEnable`
false, no request is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Final

from skyrocket.broker.load.overload import Overload
from skyrocket.broker.settings import BrokerSettings
from skyrocket.protocol.requests import RequestCode

PAUSE_MS_MAX: Final = 1_000  # the longest pause, however long the stall was
STALLS_MS: Final = 10_000  # two stalls within this time are the disk's; a single one may be a pause of the machine

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

_KEYS: Final = {each.name: each.metadata["key"] for each in fields(BrokerSettings) if each.name in _LIMITS.values()}


class FlowControl:
    def __init__(self, settings: Callable[[], BrokerSettings]) -> None:
        self._settings = settings
        self._limit_ms_for: BrokerSettings | None = None
        self._least_limit_ms = 0  # the lowest limit of these settings
        self._overload = Overload()
        self._stalled_ms = -STALLS_MS  # when sends last took too long
        self._paused_until_ms = 0
        self._slow_send_ms = 0
        self.waited_ms = 0  # the wait of the last read event
        self.longest_send_ms = 0
        self.refused = 0  # requests, since the start

    def record_round(self, late_ms: int, worked_ms: int, now_ms: int) -> None:
        """Record how late a round of the event loop was, and how much of that the broker itself worked."""
        self._overload.record_round(late_ms, worked_ms, self._limit_ms(), now_ms)

    def record_served(self, code: int, took_ms: int, now_ms: int) -> None:
        """Record how long the requests of a read event took. `code` is the code of the first one."""
        if not took_ms or code not in _SENDS:
            return
        if took_ms > self.longest_send_ms:  # noqa: PLR1730 — runs at every read event; max() is slower
            self.longest_send_ms = took_ms
        if took_ms > self._settings().append_ms_max:
            if now_ms - took_ms - self._stalled_ms < STALLS_MS:
                self._slow_send_ms = took_ms
                self._paused_until_ms = now_ms + min(took_ms, PAUSE_MS_MAX)
            self._stalled_ms = now_ms

    def is_calm(self, waited_ms: int, now_ms: int) -> bool:
        """Whether `refusal` can be skipped for all requests of a read event."""
        self.waited_ms = waited_ms
        if now_ms < self._paused_until_ms:
            return False
        return not waited_ms or waited_ms < self._limit_ms() or not self._overload.lasts(waited_ms, now_ms)

    def _limit_ms(self) -> int:
        """Return the lowest limit."""
        settings = self._settings()
        if settings is not self._limit_ms_for:
            self._limit_ms_for = settings
            self._least_limit_ms = min(getattr(settings, limit) for limit in _LIMITS.values())
        return self._least_limit_ms

    def refusal(self, code: int, waited_ms: int, worked_ms: int, now_ms: int) -> str | None:
        """Say why a request is refused; None when it is served."""
        settings = self._settings()
        if not settings.refuse_late:
            return None
        if code in _SENDS and now_ms < self._paused_until_ms:
            took_ms, limit_ms = self._slow_send_ms, settings.append_ms_max
            self.refused += 1
            return (
                f"The disk is busy: the last sends took {took_ms} ms to store; osPageCacheBusyTimeOutMills allows {limit_ms} ms."
            )
        limit = _LIMITS.get(code)
        if limit is None or self._overload.judged_ms(waited_ms, worked_ms, now_ms) < (limit_ms := getattr(settings, limit)):
            return None
        self.refused += 1
        return f"The broker is busy: this request has waited for {waited_ms} ms; {_KEYS[limit]} allows {limit_ms} ms."
