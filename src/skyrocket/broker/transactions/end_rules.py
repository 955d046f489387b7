"""The rules for ending a transaction: which end counts, what it delivers, and what is written about it.

The fast path and the general path both apply them. The compiled loop has the only other copy (`compiled/transaction_ends.pxi`).

    find the half message → does the end name it? → commit: the message goes to its own queue
                                                  → commit or rollback: the half message has ended, and an op message says so

A committed message is in the log before any op message that names its half message. The producer of a half message without an op
message is asked again. So is one whose op message survived a power failure that its committed message did not (`doubtful_ends`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from skyrocket.broker.send.property_shapes import PropertyShapes
from skyrocket.broker.settings import BrokerSettings
from skyrocket.broker.transactions.check_round import end_is_too_late
from skyrocket.broker.transactions.checker import TransactionChecker
from skyrocket.broker.transactions.records import HalfFacts, op_request
from skyrocket.net.router import RefusedError
from skyrocket.protocol.fast_path.end_transaction import TransactionEnd
from skyrocket.protocol.message.waiting_record import WaitingRecord
from skyrocket.protocol.responses import ResponseCode
from skyrocket.protocol.sysflag import TRANSACTION_COMMIT, TRANSACTION_NONE, TRANSACTION_ROLLBACK
from skyrocket.store.log.readdress import ReaddressRequest

_OUTCOMES: Final = (TRANSACTION_COMMIT, TRANSACTION_ROLLBACK)

# The queue offset of a half message that has ended, and the message to deliver: None after a rollback.
EndedHalf = tuple[int, ReaddressRequest | None]


def apply_end(end: TransactionEnd, half: WaitingRecord | None, facts: HalfFacts | None, key: bytes | None) -> EndedHalf | None:
    """Apply an end to the half message at the place that the end names.

    `facts` are what the half message's properties say, `key` is the unique key that is marked there. Return None when the
    producer does not know the outcome: it is asked later. Raise RefusedError when the end is not of this half message.
    """
    place, said_offset, outcome, said_group, _ = end
    if outcome not in _OUTCOMES:
        if outcome == TRANSACTION_NONE:
            return None
        raise refuse_end(f"A transaction ends with {TRANSACTION_COMMIT} or {TRANSACTION_ROLLBACK}, not {outcome}.")
    if half is None or facts is None:
        raise refuse_end(f"There is no half message at {place} in the log.")
    record, _, _, offset, _, _, _ = half
    group, _, address = facts
    if group != said_group:
        raise refuse_end(f"The half message at {place} is not of producer group '{said_group[:160]}'.")
    if offset != said_offset:
        raise refuse_end(f"The half message at {place} has queue offset {offset}, not {said_offset}.")
    if address is None:
        raise refuse_end(f"The half message at {place} has no valid REAL_TOPIC and REAL_QID: it cannot be delivered.")
    return (offset, (record, address, key, b"") if outcome == TRANSACTION_COMMIT else None)


def refuse_end(sentence: str) -> RefusedError:
    """Make the error for an end that is not accepted. Apache answers with this code too, whatever is wrong."""
    return RefusedError(ResponseCode.SYSTEM_ERROR, sentence)


class EndRules:
    def __init__(
        self, checks: TransactionChecker, settings: Callable[[], BrokerSettings], store_host: bytes, wake: Callable[[], None]
    ) -> None:
        """`wake` is called when an end waits for its op message, and none did before."""
        self.copies = checks.copies
        self.shapes = PropertyShapes(HalfFacts.of)
        self._checks = checks
        self._settings = settings
        self._store_host = store_host
        self._wake = wake

    def apply(self, end: TransactionEnd, half: WaitingRecord | None, now_ms: int) -> EndedHalf | None:
        """Apply an end of any kind. Like `apply_end`, with the rules about immunity and about copies of half messages."""
        facts = key = None
        if half is not None:
            _, shape, key, _, _, _, _ = half
            facts = self.shapes.known.get(shape)
            if facts is None:
                facts, key = self.shapes.of(shape, key)
        ended = apply_end(end, half, facts, key)
        if ended is None or half is None or facts is None:
            return None
        _, _, _, offset, _, born_ms, _ = half
        immunity, is_answer = facts.immunity, end[4]
        if immunity and end_is_too_late(immunity, now_ms - born_ms, is_answer, self._settings().transaction_timeout_ms):
            remark = "The immunity that the message asked for is over. The broker will check its producer."
            raise RefusedError(ResponseCode.ILLEGAL_OPERATION, remark)
        return (offset, None) if self.copies.is_over(offset) else ended

    def op_message(self, offsets: list[int], now_ms: int) -> ReaddressRequest | None:
        """Return the op message that these ended half messages fill, to be appended behind what they commit.

        None: there is room in it yet, and it is written later.
        """
        noted = self._checks.ops.fill_up(offsets, self._settings().transaction_op_bytes_max)
        return None if noted is None else op_request(noted, self._store_host, now_ms)

    def record_ended(self, offsets: list[int], is_noted: bool, now_ms: int) -> None:
        """Take note that these half messages have ended, once what they commit is stored.

        `is_noted` says that the op message that they filled is stored too.
        """
        ops = self._checks.ops
        self._checks.record_ended(offsets)
        if is_noted:
            ops.clear()
            return
        if not ops:
            self._wake()
        ops.add(offsets, now_ms)
