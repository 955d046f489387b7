"""A simulated node with the broker's own parts: store, flusher, driver, writer of the term file, answers that wait.

    LedgerStore      over a simulated disk: DLedger's files, recovery, queues behind the horizon
    Flusher          group commit and checkpoints
    GroupDriver      the shell of the state machine, with its EntryReader and Outbox
    TermSaver        term and vote
    ConfirmedAnswers what a producer is told, and when

Simulated are the clock, the event loop with its threads, the disk, the network, and who sends and reads. After each turn of the
event loop the node tells the checker what it claims now: that it leads, that entries are committed, what its queues show.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from skyrocket.broker.dledger.driver import NEVER_MS, GroupDriver
from skyrocket.broker.dledger.group import CHECKPOINT_MS
from skyrocket.broker.dledger.marker import make_marker
from skyrocket.broker.send.parked_answers import ConfirmedAnswers
from skyrocket.protocol.bodies.dledger import DLedgerEntry, LedgerMessage
from skyrocket.protocol.command import Command, encode_command
from skyrocket.protocol.hosts import pack_host
from skyrocket.protocol.ledger_push import decode_entry, decode_push
from skyrocket.protocol.message.record import Record, decode_record
from skyrocket.protocol.responses import ResponseCode
from skyrocket.protocol.system_names import SELF_TEST_TOPIC
from skyrocket.raft.config import FAST_TIMINGS, GroupConfig
from skyrocket.raft.node import RaftNode
from skyrocket.raft.outbox import Outbox, Outgoing
from skyrocket.raft.ports import Event, Persist, Request, Response, Role, StorageFailed, Unreachable
from skyrocket.store.errors import StoreError, StoreIOError
from skyrocket.store.flusher import Flusher
from skyrocket.store.ledger.ledger_store import LedgerStore
from skyrocket.store.ledger.node_files import decode_term
from skyrocket.store.paths import StorePaths
from tests.sim.invariants import ViolationError
from tests.sim.node import RESPONSE, LooseElection
from tests.sim.store.disk import after_power_cut
from tests.sim.store.loop import NodeLoop
from tests.support.stores.ledgers import INDEX_FILE_BYTES, LEDGER_CONFIG
from tests.support.stores.simulated_disk import PowerCut, SimulatedDisk
from tests.support.stores.store_messages import ROOT, START_MS, a_message

if TYPE_CHECKING:
    from tests.sim.store.world import StoreWorld

TOPIC = "orders"
CONFIG = replace(LEDGER_CONFIG, sync_flush=True)
CHECK_MS = 1_000
HOST = pack_host("10.0.0.7", 10911)


PADDING = (0, 0, 30, 600)  # bytes behind a message, so that entries are smaller and larger than a sector
FULL_SHARE = 0.02  # of the pushes find a full connection, and are tried again
REST_MS = 400  # after a full disk
LIFE_IDS = 2**32  # request ids of one state machine
SUCCESS = encode_command(Command(ResponseCode.SUCCESS))


def sent_in(record: Record) -> bytes:
    """Return what a producer sent in a message, without padding."""
    return b"marker " + record.body if record.topic == SELF_TEST_TOPIC else record.body.partition(b" ")[0]


def message_of(entry: DLedgerEntry) -> bytes:
    return sent_in(decode_record(entry.body))


class StoredLog(Sequence[DLedgerEntry]):
    """The log of a store, entry by entry as it is read from the files."""

    def __init__(self, store: LedgerStore) -> None:
        self._store = store

    def __len__(self) -> int:
        return self._store.end_index + 1

    def __getitem__(self, index: Any) -> Any:
        found = self._store.entry(index)
        if found is None:
            raise IndexError(index)
        return decode_entry(found, 0)[0]

    def __iter__(self) -> Iterator[DLedgerEntry]:
        index = 0
        while found := self._store.entries(index):
            for entry in found:
                yield decode_entry(bytes(entry), 0)[0]
            index += len(found)


class LooseOutbox(Outbox):
    """Holds nothing back, as Apache's nodes do not."""

    def offer(self, message: Outgoing) -> bool:
        return True


class Answered:
    """A producer's connection: takes the encoded answer to a send."""

    def __init__(self, node: StoreNode, index: int, message: bytes, acknowledge: Callable[[int], None]) -> None:
        self._node = node
        self._place = (index, message, acknowledge)

    def send(self, answer: bytes) -> None:
        if answer == SUCCESS:
            self._node.acknowledged.append(self._place)


