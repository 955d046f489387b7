"""A broker whose process or power fails many times while messages wait in it; the seed decides when.

Keeps a book of what was sent, and checks what is found in the end. Everything is real except the disk
(tests/support/stores/simulated_disk.py) and the clock; requests go over loopback. The disk stops at a change that the seed
chooses, in the middle of whatever the broker does. The next broker starts with what the disk kept: everything written (a killed
process), or what was synced and perhaps more (a power failure, with sync flush).
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field, replace
from random import Random

from skyrocket.broker.broker import Broker
from skyrocket.net.connection import Connection
from skyrocket.net.dialer import Dialer
from skyrocket.net.errors import NetError
from skyrocket.net.router import Router
from skyrocket.protocol.bodies import HeartbeatData, ProducerData, SubscriptionGroupConfig, TopicConfig
from skyrocket.protocol.command import Command
from skyrocket.protocol.fastjson.codec import encode
from skyrocket.protocol.headers import (
    CheckTransactionStateRequestHeader,
    ConsumerSendMsgBackRequestHeader,
    EndTransactionRequestHeader,
    SendMessageResponseHeader,
)
from skyrocket.protocol.message.properties import PRODUCER_GROUP, UNIQUE_KEY, decode_properties
from skyrocket.protocol.message.record import Record, decode_record
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from skyrocket.protocol.sysflag import TRANSACTION_COMMIT, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK
from skyrocket.store.errors import StoreError
from tests.support.brokers.running_broker import SMALL, send_header
from tests.support.stores.simulated_disk import PowerCut, SimulatedDisk

TOPIC, GROUP = "orders", "shop"
RETRY, DEAD = f"%RETRY%{GROUP}", f"%DLQ%{GROUP}"
QUEUES = 2
LEVELS_MS = (1_000, 5_000, 10_000, 30_000, 60_000)
BEGIN_MS = 1_700_000_000_000
ASK_MS = 60_000  # a broker that runs answers in the end, however busy the machine is
FAR_MS = 600_000  # everything is due by then, and every transaction was asked about


class Clock:
    def __init__(self) -> None:
        self.now_ms = BEGIN_MS

    def __call__(self) -> int:
        return self.now_ms


@dataclass(slots=True)
class Entry:
    """One message of the book."""

    key: str
    kind: str  # delay, timer, commit, rollback, retry, dead
    due_ms: int  # not to be seen before
    acknowledged: bool = False


@dataclass(slots=True)
class World:
    seed: int
    powerless: bool  # what ends a life: the power goes, or else the process
    rng: Random = field(init=False)
    clock: Clock = field(default_factory=Clock)
    disk: SimulatedDisk = field(init=False)
    book: dict[str, Entry] = field(default_factory=dict)
    lives: int = 0
    cuts: int = 0

    def __post_init__(self) -> None:
        self.rng = Random(self.seed)
        self.disk = SimulatedDisk(self.seed)

    def play(self, lives: int = 4, steps: int = 14) -> list[tuple[str, Record]]:
        """Play all lives. Return what is in the topics in the end, with the topic names."""
        for _ in range(lives):
            self.disk.cut_power_at(self.rng.choice((3, 10, 30, 60, 100, 160)) + self.rng.randrange(30))
            asyncio.run(self._life(steps))
            self._next_disk()
        return asyncio.run(self._last_life())

    def _next_disk(self) -> None:
        self.lives += 1
        self.cuts += self.disk.is_off
        self.disk = self.disk.crash(self.rng) if self.powerless else self.disk.kill()

    # --- a life

    def _broker(self) -> Broker:
        settings = replace(
            SMALL,
            store_path="/store",
            sync_flush=self.powerless,
            transaction_timeout_ms=6_000,
            transaction_check_interval_ms=10_000,
            transaction_checks_max=1_000,  # the producer is away in some lives, and its messages are not to be given up then
            segment_bytes=1024 * 1024,
        )
        return Broker(settings, wall_ms=self.clock, files=self.disk)

    async def _life(self, steps: int) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)  # whatever a dying process says
        broker = self._broker()
        try:
            await broker.start()
            await self._prepare(broker)
            peer = Peer(self, broker)
            if self.rng.random() < 0.5:
                await peer.be_there()
            for _ in range(steps):
                await self._step(peer)
                if self.disk.is_off:
                    break
        except (PowerCut, NetError, TimeoutError):
            assert self.disk.is_off, "the broker stopped answering by itself"
        finally:
            self.disk.turn_off()
            broker.server.limits = replace(broker.server.limits, drain_ms=20)  # a dead process has nobody to wait for
            with suppress(PowerCut, NetError, StoreError):  # closing goes on after each part that the cut has hit
                await asyncio.wait_for(broker.close(), 5)

    async def _prepare(self, broker: Broker) -> None:
        if TOPIC not in broker.topics:
            broker.topics.put(TopicConfig(topic_name=TOPIC, read_queue_nums=QUEUES, write_queue_nums=QUEUES))
        if GROUP not in broker.groups:
            broker.groups.put(SubscriptionGroupConfig(group_name=GROUP))

    async def _step(self, peer: Peer) -> None:
        act = self.rng.choice((self._send_delayed, self._send_timed, self._transaction, self._send_back, self._wait, self._wait))
        await act(peer)

    async def _wait(self, peer: Peer) -> None:
        await peer.wait(self.rng.choice((10, 500, 1_000, 3_000, 7_000, 20_000)))

    def _entry(self, kind: str, due_ms: int) -> Entry:
        entry = Entry(f"{kind}-{len(self.book)}", kind, due_ms)
        self.book[entry.key] = entry
        return entry

    async def _send_delayed(self, peer: Peer) -> None:
        level = self.rng.randrange(len(LEVELS_MS)) + 1
        for _ in range(self.rng.choice((1, 1, 3))):
            entry = self._entry("delay", self.clock.now_ms + LEVELS_MS[level - 1])
            entry.acknowledged = await peer.send(entry.key, {"DELAY": str(level)}) is not None

    async def _send_timed(self, peer: Peer) -> None:
        for _ in range(self.rng.choice((1, 1, 3))):
            delay_ms = self.rng.choice((-1_000, 100, 1_500, 4_000, 20_000, 90_000)) + self.rng.randrange(1_000)
            entry = self._entry("timer", self.clock.now_ms + max(0, delay_ms))
            properties = {"TIMER_DELIVER_MS": str(self.clock.now_ms + delay_ms)}
            entry.acknowledged = await peer.send(entry.key, properties) is not None

    async def _transaction(self, peer: Peer) -> None:
        entry = self._entry(self.rng.choice(("commit", "rollback")), self.clock.now_ms)
        half = await peer.send(entry.key, {"TRAN_MSG": "true", PRODUCER_GROUP: GROUP}, sys_flag=TRANSACTION_PREPARED)
        entry.acknowledged = half is not None
        if half is not None and self.rng.random() < 0.6:  # otherwise the broker has to ask
            await peer.end(entry, half)

    async def _send_back(self, peer: Peer) -> None:
        sent = await peer.send(f"plain-{self.rng.randrange(10**9)}", {})
        if sent is None:
            return
        level = self.rng.choice((-1, 1, 2, 3))
        due_ms = self.clock.now_ms + (LEVELS_MS[level - 1] if level > 0 else 0)
        entry = self._entry("retry" if level > 0 else "dead", due_ms)
        first = await peer.send(entry.key, {"SENT_BACK": "yes"})
        if first is not None:
            entry.acknowledged = await peer.send_back(first, level)

    # --- the end

    async def _last_life(self) -> list[tuple[str, Record]]:
        broker = self._broker()
        await broker.start()
        await self._prepare(broker)
        peer = Peer(self, broker)
        await peer.be_there()
        end_ms = self.clock.now_ms + FAR_MS
        while self.clock.now_ms < end_ms:
            await peer.wait(10_000, step_ms=10_000)
        horizon, read_end = broker.store.horizon, -1
        while read_end < horizon.appended:  # what a flush confirms may be delivered from there, and appended once more
            await peer.settle()
            read_end = horizon.appended
            while horizon.confirmed < read_end:  # noqa: ASYNC110 — the flush runs in a thread
                await asyncio.sleep(0.01)
            await peer.settle()
        found = [(topic, record) for topic in (TOPIC, RETRY, DEAD) for record in _records(broker, topic)]
        await peer.close()
        await broker.close()
        return found


class Peer:
    """A producer and consumer of the broker."""

    def __init__(self, world: World, broker: Broker) -> None:
        self._world = world
        self._broker = broker
        router = Router()
        router.add(RequestCode.CHECK_TRANSACTION_STATE, self._answer_check)
        self._dialer = Dialer(router)

    async def close(self) -> None:
        await self._dialer.close()

    async def _ask(self, command: Command) -> Command | None:
        """Send a request; None when the broker died meanwhile."""
        asking = asyncio.ensure_future(self._dialer.request(self._broker.settings().address, command, ASK_MS))
        while not asking.done():
            was_off = self._world.disk.is_off
            await asyncio.wait([asking], timeout=0.02)
            if was_off and not asking.done():  # and there was time for an answer that was under way
                asking.cancel()
                await asyncio.gather(asking, return_exceptions=True)
                return None
        try:
            return asking.result()
        except NetError:
            assert self._world.disk.is_off, f"code {command.code} was not answered"
            return None

    async def be_there(self) -> None:
        data = HeartbeatData(client_id="producer-1", producer_data_set=[ProducerData(group_name=GROUP)])
        await self._ask(Command(RequestCode.HEART_BEAT, body=encode(data)))

    async def send(self, key: str, properties: dict[str, str], sys_flag: int = 0) -> SendMessageResponseHeader | None:
        queue_id = self._world.rng.randrange(QUEUES)
        given = {"sys_flag": sys_flag, "producer_group": GROUP, "born_timestamp": self._world.clock.now_ms}
        header = send_header(TOPIC, queue_id, {UNIQUE_KEY: key, **properties}, **given)
        answer = await self._ask(Command(RequestCode.SEND_MESSAGE_V2, fields=header.to_fields(), body=key.encode()))
        if answer is None:
            return None
        if answer.code != ResponseCode.SUCCESS:
            busy = answer.code == ResponseCode.SYSTEM_BUSY  # this machine is: then nothing is stored, and nothing promised
            assert busy or self._world.disk.is_off, answer.remark
            return None
        return answer.header(SendMessageResponseHeader)

    async def end(self, entry: Entry, half: SendMessageResponseHeader) -> None:
        header = EndTransactionRequestHeader(
            topic=TOPIC,
            producer_group=GROUP,
            tran_state_table_offset=half.queue_offset,
            commit_log_offset=int(half.msg_id[16:], 16),
            commit_or_rollback=_outcome(entry),
            msg_id=entry.key,
            transaction_id=entry.key,
        )
        await self._ask(Command(RequestCode.END_TRANSACTION, fields=header.to_fields()))

    async def send_back(self, sent: SendMessageResponseHeader, level: int) -> bool:
        offset = int(sent.msg_id[16:], 16)
        header = ConsumerSendMsgBackRequestHeader(offset=offset, group=GROUP, delay_level=level, origin_topic=TOPIC)
        answer = await self._ask(Command(RequestCode.CONSUMER_SEND_MSG_BACK, fields=header.to_fields()))
        if answer is None:
            return False
        refused = answer.code == ResponseCode.SYSTEM_BUSY  # as for a send: nothing is stored, and nothing promised
        assert answer.code == ResponseCode.SUCCESS or refused or self._world.disk.is_off, answer.remark
        return answer.code == ResponseCode.SUCCESS

    def _answer_check(self, command: Command, connection: Connection) -> None:
        """Answer a transaction check from the book."""
        header = command.header(CheckTransactionStateRequestHeader)
        half = decode_record(command.body)
        entry = self._world.book[decode_properties(half.properties)[UNIQUE_KEY]]
        answer = EndTransactionRequestHeader(
            topic=TOPIC,
            producer_group=GROUP,
            tran_state_table_offset=header.tran_state_table_offset,
            commit_log_offset=header.commit_log_offset,
            commit_or_rollback=_outcome(entry),
            from_transaction_check=True,
            msg_id=entry.key,
            transaction_id=header.transaction_id,
        )
        connection.oneway(Command(RequestCode.END_TRANSACTION, fields=answer.to_fields()))

    async def wait(self, duration_ms: int, step_ms: int = 1_000) -> None:
        """Let time pass in steps, so that periodic tasks run."""
        end_ms = self._world.clock.now_ms + duration_ms
        while self._world.clock.now_ms < end_ms and not self._world.disk.is_off:
            self._world.clock.now_ms = min(end_ms, self._world.clock.now_ms + step_ms)
            self._broker.scheduler.clock_changed()
            await self.settle(0.002)

    async def settle(self, still_s: float = 0.05) -> None:
        """Wait until the log has stopped growing."""
        last = -1
        while not self._world.disk.is_off and self._broker.store.log.end != last:
            last = self._broker.store.log.end
            await asyncio.sleep(still_s)


def _outcome(entry: Entry) -> int:
    return TRANSACTION_COMMIT if entry.kind == "commit" else TRANSACTION_ROLLBACK


def _records(broker: Broker, topic: str) -> list[Record]:
    config = broker.topics.get(topic)
    found: list[Record] = []
    for queue_id in range(config.read_queue_nums if config is not None else 0):
        offset = 0
        while (page := broker.store.reading.messages(topic, queue_id, offset, 256)).next_offset > offset:
            found += [decode_record(view) for view in page.records]
            offset = page.next_offset
    return found
