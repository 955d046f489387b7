"""A simulated node: the real state machine, a disk, and the shell between them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec.structs import replace

from skyrocket.protocol.bodies.dledger import DLedgerEntry, LedgerMessage, PushEntryRequest, VoteRequest, VoteResult
from skyrocket.raft.config import FAST_TIMINGS, GroupConfig
from skyrocket.raft.election import Election
from skyrocket.raft.ledger import landing_position
from skyrocket.raft.node import RaftNode
from skyrocket.raft.outbox import Outbox
from skyrocket.raft.ports import (
    Append,
    Committed,
    CompareStored,
    Effect,
    EntriesCompared,
    Event,
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
    Response,
    Role,
    RoleChanged,
    Send,
    SendEntries,
    StateDurable,
    Tick,
    Truncate,
    Unreachable,
)
from tests.sim.disk import SimDisk
from tests.sim.invariants import is_same

if TYPE_CHECKING:
    from tests.sim.world import World

SEGMENT_BYTES = 4_096
RESPONSE = "response"


class LooseElection(Election):
    """DLedger's own way to vote: in a higher term only when it is asked again."""

    def _decide(self, request: VoteRequest) -> tuple[VoteResult, int]:
        before = self._core.term
        log = (request.ledger_end_term, request.ledger_end_index)
        is_current = log >= (self._core.ledger.end_term, self._core.ledger.end)
        if request.term > before and is_current and request.leader_id in self._core.config.others:
            self.adopt_term(request.term)
            return VoteResult.REJECT_TERM_NOT_READY, before
        return super()._decide(request)