class StoreNode:
    """One node of a simulated group. `loose`: it answers before it syncs, as Apache's nodes do."""

    def __init__(self, world: StoreWorld, name: str, *, loose: bool) -> None:
        self.world = world
        self.name = name
        self.loose = loose
        self.disk = SimulatedDisk(world.rng.randrange(2**32))
        self.incarnation = 0
        self.readable = -1
        self.slow_disk = 1
        self.has_entries = False
        self.peers_known_down: dict[str, int] = {}
        self.acknowledged: list[tuple[int, bytes, Callable[[int], None]]] = []
        self.store: LedgerStore | None = None
        self.is_stopping = False
        self.is_failed = False
        self.is_patient = False  # its disk was full, and nobody starts it again
        self.kills_when_off = False
        self._driver: GroupDriver | None = None

    # Life -------------------------------------------------------------------------------------------------------------

    @property
    def raft(self) -> RaftNode | None:
        return None if self._driver is None else self._driver.node

    @property
    def is_up(self) -> bool:
        return self._driver is not None

    def start(self) -> None:
        self.incarnation += 1
        self.is_stopping = self.is_failed = self.is_patient = self.kills_when_off = False
        self.loop = NodeLoop(self.world, self._job_ms, self._after_turn)
        self.loop.turn(self._open)

    def _job_ms(self) -> float:
        return self.world.rng.uniform(0.5, self.world.plan.sync_ms) * self.slow_disk

    def _now_ms(self) -> int:
        return int(self.world.now)

    def _wall_ms(self) -> int:
        return START_MS + int(self.world.now)

    def _open(self) -> None:
        world, plan = self.world, self.world.plan
        if world.rng.random() < 0.3:
            self.disk.forget_pages()
        store = plan.store_type(ROOT, CONFIG, node_id=self.name, files=self.disk, index_file_bytes=INDEX_FILE_BYTES)
        try:
            store.open()
        except StoreError as error:
            raise ViolationError(f"{self.name} cannot open its store: {error}") from error
        config = GroupConfig(
            group="g",
            self_id=self.name,
            peer_ids=tuple(world.names),
            segment_bytes=CONFIG.segment_bytes,
            push_entries_max=plan.push_entries_max,
            timings=FAST_TIMINGS,
        )
        self.store = store
        self._log = StoredLog(store)
        self._flusher = Flusher(store, self._now_ms, self._on_flushed, self._note_failure)
        self._answers = ConfirmedAnswers(store.horizon, self._now_ms)
        self._driver = driver = GroupDriver(
            config,
            store,
            self,
            self._note_failure,
            batch_push=plan.batch_push,
            now_ms=lambda: world.now,
            draw=world.rng.randrange,
        )
        self._saver = plan.saver_type(store, driver.on_saved, lambda why: driver.feed(StorageFailed(why)))
        driver._outbox = LooseOutbox() if self.loose else plan.make_outbox()
        driver._rest_ms = REST_MS
        self._life = 0
        self._prepare(driver.node)
        self._handles: dict[int, tuple[str, int]] = {}
        self._handle = 0
        self._led = self._role = (Role.CANDIDATE, -1)
        self._seen: dict[tuple[str, int], int] = {}
        self.acknowledged.clear()
        self.readable = -1
        self.loop.call_later(CHECK_MS / 1000, self._check_time)
        self.loop.call_later(CHECKPOINT_MS / 1000, self._checkpoint)
        self._grown = [key for key, _ in store.queues]
        driver.start()

    def _prepare(self, raft: RaftNode) -> None:
        if self.loose:
            raft._election.__class__ = LooseElection
        self.world.plan.plant(raft)
        self._prepared = raft

    def _find_life(self) -> int:
        """Return which state machine of this process runs: after a full disk the driver begins with another one.

        It counts its requests anew. The broker has forgotten the older requests by then, because their time is up.
        """
        assert self._driver is not None
        if self._driver.node is not self._prepared:
            self._prepare(self._driver.node)
            self._life += 1
            self.is_failed = False
            self.world.on_room(self)
        return self._life

    @property
    def goes_on_by_itself(self) -> bool:
        """Whether its disk was full, and nothing else keeps it from taking part."""
        assert self._driver is not None
        assert self.store is not None
        return self._driver._rest_until_ms < NEVER_MS and self.store.stopped is None and not self._saver._is_failed

    def crash(self, *, power: bool) -> None:
        """End the process. The page cache outlives it, unless the power is cut, too."""
        if self.store is not None:
            self.has_entries = self.store.durable_index >= 0
        self._end()
        rng = self.world.rng
        self.disk = after_power_cut(self.disk, rng) if power else self.disk.kill()

    def _end(self) -> None:
        self.loop.end()
        if self._driver is not None:
            self._driver.close()
        self._driver = self.store = None

    def stop(self) -> None:
        """End the process in an orderly way. It takes a moment, in which the node may still be killed."""
        self.is_stopping = True
        self.loop.turn(self._begin_stop)

    def _begin_stop(self) -> None:
        self._stopping = self.loop.create_task(self._stop())

    async def _stop(self) -> None:
        assert self._driver is not None
        assert self.store is not None
        self._driver.close()
        await self._saver.close()
        await self._flusher.close()
        try:
            self.store.close()
        except StoreError as error:  # the process ends all the same; the abort file is left, as after a kill
            self.world.expect_failed_close(self, error)
        self.loop.call_soon(self._on_stopped)

    def _on_stopped(self) -> None:
        assert self.store is not None
        self.has_entries = self.store.end_index >= 0
        self._end()
        self.disk = self.disk.kill()
        self.world.on_stopped(self)

    def lose_disk(self) -> None:
        self.disk = SimulatedDisk(self.world.rng.randrange(2**32))
        self.has_entries = False

    @property
    def is_learner(self) -> bool:
        """Whether its term file says so, or is missing."""
        path = StorePaths(ROOT, ledger_id=self.name).term_file
        return not self.disk.exists(path) or decode_term(bytes(self.disk.nodes[path].content)).is_learner

    def recover_speed(self) -> None:
        """The machine is as fast again as it was."""
        self.slow_disk = 1

    def make_sound(self) -> None:
        """No fault of the machine is left, nor one that is prepared."""
        self.recover_speed()
        self.disk.cut_power_at(2**62)
        self.disk.heal()
        if self.is_up:
            self.loop.thaw()

    # What it claims ---------------------------------------------------------------------------------------------------

    @property
    def log(self) -> StoredLog:
        return self._log

    def _after_turn(self) -> None:
        if self.loop.failures:
            raise ViolationError(f"{self.name} failed") from self.loop.failures[0]
        try:
            if self.store is not None and self._driver is not None and not self.disk.is_off:
                self._look(self.store, self._driver)
        except PowerCut:
            pass  # reading writes, too: checksums that a reader needs
        if self.disk.is_off:
            self.world.on_power_cut(self)

    def _look(self, store: LedgerStore, driver: GroupDriver) -> None:
        """Tell the checker what is new since the last turn."""
        self._find_life()
        node, checker = driver.node, self.world.checker
        role = (node.role, node.term)
        if role != self._role:
            self._role = role
            self.world.note(f"{self.name} is {node.role.value} in term {node.term}")
            if node.role is Role.LEADER and role != self._led:
                self._led = role
                checker.elected(self.name, self.incarnation, node.term, self._log)
        committed = store.committed_index
        if committed != self.readable:
            checker.keep_readable(self.name, self.readable, committed)
            checker.commit(self.name, node.term, self._log, self.readable + 1, committed)
            self.readable = committed
            self.has_entries = True
        self._grown += store.take_grown()
        while self._grown:
            try:
                self._look_at_queue(*self._grown[-1])
            except StoreIOError:
                break  # the disk fails; the queue is read again when there is more
            self._grown.pop()
        for index, message, acknowledge in self.acknowledged:
            checker.acknowledge(message, index)
            acknowledge(index)
        self.acknowledged.clear()
        if node._core.storage_failure is not None:
            self.world.on_storage_failure(self, node._core.storage_failure)

    def _look_at_queue(self, topic: str, queue: int) -> None:
        """Read what is new in a queue, as a consumer does."""
        offset = self._seen.get((topic, queue), 0)
        for place, message in self.read_queue(topic, queue, offset):
            if place != offset:
                raise ViolationError(f"{self.name} does not show {topic}/{queue}/{offset}, but {place} behind it")
            self.world.checker.show(self.name, topic, queue, offset, message)
            offset += 1
        self._seen[topic, queue] = offset

    def read_queue(self, topic: str, queue: int, offset: int = 0) -> list[tuple[int, bytes]]:
        """Return the messages of a queue from `offset` on, each with its offset."""
        assert self.store is not None
        messages: list[tuple[int, bytes]] = []
        while True:
            found = self.store.reading.messages(topic, queue, offset, 32)
            for record in map(decode_record, found.records):
                messages.append((record.queue_offset, sent_in(record)))
            if found.next_offset <= offset or found.next_offset >= found.max_offset:
                return messages
            offset = found.next_offset

    # Called by the world ----------------------------------------------------------------------------------------------

    def propose(self, messages: list[bytes], acknowledge: Callable[[int], None]) -> bool:
        """Take messages of a producer, if this node leads. `acknowledge` is called for each once it is answered with success."""
        if self._driver is None or self._driver.node.role is not Role.LEADER or self.loop.is_frozen:
            return False  # what a node takes after its producer has given up would come behind later messages
        self.loop.turn(self._take_messages, messages, acknowledge)
        return True

    def _take_messages(self, messages: list[bytes], acknowledge: Callable[[int], None]) -> None:
        if self.store is None or self._driver is None:
            return
        rng = self.world.rng
        requests = [a_message(TOPIC, int(each.partition(b":")[0]), each + b" " + bytes(rng.choice(PADDING))) for each in messages]
        first = self.store.end_index + 1
        try:
            placed = self.store.append(requests, self._wall_ms())
        except StoreError:
            return
        for number, (message, place) in enumerate(zip(messages, placed, strict=True)):
            connection: Any = Answered(self, first + number, message, acknowledge)
            self._answers.send(place.physical_offset + place.size, connection, SUCCESS)
        self._driver.on_appended()
        self._flusher.on_append()

    def receive(self, peer: str, kind: str, request_id: int, message: LedgerMessage) -> None:
        if kind == RESPONSE:
            life, request_id = divmod(request_id, LIFE_IDS)
            if self._driver is not None and life == self._find_life():
                self.feed(Response(peer, request_id, message))  # type: ignore[arg-type]
            return
        self._handle += 1
        self._handles[self._handle] = (peer, request_id)
        if len(self._handles) > 500:  # requests that are never answered
            del self._handles[next(iter(self._handles))]
        self.feed(Request(self._handle, message))  # type: ignore[arg-type]

    def feed(self, event: Event) -> None:
        if self._driver is not None:
            self.loop.turn(self._driver.feed, event)

    def note_down(self, peer: str) -> None:
        self.feed(Unreachable(peer))

    # Called by the flusher and by timers ------------------------------------------------------------------------------

    def _on_flushed(self) -> None:
        if self._driver is not None:
            self._driver.on_flushed()
            self._answers.release()

    def _note_failure(self, error: Exception) -> None:
        self.loop.failures.append(error)

    def _check_time(self) -> None:
        self._answers.check_time(self._now_ms())
        self.loop.call_later(CHECK_MS / 1000, self._check_time)

    def _checkpoint(self) -> None:
        if self.store is not None and not self.is_stopping:
            self.loop.run_in_executor(None, self.store.begin_ledger_checkpoint())
            self.loop.call_later(CHECKPOINT_MS / 1000, self._checkpoint)

    # Called by the driver ---------------------------------------------------------------------------------------------

    def save_term(self, effect: Persist) -> None:
        self._saver.save(effect)

    def send_message(self, peer: str, request_id: int, message: LedgerMessage) -> None:
        self.world.network.send(self, peer, "request", self._find_life() * LIFE_IDS + request_id, message)

    def send_push(self, peer: str, request_id: int, body: bytes) -> None:
        self.send_message(peer, request_id, decode_push(body))

    def is_saving(self) -> bool:
        return self._saver.is_saving

    def is_full(self, peer: str) -> bool:
        return self.world.rng.random() < FULL_SHARE

    def reply(self, handle: int, message: LedgerMessage) -> None:
        found = self._handles.pop(handle, None)
        if found is not None:
            peer, request_id = found
            self.world.network.send(self, peer, RESPONSE, request_id, message)

    def append_marker(self, term: int) -> None:
        assert self.store is not None
        assert self._driver is not None
        if self.world.plan.writes_marker:
            try:
                self.store.append([make_marker(self.name, term, self._wall_ms(), HOST)], self._wall_ms())
            except StoreError as error:
                self._driver.on_write_failed(error)
            self.wake_flusher()

    def wake_flusher(self) -> None:
        self._flusher.on_append()

    def on_committed(self) -> None:
        self._answers.release()

    def on_deposed(self, why: str) -> None:
        if self.world.plan.fails_answers:
            self._answers.fail_all(why)

    def may_lead(self) -> bool:
        """No node is damaged where it was synced, so none has anything to repair before it leads."""
        assert self.store is not None
        if self.store.repair.damaged:
            raise ViolationError(f"entries {self.store.repair.damaged} of {self.name} are damaged, and were synced")
        return True

    def on_role(self) -> None:
        pass
