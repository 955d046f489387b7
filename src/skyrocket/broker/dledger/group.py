"""The DLedger group of this broker, and its node in it: builds the parts, and connects them with the broker.

| node of the group       | the broker                                                                           |
|-------------------------|--------------------------------------------------------------------------------------|
| leader, all confirmed   | master, id 0: takes messages; a send is answered when a majority has it on disk       |
| leader, just elected    | slave, until what the leaders before have left is confirmed                          |
| follower                | slave: refuses messages, serves reads, copies the master's tables                    |
| candidate               | slave, without a master                                                              |
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, NamedTuple, cast

from skyrocket.broker.admin.cold_answers import read_cold
from skyrocket.broker.dledger.driver import GroupDriver, outside
from skyrocket.broker.dledger.entry_reader import Entries
from skyrocket.broker.dledger.entry_repairer import EntryRepairer
from skyrocket.broker.dledger.group_settings import LedgerGroup
from skyrocket.broker.dledger.marker import make_marker
from skyrocket.broker.dledger.node_port import NodePort
from skyrocket.broker.dledger.peer_links import PeerLinks
from skyrocket.broker.dledger.repair_plan import BYTES_MAX, ENTRIES_MAX
from skyrocket.broker.dledger.role_follower import RoleFollower
from skyrocket.broker.dledger.term_saver import TermSaver
from skyrocket.broker.dledger.topic_records import make_topic_records, newer_changes, read_topic_records
from skyrocket.broker.replication.role_switch import RoleSwitch
from skyrocket.broker.send.parked_answers import ConfirmedAnswers
from skyrocket.broker.tables.topics import TopicTable
from skyrocket.net.dialer import Dialer
from skyrocket.protocol.bodies.dledger import (
    GetEntriesRequest,
    GetEntriesResponse,
    HeartBeatRequest,
    HeartBeatResponse,
    LeadershipTransferRequest,
    LeadershipTransferResponse,
    LedgerCode,
    LedgerMessage,
    PushEntryRequest,
    VoteRequest,
    VoteResponse,
)
from skyrocket.protocol.bodies.topics import TopicConfig
from skyrocket.protocol.command import Command
from skyrocket.protocol.errors import ProtocolError
from skyrocket.protocol.fastjson.codec import decode, encode
from skyrocket.protocol.ledger_push import decode_entry, decode_push_response
from skyrocket.protocol.requests import RequestCode
from skyrocket.raft.ports import PeerRequest, PeerResponse, Persist, Request, Response, Role, StorageFailed, Tick, Unreachable
from skyrocket.store.cold_reads import RepeatedReads
from skyrocket.store.errors import StoreError
from skyrocket.store.flusher import Flusher
from skyrocket.store.ledger.ledger_store import LedgerStore
from skyrocket.store.log.scan import DamagedRange

log = logging.getLogger(__name__)

CHECKPOINT_MS: Final = 3_000  # between two writes of the node's checkpoint, as in DLedger
_CODES: Final[dict[type[LedgerMessage], RequestCode]] = {
    VoteRequest: RequestCode.DLEDGER_VOTE,
    HeartBeatRequest: RequestCode.DLEDGER_HEART_BEAT,
    PushEntryRequest: RequestCode.DLEDGER_PUSH,
    LeadershipTransferRequest: RequestCode.DLEDGER_LEADERSHIP_TRANSFER,
}
_ANSWERS: Final[dict[int, type[LedgerMessage]]] = {
    RequestCode.DLEDGER_VOTE: VoteResponse,
    RequestCode.DLEDGER_HEART_BEAT: HeartBeatResponse,
    RequestCode.DLEDGER_LEADERSHIP_TRANSFER: LeadershipTransferResponse,
}


class NodeTls(NamedTuple):
    """How a node speaks to the others: both are None where it is plain."""

    server: ssl.SSLContext | None
    client: ssl.SSLContext | None


PLAIN: Final = NodeTls(None, None)


class DLedgerNode:
    """The broker's node in its group."""

    def __init__(
        self,
        group: LedgerGroup,
        store: LedgerStore,
        flusher: Flusher,
        roles: RoleSwitch,
        answers: ConfirmedAnswers,
        topics: TopicTable,
        *,
        wall_ms: Callable[[], int],
        store_host: bytes,
        on_committed: Callable[[], None],
        on_broken: Callable[[Exception], None],
        register: Callable[[], None],
        tls: NodeTls = PLAIN,
    ) -> None:
        """`on_committed` is called when more is confirmed, `register` makes the broker register soon."""
        self._group = group
        self._store = store
        self._flusher = flusher
        self._answers = answers
        self._topics = topics
        self._wall_ms = wall_ms
        self._store_host = store_host
        self.on_committed = on_committed
        self.driver = GroupDriver(group.config, store, self, on_broken, batch_push=group.batch_push)
        self._saver = TermSaver(store, self.driver.on_saved, lambda why: self.driver.feed(StorageFailed(why)))
        self._port = NodePort(group.addresses, self._take_request, self._get_entries, tls.server)
        self._dialer = Dialer(tls=tls.client)
        others = {peer: group.addresses[peer] for peer in group.config.others}
        self._links = PeerLinks(others, self._dialer, self._take_answer, lambda peer: self.driver.feed(Unreachable(peer)))
        self._roles = RoleFollower(roles, group.slave_id, register, self._adopt_topics)
        self._repairer = EntryRepairer(
            group.config,
            others,
            store,
            self._dialer,
            lambda: time.monotonic() * 1000,
            leads=lambda: self.driver.node.role is Role.LEADER,
            hand_over=self.driver.hand_over,
            on_change=lambda: self.driver.feed(Tick()),
        )
        topics.on_set = self._record_topics
        self._checkpoint: asyncio.Future[None] | None = None
        self._checkpoint_ms = 0

    async def start(self, host: str) -> None:
        """Listen on the node's port, and take part in the group. `host` is the broker's bindAddress."""
        await self._port.listen(self._group.listen_host(host), self._group.port)
        self._roles.start()
        self._repairer.start()
        self.driver.start()

    async def close(self) -> None:
        await self._repairer.close()
        self.driver.close()
        self._links.close()
        await self._roles.close()
        await self._port.close()
        await self._dialer.close()
        await self._saver.close()
        if self._checkpoint is not None:
            await asyncio.wait([self._checkpoint])

    # --- called by the broker

    def on_appended(self) -> None:
        self.driver.on_appended()

    def on_flushed(self) -> None:
        self.driver.on_flushed()

    def check_time(self, now_ms: int) -> None:
        if now_ms - self._checkpoint_ms >= CHECKPOINT_MS and (self._checkpoint is None or self._checkpoint.done()):
            self._checkpoint_ms = now_ms
            job = self._store.begin_ledger_checkpoint()
            self._checkpoint = asyncio.get_running_loop().run_in_executor(None, job)
            self._checkpoint.add_done_callback(_report)

    def figures(self) -> dict[str, str]:
        """Return rows for the broker's runtime information."""
        node = self.driver.node
        rows = {
            "dledgerGroup": self._group.config.group,
            "dledgerNode": self._group.config.self_id,
            "dledgerRole": node.role.value,
            "dledgerTerm": str(node.term),
            "dledgerLeader": node.leader or "",
            "dledgerEndIndex": str(self._store.end_index),
            "dledgerCommittedIndex": str(self._store.committed_index),
            "dledgerDurableIndex": str(self._store.durable_index),
        }
        rows |= self._repairer.figures()
        return rows | {f"dledgerBehind_{peer}": str(self._store.end_index - mark) for peer, mark in node.watermarks().items()}

    # --- called by the driver

    def save_term(self, effect: Persist) -> None:
        self._saver.save(effect)

    def send_message(self, peer: str, request_id: int, message: LedgerMessage) -> None:
        self._send(peer, request_id, Command(_CODES[type(message)], body=encode(message)))

    def send_push(self, peer: str, request_id: int, body: bytes) -> None:
        self._send(peer, request_id, Command(RequestCode.DLEDGER_PUSH, body=body))

    def _send(self, peer: str, request_id: int, command: Command) -> None:
        self._links.send(peer, request_id, command, self._group.config.timings.request_timeout_ms)

    def is_saving(self) -> bool:
        return self._saver.is_saving

    def is_full(self, peer: str) -> bool:
        return self._links.is_full(peer)

    def reply(self, handle: int, message: LedgerMessage) -> None:
        self._port.reply(handle, message)

    def append_marker(self, term: int) -> None:
        now_ms = self._wall_ms()
        try:
            self._store.append([make_marker(self._group.config.self_id, term, now_ms, self._store_host)], now_ms)
        except StoreError as error:
            self.driver.on_write_failed(error)
        self.wake_flusher()

    def wake_flusher(self) -> None:
        self._flusher.on_append()

    def on_deposed(self, why: str) -> None:
        self._answers.fail_all(f"The message is stored here and may yet be confirmed: {why}.")

    def may_lead(self) -> bool:
        return self._repairer.may_lead

    def on_damage(self, damaged: DamagedRange) -> None:
        """The scrub has found damage."""
        try:
            self._store.repair.note_bytes(damaged.offset, damaged.size)
        except StoreError as error:
            log.error("Damage at %d of the log cannot be repaired now: %s", damaged.offset, error)

    def on_role(self) -> None:
        self._roles.follow(self.driver.node.leader, leads=self.driver.is_ready)

    def _record_topics(self, changes: Mapping[str, TopicConfig | None]) -> None:
        """Write the leader's changes of topics into the log."""
        if not self.driver.is_ready:
            return
        now_ms = self._wall_ms()
        try:
            self._store.append(make_topic_records(changes, self._topics.version, now_ms, self._store_host), now_ms)
        except StoreError as error:
            log.warning("A change of topics is not in the log, and may be unknown to the next leader: %s", error)
            return
        self.on_appended()
        self.wake_flusher()

    async def _adopt_topics(self) -> None:
        """Before the node leads: followers delete the queues of topics that the leader's table does not have."""
        records = await read_cold(RepeatedReads(self._store.reads), "topics", partial(read_topic_records, self._store))
        changes = newer_changes(records, self._topics.version, report=log.warning)
        queues: dict[str, int] = {}
        for (topic, queue_id), _ in self._store.queues:
            queues[topic] = max(queues.get(topic, 0), queue_id + 1)
        adopted = self._topics.adopt(changes, queues)
        if adopted:
            log.warning("Topics whose messages are here, and whose settings had not arrived: %s.", ", ".join(adopted[:20]))

    # --- called by the network

    def _take_request(self, handle: int, message: PeerRequest) -> None:
        self.driver.feed(Request(handle, message))

    def _take_answer(self, peer: str, request_id: int, code: int, answer: Command) -> None:
        try:
            message = cast("PeerResponse", _decode_answer(code, answer.body))
        except ProtocolError as error:
            outside.warning("Node %s answers request %s with what cannot be read: %s", peer, code, error)
            return
        self.driver.feed(Response(peer, request_id, message))

    def _get_entries(self, request: GetEntriesRequest, answer: Callable[[GetEntriesResponse], None]) -> None:
        """Answer a tool that reads an entry, if it is confirmed. A node that repairs its own says how many bytes it takes."""
        config, index = self._group.config, request.begin_index
        response = GetEntriesResponse(group=config.group, leader_id=self.driver.node.leader, term=self.driver.node.term)
        if request.remote_id != config.self_id or request.group != config.group:
            is_other = request.remote_id != config.self_id
            response.code = (LedgerCode.UNKNOWN_MEMBER if is_other else LedgerCode.UNKNOWN_GROUP).value
            answer(response)
        elif index is None or not 0 <= index <= self._store.committed_index:
            response.code = LedgerCode.INDEX_OUT_OF_RANGE.value
            answer(response)
        else:
            count = min(ENTRIES_MAX, self._store.committed_index - index + 1) if request.max_size else 1
            bytes_max = min(request.max_size or BYTES_MAX, BYTES_MAX)
            self.driver.read_entries(index, count, bytes_max, lambda found: answer(_with_entries(response, found)))


def _decode_answer(code: int, body: bytes) -> LedgerMessage:
    return decode_push_response(body) if code == RequestCode.DLEDGER_PUSH else decode(body, _ANSWERS[code])


def _with_entries(response: GetEntriesResponse, entries: Entries) -> GetEntriesResponse:
    response.entries = [decode_entry(bytes(entry), 0)[0] for entry in entries]
    if not entries:
        response.code = LedgerCode.INDEX_OUT_OF_RANGE.value
    return response


def _report(done: asyncio.Future[None]) -> None:
    if not done.cancelled() and done.exception() is not None:
        log.error("The checkpoint of the DLedger node could not be written, and is tried again: %s", done.exception())