class SimNode:
    """One node of a simulated group. `loose`: it answers before it syncs, as Apache's nodes do."""

    def __init__(self, world: World, name: str, *, loose: bool) -> None:
        self.world = world
        self.name = name
        self.loose = loose
        self.disk = SimDisk()
        self.incarnation = 0
        self.raft: RaftNode | None = None
        self.readable = -1
        self.slow_disk = 1
        self.peers_known_down: dict[str, int] = {}
        self._outbox = Outbox()
        self._handles: dict[int, tuple[str, int, int]] = {}
        self._handle = 0
        self._proposals: deque[tuple[int, bytes, Callable[[int], None]]] = deque()
        self._syncing = False
        self._syncing_state = False
        self._unsynced_state: Persist | None = None
        self._wake = 0.0

    # Life -------------------------------------------------------------------------------------------------------------

    @property
    def is_up(self) -> bool:
        return self.raft is not None

    @property
    def log(self) -> list[DLedgerEntry]:
        return self.disk.entries

    @property
    def has_entries(self) -> bool:
        return bool(self.disk.entries)

    @property
    def is_learner(self) -> bool:
        """Whether its disk says so."""
        return self.disk.state is not None and self.disk.state.learner

    def lose_disk(self) -> None:
        self.disk.wipe()

    def recover_speed(self) -> None:
        """The machine is as fast again as it was."""
        self.slow_disk = 1

    def start(self) -> None:
        world = self.world
        self.incarnation += 1
        config = GroupConfig(
            group="g",
            self_id=self.name,
            peer_ids=tuple(world.names),
            segment_bytes=SEGMENT_BYTES,
            push_entries_max=world.plan.push_entries_max,
            timings=FAST_TIMINGS,
        )
        bounds = self.disk.recover()
        if self.loose and world.plan.weak and self.disk.state is not None and self.disk.state.term < bounds.end_term:
            self.disk.state = self.disk.state._replace(term=bounds.end_term)  # Apache's nodes do not mind
        self.raft = RaftNode(config, self.disk.state, bounds, world.rng.randrange, world.now)
        if self.loose:
            self.raft._election.__class__ = LooseElection
        world.plan.plant(self.raft)
        self.readable = bounds.commit_index
        self._outbox = Outbox()
        self._handles.clear()
        self._proposals.clear()
        self._syncing = False
        self._syncing_state = False
        self._unsynced_state = None
        self._wake = 0.0
        self._sync_log()
        self.feed(Tick())

    def crash(self, *, power: bool) -> None:
        self.raft = None
        if power:
            self.disk.cut_power(self.world.rng)

    # Events -----------------------------------------------------------------------------------------------------------

    def feed(self, event: Event) -> None:
        """Step, and execute the effects until nothing is left to do at this moment."""
        assert self.raft is not None
        queue: deque[Event] = deque([event])
        while queue:
            for effect in self.raft.step(queue.popleft(), self.world.now):
                answer = self._execute(effect)
                if answer is not None:
                    queue.append(answer)
        self._schedule_tick()

    def _schedule_tick(self) -> None:
        assert self.raft is not None
        wake = max(self.raft.wake_at, self.world.now + 1)
        if wake < self._wake or self._wake <= self.world.now:
            self._wake = wake
            incarnation = self.incarnation

            def tick() -> None:
                if self.incarnation == incarnation and self.raft is not None and self._wake == wake:
                    self._wake = 0.0
                    self.feed(Tick())

            self.world.at(wake, tick)

    def later(self, delay: float, event: Callable[[], Event | None]) -> None:
        incarnation = self.incarnation

        def happen() -> None:
            if self.incarnation == incarnation and self.raft is not None:
                made = event()
                if made is not None:
                    self.feed(made)

        self.world.at(self.world.now + delay, happen)

    # Effects ----------------------------------------------------------------------------------------------------------

    def _execute(self, effect: Effect) -> Event | None:
        match effect:
            case Send() | Reply():
                if self._outbox.offer(effect) or self.loose or self.world.plan.may_leave_early(effect):
                    self._dispatch_message(effect)
            case SendEntries():
                return self._read_and_send(effect)
            case Persist(state):
                self.disk.write_state(state)
                self._unsynced_state = effect
                self._sync_state()
            case Append(entries):
                self._write(len(self.disk.entries) - 1, entries)
            case Truncate(keep_index):
                self.world.checker.keep_readable(self.name, self.readable, keep_index)
                self._write(keep_index, [])
            case ResetLog():
                self.world.checker.keep_readable(self.name, self.readable, -1)
                self._write(-1, [])
            case CompareStored(compare_id, entries):
                stored = self.disk.entries
                equal = all(entry.index < len(stored) and is_same(stored[entry.index], entry) for entry in entries)
                return EntriesCompared(compare_id, equal)
            case Committed(index):
                self._on_committed(index)
            case RoleChanged(role, term, _):
                self.world.note(f"{self.name} is {role.value} in term {term}")
                if role is Role.LEADER:
                    self.world.checker.elected(self.name, self.incarnation, term, self.disk.entries)
                else:
                    self._proposals.clear()  # unknown: neither acknowledged nor denied
            case ProposeMarker(term) if self.world.plan.writes_marker:
                return self._append_own([b"marker %d" % term])
            case Refused(_, why, sentence):
                self.world.refusals[why] = self.world.refusals.get(why, 0) + 1
                self.world.note(sentence)
        return None

    def _read_and_send(self, effect: SendEntries) -> Event:
        assert isinstance(effect.push, PushEntryRequest)
        count = min(effect.entries_max, self.world.plan.push_entries_max)
        entries = self.disk.entries[effect.first_index : effect.first_index + count]
        if entries:
            push = replace(effect.push)
            push.carry(entries, batch=len(entries) > 1)
            self._execute(Send(effect.to, effect.request_id, push, effect.after))
        return Pushed(effect.request_id, len(entries))

    def _dispatch_message(self, effect: Send | SendEntries | Reply) -> None:
        if isinstance(effect, Reply):
            found = self._handles.pop(effect.handle, None)
            if found is not None:
                peer, request_id, _ = found
                self.world.network.send(self, peer, RESPONSE, request_id, effect.message)
        else:
            assert isinstance(effect, Send)
            self.world.network.send(self, effect.to, "request", effect.request_id, effect.message)

    def receive(self, peer: str, kind: str, request_id: int, message: LedgerMessage) -> None:
        if kind == RESPONSE:
            self.feed(Response(peer, request_id, message))
            return
        self._handle += 1
        self._handles[self._handle] = (peer, request_id, self.incarnation)
        if len(self._handles) > 500:  # requests that are never answered
            del self._handles[next(iter(self._handles))]
        self.feed(Request(self._handle, message))

    def note_down(self, peer: str) -> None:
        self.feed(Unreachable(peer))

    # The log ----------------------------------------------------------------------------------------------------------

    def _write(self, keep_index: int, entries: list[DLedgerEntry]) -> None:
        self.disk.write(keep_index, entries)
        for entry in entries:
            if self.world.plan.dispatches_early:
                self.world.checker.dispatch(self.name, entry.index, entry)
        self._sync_log()

    def _sync_delay(self) -> float:
        return self.world.rng.uniform(0.5, self.world.plan.sync_ms) * self.slow_disk

    def _sync_log(self) -> None:
        """Sync what is written. Only one sync runs at a time; what is written meanwhile shares the next."""
        assert self.raft is not None
        if not self._syncing:
            self._syncing = True
            writes, point = self.disk.writes, LogPoint(self.raft.epoch, len(self.disk.entries) - 1)
            self.later(self._sync_delay(), lambda: self._log_synced(writes, point))

    def _log_synced(self, writes: int, point: LogPoint) -> Event:
        self._syncing = False
        self.disk.sync(writes)
        if self.disk.is_dirty:
            self._sync_log()
        for message in self._outbox.log_durable(point):
            if not self.loose and not self.world.plan.may_leave_early(message):
                self._dispatch_message(message)
        return LogDurable(point)

    def _sync_state(self) -> None:
        """Sync the newest term and vote. A newer one waits for the sync that runs."""
        effect = self._unsynced_state
        if effect is not None and not self._syncing_state:
            self._unsynced_state = None
            self._syncing_state = True
            self.later(self._sync_delay(), lambda: self._on_state_synced(effect))

    def _on_state_synced(self, effect: Persist) -> Event:
        self._syncing_state = False
        self._sync_state()
        if not (self.loose and self.world.plan.weak):
            self.disk.sync_state(effect.state)
        for message in self._outbox.state_durable(effect.token):
            if not self.loose and not self.world.plan.may_leave_early(message):
                self._dispatch_message(message)
        return StateDurable(effect.token)

    # Messages of producers --------------------------------------------------------------------------------------------

    def propose(self, bodies: list[bytes], acknowledge: Callable[[int], None]) -> bool:
        """Append messages if this node leads. `acknowledge` is called with the place of each once it is committed."""
        if self.raft is None or not self.raft.can_propose or len(self._proposals) > 1_000:
            return False
        first = len(self.disk.entries)
        event = self._append_own(bodies)
        for place, body in enumerate(bodies):
            self._proposals.append((first + place, body, acknowledge))
        self.feed(event)
        return True

    def _append_own(self, bodies: list[bytes]) -> Event:
        assert self.raft is not None
        log = self.disk.entries
        end = log[-1].pos + log[-1].size if log else 0
        entries = []
        for place, body in enumerate(bodies):
            size = 48 + len(body)
            pos = landing_position(end, size, SEGMENT_BYTES)
            entries.append(DLedgerEntry(size=size, index=len(log) + place, term=self.raft.term, pos=pos, body=body))
            end = pos + size
        self._write(len(log) - 1, entries)
        return Proposed(entries[-1].index, end)

    def _on_committed(self, index: int) -> None:
        assert self.raft is not None
        log, checker = self.disk.entries, self.world.checker
        checker.commit(self.name, self.raft.term, log, self.readable + 1, index)
        for place in range(self.readable + 1, index + 1):
            checker.dispatch(self.name, place, log[place])
        self.readable = index
        if self.world.rng.random() < 0.2:
            self.disk.checkpoint = index
        if self.raft.role is Role.LEADER:
            while self._proposals and self._proposals[0][0] <= index:
                place, body, acknowledge = self._proposals.popleft()
                checker.acknowledge(body, place)
                acknowledge(place)
