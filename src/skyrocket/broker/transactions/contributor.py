"""The transactions' part in sends: it redirects half messages to the half topic, and claims the frames of ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from skyrocket.broker.send.contributors import Contribution, Contributor, PendingAppend
from skyrocket.broker.send.redirects import FastRedirect, RedirectAdditions, real_queue_properties
from skyrocket.broker.settings import BrokerSettings
from skyrocket.broker.transactions.end_handler import EndTransactionHandler
from skyrocket.broker.transactions.records import QUEUE, half_of, number
from skyrocket.net.router import RefusedError
from skyrocket.protocol.fast_path.end_transaction import END_STARTS
from skyrocket.protocol.headers import SendMessageRequestHeaderV2
from skyrocket.protocol.message.properties import (
    DELAY_LEVEL,
    NAME_END,
    TIMER_DELAY_MS,
    TIMER_DELAY_SEC,
    TIMER_DELIVER_MS,
    TRANSACTION_ID,
    TRANSACTION_PREPARED,
    VALUE_END,
)
from skyrocket.protocol.message.record import Record
from skyrocket.protocol.message.unique_key import MARK
from skyrocket.protocol.responses import ResponseCode
from skyrocket.protocol.sysflag import TRANSACTION_MASK
from skyrocket.protocol.system_names import HALF_TOPIC

_TIMES: Final = frozenset({TIMER_DELAY_MS, TIMER_DELAY_SEC, TIMER_DELIVER_MS})
_TRANSACTION_ID: Final = f"{TRANSACTION_ID}{NAME_END}".encode() + MARK + VALUE_END.encode()


class TransactionContributor(Contributor):
    property_names = frozenset({TRANSACTION_PREPARED})
    frame_starts = END_STARTS

    def __init__(self, settings: Callable[[], BrokerSettings], ends: EndTransactionHandler) -> None:
        self._settings = settings
        self._ends = ends

    def redirect(self, header: SendMessageRequestHeaderV2, record: Record, properties: dict[str, str]) -> Record | None:
        """Return the half message to store for a message with TRAN_MSG=true."""
        if properties.get(TRANSACTION_PREPARED, "").lower() != "true":
            return None
        is_delayed = number(properties.get(DELAY_LEVEL), 0) > 0
        if is_delayed and (header.reconsume_times or 0) > 0:
            return None  # sent back by a client before 4.6.1, which leaves the property on
        settings = self._settings()
        if settings.reject_transactions:
            raise RefusedError(
                ResponseCode.NO_PERMISSION, f"Broker {settings.broker_name} rejects transactions (rejectTransactionMessage)."
            )
        if is_delayed or not _TIMES.isdisjoint(properties):  # Apache's broker accepts such a message and never delivers it
            raise RefusedError(ResponseCode.MESSAGE_ILLEGAL, "A message of a transaction cannot be delayed.")
        return half_of(record, properties)

    def fast_redirect(self, properties: Mapping[str, str]) -> FastRedirect | None:
        is_half = properties[TRANSACTION_PREPARED].lower() == "true"
        if not is_half or TRANSACTION_ID in properties or self._settings().reject_transactions:
            return None
        return FastRedirect(HALF_TOPIC, QUEUE, _half_additions, kept_flags=~TRANSACTION_MASK)

    def begin(self, append: PendingAppend) -> Contribution:
        return self._ends.begin_contribution(append)


def _half_additions(topic: str, queue_id: int) -> RedirectAdditions:
    return RedirectAdditions(_TRANSACTION_ID + real_queue_properties(topic, queue_id))
