"""Timed messages (TIMER_DELAY_SEC, TIMER_DELAY_MS, TIMER_DELIVER_MS): what times they may have, and when they are due.

    producer ──TIMER_DELIVER_MS──▶ rmq_sys_wheel_timer, queue 0 ──▶ timer log and wheel ──due──▶ REAL_TOPIC, queue REAL_QID

Time is cut into slots (timerPrecisionMs, a second). TIMER_OUT_MS is the slot's start, one slot before the next border at or after
the time that was asked for: Apache delivers a slot when it is over. We deliver at the time that was asked for, which lies in
(TIMER_OUT_MS, TIMER_OUT_MS + a slot], and so never early; Apache's broker finds our messages where it looks for them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from msgspec.structs import replace

from skyrocket.broker.send.contributors import Contributor
from skyrocket.broker.send.redirects import FastRedirect, RedirectAdditions, real_queue_properties
from skyrocket.broker.settings import BrokerSettings
from skyrocket.net.router import RefusedError
from skyrocket.protocol.headers import SendMessageRequestHeaderV2
from skyrocket.protocol.message.properties import (
    DELAY_LEVEL,
    NAME_END,
    REAL_QUEUE_ID,
    REAL_TOPIC,
    TIMER_DELAY_MS,
    TIMER_DELAY_SEC,
    TIMER_DELETE_UNIQUE_KEY,
    TIMER_DELIVER_MS,
    TIMER_OUT_MS,
    UNIQUE_KEY,
    VALUE_END,
)
from skyrocket.protocol.message.recall_handle import RecallHandle
from skyrocket.protocol.message.record import Record
from skyrocket.protocol.message.unique_key import MARK
from skyrocket.protocol.responses import ResponseCode
from skyrocket.protocol.sysflag import TRANSACTION_MASK
from skyrocket.protocol.system_names import RETRY_PREFIX, TIMER_TOPIC
from skyrocket.store.message import UNQUEUED

TIMER_PROPERTIES: Final = (TIMER_DELAY_SEC, TIMER_DELAY_MS, TIMER_DELIVER_MS)  # the first that is there counts
BLANK_SLOTS: Final = 60  # of the wheel, that stay free between what lies ahead and what lies behind

_DIGITS_MAX = 19
_NUMBER = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)
_OUT = f"{TIMER_OUT_MS}{NAME_END}%d{VALUE_END}".encode()


class Timers(Contributor):
    """The contributor for timed messages: it redirects them to the timer topic."""

    property_names = frozenset(TIMER_PROPERTIES)

    def __init__(self, settings: Callable[[], BrokerSettings], wall_ms: Callable[[], int], crowd: Callable[[int], int]) -> None:
        """`crowd` says how many messages wait in the slot of a time."""
        self._settings = settings
        self._wall_ms = wall_ms
        self._crowd = crowd

    def redirect(self, _header: SendMessageRequestHeaderV2, record: Record, properties: dict[str, str]) -> Record | None:
        if record.sys_flag & TRANSACTION_MASK in UNQUEUED or record.topic == TIMER_TOPIC or TIMER_OUT_MS in properties:
            return None
        level = number(properties.get(DELAY_LEVEL, "0"))
        if level is not None and level > 0:  # then the level counts, and nothing else
            for name in TIMER_PROPERTIES:
                properties.pop(name, None)
            return None
        return self.timed(record, properties)

    def timed(self, record: Record, properties: dict[str, str]) -> Record | None:
        """The message as it waits; `properties` are changed to those that it waits with. None when its time has come already.
        RefusedError says why it cannot wait."""
        out_ms = self._out_ms(properties)
        if out_ms is None:
            return None
        properties[TIMER_OUT_MS] = str(out_ms)
        properties[REAL_TOPIC] = record.topic
        properties[REAL_QUEUE_ID] = str(record.queue_id)
        return replace(record, topic=TIMER_TOPIC, queue_id=0)

    def fast_redirect(self, properties: Mapping[str, str]) -> FastRedirect | None:
        if TIMER_OUT_MS in properties:
            return None

        def additions(topic: str, queue_id: int) -> RedirectAdditions | None:
            try:
                out_ms = self._out_ms(properties)
            except RefusedError:
                return None  # the general path answers why
            if out_ms is None:
                return None
            handle = RecallHandle(topic, self._settings().broker_name, out_ms + 1, MARK.decode())
            return RedirectAdditions(_OUT % out_ms + real_queue_properties(topic, queue_id), handle.words())

        return FastRedirect(TIMER_TOPIC, 0, additions)

    def recall_handle(self, properties: Mapping[str, str]) -> str | None:
        return recall_handle(properties, self._settings().broker_name)

    def _out_ms(self, properties: Mapping[str, str]) -> int | None:
        """The slot that a message waits in; None when its time has come already. RefusedError says why it cannot wait."""
        settings = self._settings()
        if not settings.timers_enabled:
            raise RefusedError(ResponseCode.SYSTEM_ERROR, "This broker takes no timed messages: timerWheelEnable is false.")
        now_ms = self._wall_ms()
        due_ms = asked_for_ms(properties, now_ms)
        if due_ms is None:
            raise _illegal("A timed message says in whole numbers when it is to be delivered.")
        if due_ms <= now_ms:
            if TIMER_DELETE_UNIQUE_KEY in properties:
                raise _illegal("A message that takes another one back comes before that one is due.")
            return None
        if due_ms - now_ms > settings.timer_delay_sec_max * 1000:
            most = f"{settings.timer_delay_sec_max} seconds (timerMaxDelaySec)"
            raise _illegal(f"A message may wait {most} at the longest; this one would wait {due_ms - now_ms} ms.")
        out_ms = slot_start_ms(due_ms, settings.timer_precision_ms)
        if self._crowd(out_ms) > settings.timer_slot_messages_max:
            most = f"{settings.timer_slot_messages_max} messages (timerCongestNumEachSlot)"
            raise RefusedError(ResponseCode.SYSTEM_ERROR, f"More than {most} are to be delivered at the same time as this one.")
        return out_ms


def _illegal(sentence: str) -> RefusedError:
    return RefusedError(ResponseCode.MESSAGE_ILLEGAL, sentence)


def number(text: str | None) -> int | None:
    """As Java reads one."""
    if text is None:
        return None
    is_plain = len(text) < _DIGITS_MAX and text.isascii() and text.isdigit()
    return int(text) if is_plain or _NUMBER.fullmatch(text) else None


def asked_for_ms(properties: Mapping[str, str], sent_ms: int) -> int | None:
    """When a message that was sent at this time is to be delivered; None when it does not say that in a number."""
    for name, unit_ms in ((TIMER_DELAY_SEC, 1000), (TIMER_DELAY_MS, 1)):
        if name in properties:
            delay = number(properties[name])
            return None if delay is None else sent_ms + delay * unit_ms
    return number(properties.get(TIMER_DELIVER_MS))


def slot_start_ms(due_ms: int, precision_ms: int) -> int:
    """TIMER_OUT_MS: the slot that has (start, start + precision]."""
    return (due_ms - 1) // precision_ms * precision_ms


def rolled_to_ms(out_ms: int, now_ms: int, window_slots: int, precision_ms: int) -> int | None:
    """The slot in which a message is stored anew, because its own is beyond the window; None when it is within.

    The log would otherwise let go of a message before it is due. One that would come to lie just beyond is rolled early.
    """
    beyond_ms = out_ms - rolls_from_ms(now_ms, window_slots, precision_ms)
    if beyond_ms < 0:
        return None
    slots = window_slots // 2 if beyond_ms < window_slots // 3 * precision_ms else window_slots
    return rolls_from_ms(now_ms, slots, precision_ms)


def rolls_from_ms(now_ms: int, window_slots: int, precision_ms: int) -> int:
    """The first slot beyond the window."""
    return now_ms - now_ms % precision_ms + window_slots * precision_ms


def recall_handle(properties: Mapping[str, str], broker_name: str) -> str | None:
    """What takes a message back that waits with these properties; None for one that does not wait, or has no key."""
    out_ms, topic, unique_key = (properties.get(name) for name in (TIMER_OUT_MS, REAL_TOPIC, UNIQUE_KEY))
    if out_ms is None or topic is None or unique_key is None or topic.startswith(RETRY_PREFIX):
        return None
    return RecallHandle(topic, broker_name, int(out_ms) + 1, unique_key).encode()
