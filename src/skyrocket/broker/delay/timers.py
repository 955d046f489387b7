"""Timed messages (TIMER_DELAY_SEC, TIMER_DELAY_MS, TIMER_DELIVER_MS): which times are valid, and when a message is due.

    producer ──TIMER_DELIVER_MS──▶ rmq_sys_wheel_timer, queue 0 ──▶ timer log and wheel ──due──▶ REAL_TOPIC, queue REAL_QID

Time is divided into slots (timerPrecisionMs, one second by default). TIMER_OUT_MS is the start of a message's slot: Apache
delivers a slot when it is over. We deliver at the requested time, which lies in (TIMER_OUT_MS, TIMER_OUT_MS + one slot], and so
never early. Apache's broker finds our messages in the slots where it expects them.
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

TIMER_PROPERTIES: Final = (TIMER_DELAY_SEC, TIMER_DELAY_MS, TIMER_DELIVER_MS)  # the first one present counts
BLANK_SLOTS: Final = 60  # slots of the wheel that stay empty between the future and the past

_DIGITS_MAX = 19
_NUMBER = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)
_OUT = f"{TIMER_OUT_MS}{NAME_END}%d{VALUE_END}".encode()


class Timers(Contributor):
    """Redirects timed messages to the timer topic."""

    property_names = frozenset(TIMER_PROPERTIES)

    def __init__(
        self, settings: Callable[[], BrokerSettings], wall_ms: Callable[[], int], count_slot: Callable[[int], int]
    ) -> None:
        """`count_slot` counts the messages that wait in the slot of a time."""
        self._settings = settings
        self._wall_ms = wall_ms
        self._count_slot = count_slot

    def redirect(self, _header: SendMessageRequestHeaderV2, record: Record, properties: dict[str, str]) -> Record | None:
        if record.sys_flag & TRANSACTION_MASK in UNQUEUED or record.topic == TIMER_TOPIC or TIMER_OUT_MS in properties:
            return None
        level = parse_number(properties.get(DELAY_LEVEL, "0"))
        if level is not None and level > 0:  # a delay level takes precedence
            for name in TIMER_PROPERTIES:
                properties.pop(name, None)
            return None
        return self.time(record, properties)

    def time(self, record: Record, properties: dict[str, str]) -> Record | None:
        """Return the record as it waits in the timer topic, and change its `properties` accordingly.

        Return None when the message is due already. Raise RefusedError when it cannot wait.
        """
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
                return None  # the general path answers with the reason
            if out_ms is None:
                return None
            handle = RecallHandle(topic, self._settings().broker_name, out_ms + 1, MARK.decode())
            return RedirectAdditions(_OUT % out_ms + real_queue_properties(topic, queue_id), handle.words())

        return FastRedirect(TIMER_TOPIC, 0, additions)

    def recall_handle(self, properties: Mapping[str, str]) -> str | None:
        return recall_handle(properties, self._settings().broker_name)

    def _out_ms(self, properties: Mapping[str, str]) -> int | None:
        """Return the slot of a message, or None when it is due already. Raise RefusedError when it cannot wait."""
        settings = self._settings()
        if not settings.timers_enabled:
            raise RefusedError(
                ResponseCode.SYSTEM_ERROR, "This broker does not accept timed messages: timerWheelEnable is false."
            )
        now_ms = self._wall_ms()
        due_ms = requested_ms(properties, now_ms)
        if due_ms is None:
            raise _illegal("The delivery time of a timed message must be a whole number.")
        if due_ms <= now_ms:
            if TIMER_DELETE_UNIQUE_KEY in properties:
                raise _illegal("A message cannot be recalled once it is due.")
            return None
        if due_ms - now_ms > settings.timer_delay_sec_max * 1000:
            most = f"{settings.timer_delay_sec_max} seconds (timerMaxDelaySec)"
            raise _illegal(f"A message may wait for at most {most}; this one would wait for {due_ms - now_ms} ms.")
        out_ms = slot_start_ms(due_ms, settings.timer_precision_ms)
        if self._count_slot(out_ms) > settings.timer_slot_messages_max:
            most = f"{settings.timer_slot_messages_max} messages (timerCongestNumEachSlot)"
            raise RefusedError(ResponseCode.SYSTEM_ERROR, f"More than {most} are already due at the same time as this one.")
        return out_ms


def _illegal(sentence: str) -> RefusedError:
    return RefusedError(ResponseCode.MESSAGE_ILLEGAL, sentence)


def parse_number(text: str | None) -> int | None:
    """Parse a number as Java does. Return None when the text is not a number."""
    if text is None:
        return None
    is_plain = len(text) < _DIGITS_MAX and text.isascii() and text.isdigit()
    return int(text) if is_plain or _NUMBER.fullmatch(text) else None


def requested_ms(properties: Mapping[str, str], sent_ms: int) -> int | None:
    """Return the requested delivery time of a message sent at this time, or None when it is not a number."""
    for name, unit_ms in ((TIMER_DELAY_SEC, 1000), (TIMER_DELAY_MS, 1)):
        if name in properties:
            delay = parse_number(properties[name])
            return None if delay is None else sent_ms + delay * unit_ms
    return parse_number(properties.get(TIMER_DELIVER_MS))


def slot_start_ms(due_ms: int, precision_ms: int) -> int:
    """Return TIMER_OUT_MS: the start of the slot that covers (start, start + precision]."""
    return (due_ms - 1) // precision_ms * precision_ms


def rolled_to_ms(out_ms: int, now_ms: int, window_slots: int, precision_ms: int) -> int | None:
    """Return the slot in which a message beyond the window is rolled (stored again), or None when it is within the window.

    Otherwise retention would delete the message from the log before it is due. A message just beyond the window is rolled early.
    """
    beyond_ms = out_ms - rolls_from_ms(now_ms, window_slots, precision_ms)
    if beyond_ms < 0:
        return None
    slots = window_slots // 2 if beyond_ms < window_slots // 3 * precision_ms else window_slots
    return rolls_from_ms(now_ms, slots, precision_ms)


def rolls_from_ms(now_ms: int, window_slots: int, precision_ms: int) -> int:
    """Return the start of the first slot beyond the window."""
    return now_ms - now_ms % precision_ms + window_slots * precision_ms


def recall_handle(properties: Mapping[str, str], broker_name: str) -> str | None:
    """Return the handle that recalls a waiting message, or None when the message does not wait or has no unique key."""
    out_ms, topic, unique_key = (properties.get(name) for name in (TIMER_OUT_MS, REAL_TOPIC, UNIQUE_KEY))
    if out_ms is None or topic is None or unique_key is None or topic.startswith(RETRY_PREFIX):
        return None
    return RecallHandle(topic, broker_name, int(out_ms) + 1, unique_key).encode()
