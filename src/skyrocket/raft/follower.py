"""The follower's side: takes the leader's pushes.

`matched` is the index up to which the log is known to equal the log of the leader of this term: after a COMPARE or TRUNCATE of
that leader, and with every APPEND that follows. An APPEND has no previous index and term, so without that knowledge it is
answered with 406, upon which every leader compares.

Stricter than DLedger:
- An acknowledgement (of APPEND, COMPARE and TRUNCATE) leaves when the entries are durable.
- COMPARE and COMMIT are answered for the leader of this term only; the commit index counts up to `matched` only.
- Nothing at or below the commit index is truncated.
"""

from __future__ import annotations

from typing import NamedTuple

from skyrocket.protocol.bodies.dledger import LedgerCode, PushEntryRequest, PushEntryResponse, PushType
from skyrocket.raft.config import COMPARISONS_MAX, WAITING_APPENDS_MAX, WAITING_BYTES_MAX
from skyrocket.raft.core import Core
from skyrocket.raft.errors import RefusalReason
from skyrocket.raft.ledger import find_fault
from skyrocket.raft.ports import Append, CompareStored, LogPoint, ResetLog, Truncate

UNMATCHED = -2


class WaitingPush(NamedTuple):
    handle: int
    push: PushEntryRequest
    since: float
    size_bytes: int


class Comparison(NamedTuple):
    handle: int
    push: PushEntryRequest
    epoch: int


