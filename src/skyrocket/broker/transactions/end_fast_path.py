"""The fast path of END_TRANSACTION (37): ends that come between sends, and whose messages go into the append of those sends.

An end is plain when its half message was written recently, is the one that the end names, has properties of a known shape, was
never copied, and asks for no immunity against checks. Nearly all ends are plain. The general path (`end_handler`) handles the
others after the append. None of those can be the end of a half message in the same append: its producer cannot know the half
message's offsets before the append is answered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from skyrocket.broker.send.contributors import PendingAppend
from skyrocket.broker.transactions.check_round import HalfCopies
from skyrocket.broker.transactions.end_rules import EndedHalf, EndRules, apply_end
from skyrocket.broker.transactions.records import HalfFacts
from skyrocket.net.connection import Connection
from skyrocket.net.router import RefusedError
from skyrocket.protocol.fast_path.end_transaction import TransactionEnd, decode_oneway_end
from skyrocket.protocol.frame import Frame
from skyrocket.protocol.message.waiting_record import parse_waiting_records
from skyrocket.protocol.system_names import HALF_TOPIC
from skyrocket.store.read.reading import RecentRecords, record_views


class RecentHalves(NamedTuple):
    """Half messages that may have plain ends."""

    log: RecentRecords
    known: dict[bytes, HalfFacts]  # by the shape of their properties
    copies: HalfCopies


def apply_plain_ends(ends: Sequence[TransactionEnd], halves: RecentHalves) -> list[EndedHalf | None]:
    """Apply each end; None where it is not plain."""
    log, known, copies = halves
    records = record_views(*log, [place for place, _, _, _, _ in ends])
    applied: list[EndedHalf | None] = []
    for end, half in zip(ends, parse_waiting_records(records, HALF_TOPIC), strict=True):
        facts = None if half is None else known.get(half[1])
        if half is None or facts is None or facts.immunity or copies.knows(half[3]):
            applied.append(None)
            continue
        try:
            applied.append(apply_end(end, half, facts, half[2]))
        except RefusedError:  # the general path answers
            applied.append(None)
    return applied


class EndContribution:
    """The ends of transactions in one append. The compiled loop fills `ended` and `deferred` itself."""

    __slots__ = (
        "_append",
        "_claims",
        "_deferred_of",
        "_is_noted",
        "_now_ms",
        "_on_deferred",
        "_rules",
        "deferred",
        "ended",
        "halves",
    )

    def __init__(
        self,
        append: PendingAppend,
        rules: EndRules,
        halves: RecentHalves,
        now_ms: int,
        on_deferred: Callable[[list[TransactionEnd], Connection], None],
    ) -> None:
        """`on_deferred` is called after the append, with the ends that are not plain."""
        self.halves = halves
        self.ended: list[int] = []  # queue offsets of the half messages with plain ends
        self.deferred: list[TransactionEnd] = []  # ends that are not plain
        self._deferred_of: list[tuple[int, Connection]] = []  # the connection of the ends in `deferred` before this index
        self._append = append
        self._rules = rules
        self._now_ms = now_ms
        self._on_deferred = on_deferred
        self._claims: list[TransactionEnd] = []  # neighbours, which are applied together
        self._is_noted = False

    def claim(self, frame: Frame) -> bool:
        end = decode_oneway_end(frame)
        if end is None:
            return False
        self._claims.append(end)
        return True

    def place(self) -> None:
        ends, self._claims = self._claims, []
        self._place(ends)

    def _place(self, ends: list[TransactionEnd]) -> None:
        """Put what plain ends commit into the append. If that does not fit, try one end after the other."""
        applied = apply_plain_ends(ends, self.halves)
        if self._append.readdress([request for _, request in filter(None, applied) if request is not None]):
            self.ended += [offset for offset, _ in filter(None, applied)]
            self.deferred += [end for end, ended in zip(ends, applied, strict=True) if ended is None]
        elif len(ends) == 1:
            self.deferred += ends
        else:
            for end in ends:
                self._place([end])

    def complete(self) -> None:
        """Put the op message into the append, if these ends fill it."""
        op_message = self._rules.op_message(self.ended, self._now_ms) if self.ended else None
        self._is_noted = op_message is not None and self._append.readdress([op_message])

    def attribute(self, connection: Connection) -> None:
        if self.deferred and (not self._deferred_of or self._deferred_of[-1][0] < len(self.deferred)):
            self._deferred_of.append((len(self.deferred), connection))

    def finish(self) -> None:
        if self.ended:
            self._rules.record_ended(self.ended, self._is_noted, self._now_ms)
        first = 0
        for end, connection in self._deferred_of:
            self._on_deferred(self.deferred[first:end], connection)
            first = end
