"""Drives the state machine of `skyrocket.raft`: events in, effects out, in their order.

    request, response, time, flush ──▶ feed(event) ──▶ RaftNode.step ──▶ effects: write, truncate, send, commit, change the role

Messages that tell of something leave when it is on disk (`Outbox`). The store's flusher syncs in a thread, with one sync for
all that was written meanwhile, and calls `on_flushed`. What clients send is appended by the send path. All of one turn of the
event loop is proposed together, and so pushed together.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

from skyrocket.broker.dledger.entry_reader import Entries, EntryReader
from skyrocket.chance import CHANCE
from skyrocket.net.outside_log import OutsideLog
from skyrocket.protocol.bodies.dledger import LeadershipTransferRequest, LedgerMessage, PushType
from skyrocket.protocol.ledger_push import decode_entry, encode_entry, encode_push_of
from skyrocket.raft.config import GroupConfig
from skyrocket.raft.core import Draw
from skyrocket.raft.ledger import LedgerBounds
from skyrocket.raft.node import RaftNode
from skyrocket.raft.outbox import Outbox, Outgoing
from skyrocket.raft.ports import (
    Append,
    Committed,
    CompareStored,
    Effect,
    EntriesCompared,
    Event,
    Expired,
    HardState,
    LogDurable,
    LogPoint,
    Persist,
    Proposed,
    ProposeMarker,
    Pushed,
    Refused,
    Reply,
    Request,
    ResetLog,
    Role,
    RoleChanged,
    Send,
    SendEntries,
    StateDurable,
    StorageFailed,
    Tick,
    Truncate,
)
from skyrocket.store.errors import DiskFullError, StoreError
from skyrocket.store.ledger.ledger_store import LedgerStore
from skyrocket.supervised_task import failure_of

log = logging.getLogger(__name__)
outside = OutsideLog(log)

TICK_MS_MAX: Final = 200  # between two looks at the clock
STALL_MS: Final = 40  # a tick that comes so late
AFTER_STALL_MS: Final = 5  # waits for what has arrived
NEVER_MS: Final = float("inf")
REQUESTS_RESTED: Final = 3  # time-outs of a request, before a node whose disk was full tries again
NOBODY: Final = 0  # waits for the answer to a request that the node makes to itself
HELD_PUSH_MS: Final = 10  # until a push is tried again that found a full connection
NO_LEADER: Final = "[PC_SYNCHRONIZED]broker busy: node {} of group {} does not lead it."  # the words that Apache's clients know
_BUSY_LEADER: Final = "[PC_SYNCHRONIZED]broker busy: node {} of group {} hands the leadership over."


class DriverShell(Protocol):
    """What the driver needs of the broker and the network."""

    def save_term(self, effect: Persist) -> None: ...

    def send_message(self, peer: str, request_id: int, message: LedgerMessage) -> None: ...

    def send_push(self, peer: str, request_id: int, body: bytes) -> None: ...

    def is_saving(self) -> bool:
        """Whether a term or vote is on its way to the disk."""

    def is_full(self, peer: str) -> bool: ...

    def reply(self, handle: int, message: LedgerMessage) -> None: ...

    def append_marker(self, term: int) -> None: ...

    def wake_flusher(self) -> None: ...

    def on_committed(self) -> None:
        """More is confirmed: answers may leave, and messages are visible."""

    def on_deposed(self, why: str) -> None:
        """The node does not lead any more: nothing that waits is answered with success."""

    def may_lead(self) -> bool:
        """Whether nothing but the election keeps the node from taking messages."""

    def on_role(self) -> None:
        """Role, leader or readiness may have changed."""


class GroupDriver:
    def __init__(
        self,
        config: GroupConfig,
        store: LedgerStore,
        shell: DriverShell,
        on_broken: Callable[[Exception], None],
        *,
        batch_push: bool = False,
        now_ms: Callable[[], float] = lambda: time.monotonic() * 1000,
        draw: Draw = CHANCE.randrange,
    ) -> None:
        """`batch_push` says whether nodes that read JSON take several entries in one push.

        A simulation gives the clock, `draw` for random numbers, and its own event loop.
        """
        self._config = config
        self._store = store
        self._shell = shell
        self._on_broken = on_broken
        self._batch_push = batch_push
        self._now_ms = now_ms
        self._reader = EntryReader(store, outside)
        self._draw = draw
        self.node = self._new_node()
        self._rest_ms = REQUESTS_RESTED * config.timings.request_timeout_ms
        self._rest_until_ms = NEVER_MS  # after a full disk
        self._begin_index = store.begin_index
        self._outbox = Outbox()
        self._events: deque[Event] = deque()
        self._is_running = False
        self._is_closed = False
        self._is_proposing = False  # a proposal of this turn is scheduled
        self._reported = LogPoint(0, -2)  # durable
        self._held: dict[str, SendEntries] = {}  # pushes for a connection that is full, one for each node
        self._lead_from: int | None = None  # the leader takes messages once everything up to this index is confirmed
        self._may_lead = False  # in this term; damage that is found later is repaired while the node leads
        self._is_leader = False  # as far as the broker knows
        self._is_reset = False  # the next entry begins the log
        self._is_failed = False  # the store takes no more writes
        self._committed = False  # since the last look
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0.0
        self._is_postponed = False  # the tick that is due now was due before
        self._gate()

    def _new_node(self) -> RaftNode:
        store = self._store
        state = HardState(store.term_vote.term, store.term_vote.voted_for, store.term_vote.is_learner)
        bounds = LedgerBounds(store.begin_index, store.end_index, store.end_term, store.log.end, store.committed_index)
        return RaftNode(self._config, state, bounds, self._draw, self._now_ms())

    # --- state

    @property
    def is_ready(self) -> bool:
        """Whether the node leads, has confirmed what the leaders before have left, and has repaired what can be repaired."""
        return self._leads_all and self._may_lead

    @property
    def _leads_all(self) -> bool:
        return self.node.role is Role.LEADER and self._lead_from is not None and self.node.commit_index >= self._lead_from

    # --- events

    def start(self) -> None:
        self.feed(Tick())

    def close(self) -> None:
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        self._reader.close()

    def feed(self, event: Event) -> None:
        """Take an event, now or behind those that are being handled."""
        if self._is_closed:
            return
        self._events.append(event)
        self._go_on()

    def _go_on(self) -> None:
        """Handle what has happened. That is no judgement of time: only `_tick` knows whether this process was held up."""
        if not self._is_running:
            self._is_running = True
            failure = failure_of(self._handle_events)
            self._is_running = False
            if failure is not None:
                self.close()
                log.critical("The node of the DLedger group failed.", exc_info=failure)
                self._on_broken(failure)

    def on_appended(self) -> None:
        """The send path has appended messages: propose all of this turn together."""
        if not self._is_proposing:
            self._is_proposing = True
            asyncio.get_running_loop().call_soon(self._propose_turn)

    def _propose_turn(self) -> None:
        self._is_proposing = False
        if self._store.end_index > self.node.end_index and not self._is_closed:
            self._go_on()

    def on_write_failed(self, error: StoreError) -> None:
        self.feed(self._failure(error))

    def on_flushed(self) -> None:
        """More of the log is on disk."""
        if self._durable_point() > self._reported and not self._is_closed:
            self._go_on()

    def on_saved(self, token: int) -> None:
        """Term and vote are on disk."""
        for message in self._outbox.state_durable(token):
            self._transmit(message)
        self.feed(StateDurable(token))

    def read_entries(self, index: int, count: int, bytes_max: int, done: Callable[[Entries], None]) -> None:
        """Read entries for a tool, or for another node that repairs its own."""
        self._reader.read(index, count, bytes_max, done)

    def hand_over(self, peers: tuple[str, ...]) -> None:
        """Let the one of these nodes lead that has most of the log."""
        marks = self.node.watermarks()
        request = LeadershipTransferRequest(
            group=self._config.group,
            local_id=self._config.self_id,
            remote_id=self._config.self_id,
            term=self.node.term,
            transfer_id=self._config.self_id,
            transferee_id=max(peers, key=lambda peer: marks.get(peer, -1)),
        )
        self.feed(Request(NOBODY, request))

    # --- steps

    def _handle_events(self) -> None:
        while not self._is_closed:
            self._propose()  # first: what was appended belongs to the term in which it was
            if not self._events:
                self._report_durable()
            if not self._events:
                break
            self._step(self._events.popleft())
        self._look_around()

    def _step(self, event: Event) -> None:
        for effect in self.node.step(event, self._now_ms()):
            self._execute(effect)

    def _propose(self) -> None:
        """Propose what was appended. A follower's store is longer than its node says only when it could not cut its log."""
        if self._store.end_index > self.node.end_index and self.node.role is Role.LEADER:
            self._step(Proposed(self._store.end_index, self._store.log.end))

    def _durable_point(self) -> LogPoint:
        return LogPoint(self.node.epoch, self._store.durable_index)

    def _report_durable(self) -> None:
        point = self._durable_point()
        if point > self._reported:
            self._reported = point
            for message in self._outbox.log_durable(point):
                self._transmit(message)
            self._events.append(LogDurable(point))

    def _look_around(self) -> None:
        """After the events of this moment: tell the others what has changed, and set the timer."""
        if self._is_closed:
            return
        if self._store.stopped is not None and not self._is_failed:
            self._is_failed = True
            self._events.append(StorageFailed(self._store.stopped.rstrip(".")))
        if self._is_leader and self._lead_from is None:
            self._lead_from = self._store.end_index
        self._may_lead = self._may_lead or (self._leads_all and self._shell.may_lead())
        self._gate()
        if self._committed:
            self._committed = False
            self._shell.on_committed()
        self._shell.on_role()
        self._set_timer()

    def _gate(self) -> None:
        """Let the store take messages of clients while the node may append."""
        if self.node.can_propose:
            self._store.set_term(self.node.term)
        else:
            words = _BUSY_LEADER if self.node.transferee is not None else NO_LEADER
            self._store.refuse_appends(words.format(self._config.self_id, self._config.group))

    def _set_timer(self) -> None:
        now = self._now_ms()
        wake = min(self.node.wake_at, now + (HELD_PUSH_MS if self._held or self._events else TICK_MS_MAX))
        wake = max(wake, now + 1)
        if self._timer is not None:
            if self._timer_ms <= wake:  # perhaps it is overdue: then it is next
                return
            self._timer.cancel()
        self._timer_ms = wake
        self._timer = asyncio.get_running_loop().call_later((wake - now) / 1000, self._tick)

    def _tick(self) -> None:
        self._timer = None
        now = self._now_ms()
        self._is_postponed = not self._is_postponed and now - self._timer_ms > STALL_MS
        if self._is_postponed:
            # This process was held up. What the others have said meanwhile lies in the sockets: it is read before time is judged.
            self._timer_ms = now + AFTER_STALL_MS
            self._timer = asyncio.get_running_loop().call_later(AFTER_STALL_MS / 1000, self._tick)
            return
        self._go_on_with_room()
        if self._store.begin_index > self._begin_index:  # retention
            self._begin_index = self._store.begin_index
            self._events.append(Expired(self._begin_index))
        held, self._held = self._held, {}
        for effect in held.values():
            self._push(effect)
        self.feed(Tick())

    # --- effects

    def _execute(self, effect: Effect) -> None:
        match effect:
            case Send() | Reply() | SendEntries():
                if self._outbox.offer(effect):
                    self._transmit(effect)
            case Append(entries):
                self._write(partial(self._append, [encode_entry(entry) for entry in entries]))
            case Truncate(keep_index):
                log.warning("Entries behind %d are not the leader's, and are cut off.", keep_index)
                self._write(lambda: self._store.truncate(keep_index + 1))
            case ResetLog(index):
                if self._store.end_index >= 0:
                    log.warning("The log begins anew, with entry %d of the leader.", index)
                self._is_reset = True
            case Committed(index):
                self._store.commit(index)
                self._committed = True
            case Persist():
                self._shell.save_term(effect)
            case CompareStored(compare_id, entries):
                self._reader.compare(entries, partial(self._take_comparison, self.node, compare_id))
            case RoleChanged(role, term, leader):
                self._change_role(role, term, leader)
            case ProposeMarker(term):
                self._shell.append_marker(term)
            case Refused(_, why, sentence):
                outside.warning("%s: %s", why.value, sentence)

    def _take_comparison(self, node: RaftNode, compare_id: int, is_equal: bool) -> None:
        if node is self.node:
            self.feed(EntriesCompared(compare_id, is_equal))

    def _append(self, entries: list[bytes]) -> None:
        if self._is_reset:
            self._is_reset = False
            self._store.begin_with(entries.pop(0))
        self._store.append_entries(entries)

    def _write(self, change: Callable[[], None]) -> None:
        try:
            change()
        except StoreError as error:
            self._events.append(self._failure(error))
        self._shell.wake_flusher()

    def _failure(self, error: StoreError) -> StorageFailed:
        """Return the event for a write that failed. On a full disk nothing of it is stored, and nothing is in doubt.

        A log that could not be cut is: the store is stopped then, whatever the reason.
        """
        if not isinstance(error, DiskFullError) or self._store.stopped is not None:
            return StorageFailed(str(error).rstrip("."))
        self._rest_until_ms = self._now_ms() + self._rest_ms
        return StorageFailed(f"{error} It goes on by itself when there is room", is_lasting=False)

    def _go_on_with_room(self) -> None:
        """After a full disk, take part again as after a start: with the log, the term and the vote that are on disk.

        By then no answer of before can arrive: a request waits for a shorter time.
        """
        if self._now_ms() < self._rest_until_ms or self._store.stopped is not None or self._shell.is_saving():
            return
        self._rest_until_ms = self._now_ms() + self._rest_ms
        try:
            self._store.check_appendable()
        except StoreError:
            return
        self._rest_until_ms = NEVER_MS
        self._outbox = Outbox()
        self._held.clear()
        self._events.clear()
        self._is_reset = False
        self._reported = LogPoint(0, -2)
        self.node = self._new_node()
        log.warning("There is room on the disk: node %s takes part in its group again.", self._config.self_id)

    def _change_role(self, role: Role, term: int, leader: str | None) -> None:
        log.info("Node %s is %s in term %d; the leader is %s.", self._config.self_id, role.value, term, leader)
        self._held.clear()
        self._lead_from = None
        self._may_lead = False
        was_leader, self._is_leader = self._is_leader, role is Role.LEADER
        self._gate()
        if was_leader and not self._is_leader:
            self._shell.on_deposed(f"node {self._config.self_id} does not lead group {self._config.group} any more")

    def _transmit(self, message: Outgoing) -> None:
        if isinstance(message, Reply):
            self._shell.reply(message.handle, message.message)
        elif isinstance(message, Send):
            self._shell.send_message(message.to, message.request_id, message.message)
        else:
            self._push(message)

    def _push(self, effect: SendEntries) -> None:
        """Read entries and send them. One push for each node is being read or held; the state machine waits for it."""
        if self._shell.is_full(effect.to):
            self._held[effect.to] = effect
            return
        if effect.binary and effect.kind is PushType.APPEND:
            run = self._store.recent_run(effect.first_index, effect.entries_max, effect.bytes_max)
            if run is not None:
                self._send_run(effect, *run)
                return
        is_long = effect.kind is PushType.APPEND and (effect.binary or self._batch_push)
        self._reader.read(
            effect.first_index,
            effect.entries_max if is_long else 1,
            effect.bytes_max,
            partial(self._send_entries, self.node, effect),
        )

    def _send_run(self, effect: SendEntries, count: int, entries: bytes | memoryview) -> None:
        """Send entries as they lie together in the log."""
        if self.node.role is not Role.LEADER or self.node.term != effect.push.term:
            return
        self._shell.send_push(effect.to, effect.request_id, encode_push_of(effect.push, count, entries))
        self.feed(Pushed(effect.request_id, count))

    def _send_entries(self, node: RaftNode, effect: SendEntries, entries: Entries) -> None:
        push = effect.push
        if node is not self.node or self.node.role is not Role.LEADER or self.node.term != push.term:
            return
        if entries:
            if effect.binary:
                body = encode_push_of(push, len(entries), b"".join(entries))
                self._shell.send_push(effect.to, effect.request_id, body)
            else:
                found = [decode_entry(bytes(entry), 0)[0] for entry in entries]
                push.carry(found, batch=self._batch_push and effect.kind is PushType.APPEND)
                self._shell.send_message(effect.to, effect.request_id, push)
        self.feed(Pushed(effect.request_id, len(entries)))