class Follower:
    """The log of one node while another one leads."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self.matched = UNMATCHED
        self.heard_at = core.now
        self._waiting: dict[int, WaitingPush] = {}
        self._comparisons: dict[int, Comparison] = {}
        self._compare_id = 0
        self._learner_target = UNMATCHED
        self.leader_admits = False
        """Whether the leader decides when a learner is a member again. Apache's do not know learners."""

    def start(self) -> None:
        """A leader has spoken up, of a new term or after a silence."""
        self.heard_at = self._core.now
        self.stop()

    def stop(self) -> None:
        """Forget what is known of the leader. Pushes that wait get no answer; their sender counts them as lost."""
        self.matched = UNMATCHED
        self._learner_target = UNMATCHED
        self._waiting.clear()
        self._comparisons.clear()

    @property
    def wake_at(self) -> float:
        wake = self.heard_at + self._core.timings.leader_silence_ms
        for waiting in self._waiting.values():
            wake = min(wake, waiting.since + self._core.timings.append_wait_ms)
        return wake

    def tick(self) -> bool:
        """Answer APPENDs whose predecessor does not come. Return False if the leader is silent for too long."""
        core = self._core
        late = [first for first, waiting in self._waiting.items() if core.now - waiting.since >= core.timings.append_wait_ms]
        if late:
            waiting = self._waiting.pop(min(late))
            self._answer(waiting.handle, waiting.push, LedgerCode.INCONSISTENT_STATE)
            for first in late:
                self._waiting.pop(first, None)
        return core.now - self.heard_at <= core.timings.leader_silence_ms

    # Pushes -----------------------------------------------------------------------------------------------------------

    def take_push(self, handle: int, push: PushEntryRequest) -> None:
        """Handle a push of this term's leader, which this node follows."""
        core = self._core
        self.heard_at = core.now
        entries = push.entries
        if push.type is PushType.COMMIT:
            self._take_commit(handle, push)
            return
        fault = find_fault(entries, push.term) if entries else "it has no entry"
        if fault is not None:
            core.refuse(
                push.leader_id,
                RefusalReason.IMPOSSIBLE_ENTRY,
                f"Leader '{push.leader_id}' pushes what no ledger contains: {fault}. The push is refused; check that node.",
            )
            self._answer(handle, push, LedgerCode.UNEXPECTED_ARGUMENT)
        elif push.type is PushType.APPEND:
            self._take_append(handle, push)
        else:
            self._waiting.clear()
            if push.type is PushType.COMPARE:
                self._learner_target = max(self._learner_target, entries[0].index)
            if core.ledger.has(entries[0].index):
                self._compare(handle, push)
            else:
                self._finish_comparison(handle, push, equal=False)

    def _take_commit(self, handle: int, push: PushEntryRequest) -> None:
        if self.matched == UNMATCHED:
            self._answer(handle, push, LedgerCode.INCONSISTENT_STATE)
            return
        self._core.advance_commit(min(push.commit_index, self.matched))
        self._answer(handle, push, LedgerCode.SUCCESS)

    def _take_append(self, handle: int, push: PushEntryRequest) -> None:
        ledger, entries = self._core.ledger, push.entries
        first, last = entries[0].index, entries[-1].index
        if self.matched != ledger.end:
            self._answer(handle, push, LedgerCode.INCONSISTENT_STATE)
        elif last <= ledger.end:
            self._compare(handle, push)
        elif first <= ledger.end:
            self._answer(handle, push, LedgerCode.INCONSISTENT_STATE)
        elif first > ledger.end + 1:
            if first in self._waiting:
                self._answer(handle, push, LedgerCode.REPEATED_PUSH)
            else:
                size_bytes = sum(entry.size for entry in entries)
                held_bytes = sum(waiting.size_bytes for waiting in self._waiting.values())
                if len(self._waiting) >= WAITING_APPENDS_MAX or held_bytes + size_bytes > WAITING_BYTES_MAX:
                    self._answer(handle, push, LedgerCode.INCONSISTENT_STATE)
                else:
                    self._waiting[first] = WaitingPush(handle, push, self._core.now, size_bytes)
        else:
            self._append(handle, push)
            while (waiting := self._waiting.pop(ledger.end + 1, None)) is not None:
                self._append(waiting.handle, waiting.push)

    def _append(self, handle: int, push: PushEntryRequest) -> None:
        """Append what follows the end. An entry that would land at another position than the leader's belongs to another log."""
        core, ledger, entries = self._core, self._core.ledger, push.entries
        taken = 0
        for entry in entries:
            if ledger.landing(entry.size) != entry.pos or entry.term < ledger.end_term:
                break
            ledger.append(entry)
            taken += 1
        if taken:
            self.matched = ledger.end
            core.emit(Append(entries[:taken], ledger.epoch))
        if taken < len(entries):
            entry = entries[taken]
            core.refuse(
                push.leader_id,
                RefusalReason.IMPOSSIBLE_ENTRY,
                f"Entry {entry.index} of term {entry.term} at position {entry.pos} does not follow the end of this log (term"
                f" {ledger.end_term}, position {ledger.end_position}). Check that mappedFileSizeCommitLog is equal on all nodes.",
            )
            self.matched = UNMATCHED
            self._answer(handle, push, LedgerCode.INCONSISTENT_STATE)
            return
        core.advance_commit(min(push.commit_index, self.matched))
        self._answer(handle, push, LedgerCode.SUCCESS, ledger.end_point)

    # Comparisons ------------------------------------------------------------------------------------------------------

    def _compare(self, handle: int, push: PushEntryRequest) -> None:
        if len(self._comparisons) >= COMPARISONS_MAX:
            self._answer(handle, push, LedgerCode.INTERNAL_ERROR)
            return
        self._compare_id += 1
        self._comparisons[self._compare_id] = Comparison(handle, push, self._core.ledger.epoch)
        self._core.emit(CompareStored(self._compare_id, push.entries))

    def take_comparison(self, compare_id: int, *, equal: bool) -> None:
        """The shell has compared. Forgotten comparisons, of another term or leader, are ignored."""
        comparison = self._comparisons.pop(compare_id, None)
        if comparison is None:
            return
        handle, push, epoch = comparison
        if epoch != self._core.ledger.epoch:
            if self._core.ledger.has(push.entries[-1].index):
                self._compare(handle, push)
                return
            equal = False
        if push.type is not PushType.APPEND:
            self._finish_comparison(handle, push, equal=equal)
        elif equal:
            self._core.advance_commit(min(push.commit_index, self.matched))
            self._answer(handle, push, LedgerCode.SUCCESS, LogPoint(self._core.ledger.epoch, push.entries[-1].index))
        else:
            self._answer(handle, push, LedgerCode.INCONSISTENT_STATE)

    def _finish_comparison(self, handle: int, push: PushEntryRequest, *, equal: bool) -> None:
        ledger, entry = self._core.ledger, push.entries[0]
        if push.type is PushType.TRUNCATE:
            self._truncate(handle, push, equal=equal)
        elif not equal:
            self._answer(handle, push, LedgerCode.INCONSISTENT_STATE)
        else:
            # What is behind the entry may be another leader's. The leader truncates it before it appends.
            self.matched = max(self.matched, entry.index)
            self._answer(handle, push, LedgerCode.SUCCESS, LogPoint(ledger.epoch, entry.index))

    def _truncate(self, handle: int, push: PushEntryRequest, *, equal: bool) -> None:
        """Cut behind the entry if it is stored; otherwise nothing that is stored is the leader's: begin with the entry."""
        core, ledger, entry = self._core, self._core.ledger, push.entries[0]
        if entry.index < self.matched or (entry.index == self.matched and not equal):
            # A late copy of a push: since then this leader has appended behind the entry, and counts these entries.
            self._answer(handle, push, LedgerCode.INCONSISTENT_STATE)
            return
        if ledger.end >= 0 and (entry.index < core.commit or (entry.index == core.commit and not equal)):
            core.refuse(
                push.leader_id,
                RefusalReason.BELOW_COMMITTED,
                f"Leader '{push.leader_id}' of term {push.term} wants to truncate this log at {entry.index}, but entries up to"
                f" {core.commit} are committed; nothing is cut. Stop that node and compare its ledger with the others'.",
            )
            self._answer(handle, push, LedgerCode.INCONSISTENT_STATE)
            return
        if equal:
            if entry.index < ledger.end:
                ledger.truncate(entry)
                core.emit(Truncate(entry.index, ledger.epoch))
        else:
            ledger.reset(entry.pos)
            core.emit(ResetLog(entry.index, entry.pos, ledger.epoch))
            ledger.append(entry)
            core.emit(Append([entry], ledger.epoch))
        self.matched = ledger.end
        core.advance_commit(min(push.commit_index, self.matched))
        self._answer(handle, push, LedgerCode.SUCCESS, ledger.end_point)

    def note_durable(self) -> None:
        """More of the log is durable. Under an Apache leader, a learner that has its whole log is a member again."""
        core = self._core
        target = self._learner_target
        if core.learner and not self.leader_admits and target != UNMATCHED and min(core.ledger.durable, self.matched) >= target:
            core.end_learning()

    def _answer(self, handle: int, push: PushEntryRequest, code: LedgerCode, log: LogPoint | None = None) -> None:
        entries, ledger = push.entries, self._core.ledger
        response = PushEntryResponse(
            group=push.group,
            term=push.term,
            code=code.value,
            begin_index=ledger.begin,
            end_index=ledger.end,
            learner=True if self._core.learner else None,
        )
        if push.type is not PushType.COMMIT:
            response.index = entries[0].index if entries else -1
            response.count = len(entries)
        self._core.reply(handle, response, log)
