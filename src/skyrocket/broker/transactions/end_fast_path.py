"""Ends of transactions that need no closer look: nearly all of them.

An end is plain when its half message was written lately and is the one that it says, is of a shape whose meaning is known, was
never stored again, and has nothing to say about when it must end. Whatever is not plain is for `end_transaction` to judge.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from skyrocket.broker.transactions.check_round import Copies
from skyrocket.broker.transactions.records import HalfFacts
from skyrocket.protocol.fast_path.end_transaction import TransactionEnd
from skyrocket.protocol.message.waiting_record import WaitingRecord, waiting_records
from skyrocket.protocol.sysflag import TRANSACTION_COMMIT, TRANSACTION_ROLLBACK
from skyrocket.protocol.system_names import HALF_TOPIC
from skyrocket.store.log.readdress import ReaddressRequest
from skyrocket.store.read.reading import RecentRecords, record_views


class Halves(NamedTuple):
    """Half messages that may have plain ends."""

    log: RecentRecords
    known: dict[bytes, HalfFacts]  # by the shape of their properties
    copies: Copies


# The queue offset of a half message that has ended, and what is to be delivered.
Ended = tuple[int, ReaddressRequest | None]


def plain_ends(ends: Sequence[TransactionEnd], halves: Halves) -> list[Ended | None]:
    """What each means; None where it is not plain."""
    records = record_views(*halves.log, [place for place, _, _, _, _ in ends])
    return [_plain(end, half, halves) for end, half in zip(ends, waiting_records(records, HALF_TOPIC), strict=True)]


def _plain(end: TransactionEnd, half: WaitingRecord | None, halves: Halves) -> Ended | None:
    _, said_offset, outcome, said_group, _ = end
    facts = None if half is None else halves.known.get(half[1])
    if half is None or facts is None or outcome not in (TRANSACTION_COMMIT, TRANSACTION_ROLLBACK):
        return None
    record, _, key, offset, _, _, _ = half
    group, immunity, address = facts
    if group != said_group or offset != said_offset or immunity or address is None or halves.copies.knows(offset):
        return None
    return (offset, (record, address, key, b"") if outcome == TRANSACTION_COMMIT else None)
