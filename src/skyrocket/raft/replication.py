"""The leader's side: heartbeats, comparing, truncating, appending, committing.

Stricter than DLedger:
- The leader counts its own copy only up to what is durable.
- An entry of a former term is committed only together with one of the leader's own term (`ProposeMarker`).
- A follower that answers an idle leader's COMMIT with a lower end has lost entries: it is compared and filled again. It may have
  promised its vote to another leader before, so its copies count only when the leader has admitted it.
- The leader steps down when no quorum has answered a heartbeat for as long as a follower waits for one.
"""

from __future__ import annotations

from msgspec.structs import replace

from skyrocket.protocol.bodies.dledger import (
    HeartBeatRequest,
    HeartBeatResponse,
    LedgerCode,
    PushEntryRequest,
    PushEntryResponse,
    PushType,
)
from skyrocket.raft.config import INFLIGHT_PUSHES_MAX
from skyrocket.raft.core import Core, PendingRequest
from skyrocket.raft.errors import RefusalReason
from skyrocket.raft.ports import ProposeMarker
from skyrocket.raft.progress import FollowerProgress, InflightPush, PeerState

BINARY_PUSH_VERSION = 1
HEARTBEAT = "HEART_BEAT"


class LogReplication:
    """The leader of one term and its followers."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self.peers: dict[str, FollowerProgress] = {peer: FollowerProgress() for peer in core.config.others}
        self._heartbeat_at = 0.0
        self._led_term = -1
        self._term_start = 0

    # Start and time ---------------------------------------------------------------------------------------------------

    def start_term(self) -> None:
        """Begin to lead: heartbeats now, and every follower is compared."""
        core = self._core
        binary = {peer: progress.binary for peer, progress in self.peers.items()}
        self.peers = {
            peer: FollowerProgress(answered_at=core.now, pushed_at=core.now, binary=binary[peer]) for peer in core.config.others
        }
        if self._led_term != core.term:  # otherwise it stepped down and leads the same term again: its entries are its own
            self._led_term = core.term
            self._term_start = core.ledger.end + 1
        self._heartbeat_at = core.now
        if core.ledger.end > core.commit and core.ledger.end < self._term_start:
            core.emit(ProposeMarker(core.term))
        self.tick()

    @property
    def wake_at(self) -> float:
        timings = self._core.timings
        wake = self._heartbeat_at
        for progress in self.peers.values():
            if progress.reading:
                continue  # `Pushed` comes next
            if progress.state is not PeerState.APPEND:
                if self._core.ledger.end < 0:
                    continue
                due = progress.waiting_since + timings.compare_timeout_ms if progress.waiting else progress.retry_at
            elif progress.inflight:
                due = next(iter(progress.inflight.values())).sent_at + timings.retransmit_ms
            elif progress.commit_told < self._core.commit:
                due = progress.pushed_at + timings.commit_notice_ms
            else:
                due = progress.pushed_at + timings.commit_interval_ms
            wake = min(wake, due)
        return wake

    def tick(self) -> bool:
        """Do what is due. Return False if the leader has no quorum any more."""
        core = self._core
        acked = sorted([progress.answered_at for progress in self.peers.values()] + [core.now], reverse=True)
        if core.now - acked[len(core.config.peer_ids) // 2] > core.timings.leader_silence_ms:
            return False
        if core.now >= self._heartbeat_at:
            self._heartbeat_at = core.now + core.timings.heartbeat_ms
            for peer in self.peers:
                self._send_heartbeat(peer)
        for peer, progress in self.peers.items():
            self._pump(peer, progress)
        return True

    def _send_heartbeat(self, peer: str) -> None:
        core = self._core
        version = BINARY_PUSH_VERSION if core.config.binary_push else None
        progress = self.peers[peer]
        admit = self._may_admit(progress)
        core.send(
            peer, HeartBeatRequest(leader_id=core.config.self_id, term=core.term, binary_push=version, admit=admit), HEARTBEAT
        )

    def _may_admit(self, learner: FollowerProgress) -> bool:
        """Whether a follower that had lost its disk is a full member again.

        It has what the leader had when it came back. And it cannot have promised its vote to a leader of a higher term: since it
        is back, a quorum without it, or all nodes, have answered heartbeats or pushes of this term.
        """
        since = learner.learner_since
        if since is None:
            return False
        if learner.learner_target >= 0 and (learner.state is not PeerState.APPEND or learner.match < learner.learner_target):
            return False
        answered = [progress for progress in self.peers.values() if progress.answered_at > since]
        members = [progress for progress in answered if progress.learner_since is None]
        return len(members) + 1 >= self._core.config.quorum or len(answered) == len(self.peers)

    # Sending ----------------------------------------------------------------------------------------------------------

    def pump_all(self) -> None:
        """The log has grown: send it."""
        for peer, progress in self.peers.items():
            self._pump(peer, progress)

    def _pump(self, peer: str, progress: FollowerProgress) -> None:
        core, now = self._core, self._core.now
        if progress.state is not PeerState.APPEND:
            self._pump_comparison(peer, progress)
            return
        if progress.reading:
            return
        if progress.inflight:
            first, oldest = next(iter(progress.inflight.items()))
            if now - oldest.sent_at >= core.timings.retransmit_ms:
                oldest.sent_at = now
                progress.reading = core.send_entries(peer, PushType.APPEND, first, oldest.count, binary=progress.binary)
                return
        if progress.next <= core.ledger.end:
            if len(progress.inflight) < INFLIGHT_PUSHES_MAX:
                entries_max = core.config.push_entries_max
                progress.commit_told = core.commit
                progress.reading = core.send_entries(peer, PushType.APPEND, progress.next, entries_max, binary=progress.binary)
            return
        idle = now - progress.pushed_at
        news = progress.commit_told < core.commit and idle >= core.timings.commit_notice_ms
        if news or idle >= core.timings.commit_interval_ms:
            self._send_commit(peer, progress)

    def _send_commit(self, peer: str, progress: FollowerProgress) -> None:
        core = self._core
        progress.pushed_at = core.now
        progress.commit_told = core.commit
        push = PushEntryRequest(leader_id=core.config.self_id, term=core.term, type=PushType.COMMIT, commit_index=core.commit)
        core.send(peer, push, PushType.COMMIT, match=progress.match)

    def _pump_comparison(self, peer: str, progress: FollowerProgress) -> None:
        core, ledger = self._core, self._core.ledger
        if progress.waiting:
            if core.now - progress.waiting_since < core.timings.compare_timeout_ms:
                return
            progress.compare_again(core.now, index=progress.compare_index)
        if ledger.end < 0 or core.now < progress.retry_at or progress.reading:
            return
        if not ledger.has(progress.compare_index):
            progress.compare_index = ledger.end
            progress.state = PeerState.COMPARE
        kind = PushType.COMPARE if progress.state is PeerState.COMPARE else PushType.TRUNCATE
        progress.waiting = core.send_entries(peer, kind, progress.compare_index, 1, binary=progress.binary)
        progress.reading = progress.waiting
        progress.waiting_since = core.now
        progress.commit_told = core.commit if kind is PushType.TRUNCATE else progress.commit_told

    def note_pushed(self, request_id: int, count: int) -> None:
        """The shell has read and sent `count` entries."""
        core = self._core
        request = core.pending.get(request_id)
        if request is None:
            return
        progress = self.peers[request.peer]
        if progress.reading != request_id:
            return
        progress.reading = 0
        if count <= 0:
            del core.pending[request_id]
            progress.compare_again(core.now, core.timings.compare_pause_ms)
            return
        core.pending[request_id] = replace(request, count=count)
        progress.pushed_at = core.now
        if request.kind == PushType.APPEND and progress.state is PeerState.APPEND:
            again = progress.inflight.get(request.first)
            if again is None:
                progress.inflight[request.first] = InflightPush(count, core.now)
            else:
                again.count = max(again.count, count)
            progress.next = max(progress.next, request.first + count)
            self._pump(request.peer, progress)

    # Answers ----------------------------------------------------------------------------------------------------------

    def take_heartbeat_answer(self, request: PendingRequest, response: HeartBeatResponse) -> int | None:
        """Note a follower's answer. Return a higher term that it speaks of."""
        core, progress = self._core, self.peers[request.peer]
        progress.alive = True
        if response.code == LedgerCode.SUCCESS:
            progress.answered_at = max(progress.answered_at, request.sent_at)
            self._note_learner(progress, request, bool(response.learner))
            progress.binary = core.config.binary_push and (response.binary_push or 0) >= BINARY_PUSH_VERSION
        elif response.code == LedgerCode.TERM_NOT_READY:
            self._heartbeat_at = min(self._heartbeat_at, core.now + 10)
        elif response.code == LedgerCode.EXPIRED_TERM and response.term > core.term:
            return response.term if core.is_possible_term(response.term, request.peer) else None
        elif response.code == LedgerCode.INCONSISTENT_LEADER:
            core.refuse(
                request.peer,
                RefusalReason.SECOND_LEADER,
                f"Node '{request.peer}' follows another leader in term {core.term}. Check that no two nodes have one id.",
            )
        elif response.code in (LedgerCode.UNKNOWN_GROUP, LedgerCode.UNKNOWN_MEMBER, LedgerCode.UNEXPECTED_MEMBER):
            core.refuse(
                request.peer,
                RefusalReason.NOT_FOR_THIS_NODE,
                f"Node '{request.peer}' refuses this node with code {response.code}."
                " Compare dLegerGroup, dLegerPeers and dLegerSelfId of both.",
            )
        return None

    def _note_learner(self, progress: FollowerProgress, request: PendingRequest, is_learner: bool) -> None:
        """Note what an answer says. An answer to an older request may be from before the follower lost its disk."""
        if is_learner and progress.learner_since is None:
            progress.learner_since = self._core.now
            progress.learner_target = self._core.ledger.end
        elif not is_learner and progress.learner_since is not None and request.sent_at >= progress.learner_since:
            progress.learner_since = None

    def take_push_answer(self, request_id: int, request: PendingRequest, response: PushEntryResponse) -> None:
        progress = self.peers[request.peer]
        self._note_learner(progress, request, bool(response.learner))
        if response.code == LedgerCode.SUCCESS:  # on a busy machine a heartbeat may wait behind many pushes
            progress.answered_at = max(progress.answered_at, request.sent_at)
        if request.kind == PushType.COMMIT:
            self._take_commit_answer(request, response, progress)
        elif request.kind == PushType.APPEND:
            self._take_append_answer(request, response, progress)
        elif progress.waiting == request_id:
            progress.waiting = 0
            progress.reading = 0
            if request.kind == PushType.COMPARE:
                self._take_compare_answer(request, response, progress)
            else:
                self._take_truncate_answer(request, response, progress)
        self._pump(request.peer, progress)
        self.update_commit()

    def _take_commit_answer(self, request: PendingRequest, response: PushEntryResponse, progress: FollowerProgress) -> None:
        core = self._core
        if progress.state is not PeerState.APPEND:
            return
        if response.code == LedgerCode.INCONSISTENT_STATE:
            progress.compare_again(core.now)
        elif response.code == LedgerCode.SUCCESS and response.end_index < min(request.match, progress.match):
            core.refuse(
                request.peer,
                RefusalReason.LOST_ENTRIES,
                f"Node '{request.peer}' had entries up to {request.match} and has them up to {response.end_index} now."
                " It is filled again; check its disk.",
            )
            progress.match = response.end_index
            progress.compare_again(core.now)

    def _take_append_answer(self, request: PendingRequest, response: PushEntryResponse, progress: FollowerProgress) -> None:
        core = self._core
        if progress.state is not PeerState.APPEND:
            return
        if response.code == LedgerCode.INCONSISTENT_STATE:
            progress.compare_again(core.now)
        elif response.code == LedgerCode.SUCCESS:
            last = request.first + request.count - 1
            if response.index != request.first or response.count not in (0, request.count) or response.end_index < last:
                self._refuse_answer(request, response)
                progress.compare_again(core.now, core.timings.compare_pause_ms)
                return
            progress.acknowledge(last)

    def _take_compare_answer(self, request: PendingRequest, response: PushEntryResponse, progress: FollowerProgress) -> None:
        core, ledger, index = self._core, self._core.ledger, request.first
        if response.code not in (LedgerCode.SUCCESS, LedgerCode.INCONSISTENT_STATE):
            progress.compare_again(core.now, core.timings.compare_pause_ms, progress.compare_index)
            return
        if response.code == LedgerCode.SUCCESS:
            if response.end_index < index:
                self._refuse_answer(request, response)
                progress.compare_again(core.now, core.timings.compare_pause_ms)
            elif response.end_index == index:
                progress.append_after(index)
            elif (between := progress.note_equal(index)) is not None:
                progress.compare_index = between
            else:
                progress.truncate_at(index)
            return
        progress.match = min(progress.match, response.end_index)
        disjoint = response.end_index < ledger.begin or response.begin_index > ledger.end
        if disjoint or index < response.begin_index:
            progress.truncate_at(ledger.begin)
        elif index > response.end_index:
            progress.compare_index = response.end_index
        else:
            earlier = progress.note_different(index, max(ledger.begin, response.begin_index))
            if earlier is None:
                progress.truncate_at(ledger.begin)
            elif earlier == progress.equal_at:
                progress.truncate_at(earlier)
            else:
                progress.compare_index = earlier

    def _take_truncate_answer(self, request: PendingRequest, response: PushEntryResponse, progress: FollowerProgress) -> None:
        core = self._core
        if response.code == LedgerCode.SUCCESS and response.end_index == request.first:
            progress.append_after(request.first)
        else:
            progress.compare_again(core.now, core.timings.compare_pause_ms)

    def _refuse_answer(self, request: PendingRequest, response: PushEntryResponse) -> None:
        self._core.refuse(
            request.peer,
            RefusalReason.IMPOSSIBLE_ANSWER,
            f"Node '{request.peer}' answers a push of {request.count} entries from {request.first} with index {response.index},"
            f" count {response.count} and end {response.end_index}; it does not count, and the node is compared again.",
        )

    def note_unreachable(self, peer: str) -> None:
        progress = self.peers[peer]
        progress.alive = False
        progress.binary = False
        progress.compare_again(self._core.now, self._core.timings.compare_pause_ms)

    # Commit -----------------------------------------------------------------------------------------------------------

    def quorum_index(self) -> int:
        """Return the last index that a majority has on disk. Copies of a node that lost its disk do not count."""
        copies = [progress.match if progress.learner_since is None else -1 for progress in self.peers.values()]
        marks = sorted([*copies, self._core.ledger.durable], reverse=True)
        return marks[len(marks) // 2]

    def may_commit(self, index: int) -> bool:
        """Only an entry of the leader's own term is committed by counting its copies; it takes all before it along."""
        return index >= self._term_start

    def update_commit(self) -> None:
        index = self.quorum_index()
        if index > self._core.commit and self.may_commit(index):
            self._core.advance_commit(index)
