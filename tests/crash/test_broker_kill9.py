"""A broker with sync flush is killed with SIGKILL under load, many times: acknowledged messages are stored and consumed.

One data directory serves many broker processes. Producers keep many numbered messages in flight on each connection and note which
were acknowledged. They send the others again after a kill. A consumer fetches messages and commits its offsets. Some kills come
while the broker is starting. SKYROCKET_BROKER_KILLS sets the number of kills: 10, and 30 with `make crash`.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from skyrocket.net.connection import Connection
from skyrocket.net.dialer import Dialer
from skyrocket.net.errors import NetError
from skyrocket.protocol.command import Command
from skyrocket.protocol.headers import QueryConsumerOffsetRequestHeader, UpdateConsumerOffsetRequestHeader
from skyrocket.protocol.message.record import Record
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from tests.support.processes.load import Wire, pull_request, records, send_request
from tests.support.processes.skyrocket_process import Skyrocket

KILLS = int(os.environ.get("SKYROCKET_BROKER_KILLS", "10"))
PRODUCERS, WINDOW, QUEUES = 3, 24, 4
TOPIC, GROUP = "KilledTopic", "killed_consumers"
LOAD_S_MAX = 0.6  # from being ready to the kill
START_S_MAX = 0.7  # from starting to the kill, where that comes before it is ready; some come just after
EARLY_KILLS = 5  # one kill in so many comes while the broker starts
SETTINGS = {"flushDiskType": "SYNC_FLUSH", "flushConsumerOffsetInterval": 1000}


class Numbered(NamedTuple):
    producer: int
    number: int

    @property
    def queue_id(self) -> int:
        return self.number % QUEUES

    @property
    def body(self) -> bytes:
        """The body of this message, derived from its number."""
        chance = random.Random(f"{self.producer}/{self.number}")
        return b"%d/%d/" % self + chance.randbytes(chance.choice([0, 10, 300, 300, 300, 4000]))

    @property
    def properties(self) -> dict[str, str]:
        """Messages with a unique key take the fast path; those of the first producer take the general path."""
        return {"UNIQ_KEY": f"7F000001A1B218B4{self.producer:04X}{self.number:012X}", "TAGS": "red"} if self.producer else {}

    @classmethod
    def of(cls, record: Record) -> Numbered:
        producer, number, _ = record.body.split(b"/", maxsplit=2)
        return cls(int(producer), int(number))


class Ack(NamedTuple):
    message: Numbered
    attempt: int  # in the order of sending, over a producer's whole life
    connection: int
    queue_offset: int


@dataclass(slots=True)
class Producer:
    number: int
    next_message: int = 0
    attempts: int = 0
    connections: int = 0
    times_sent: dict[Numbered, int] = field(default_factory=lambda: defaultdict(int))
    unknown: list[Numbered] = field(default_factory=list)  # under way when the connection ended
    acks: list[Ack] = field(default_factory=list)
    refusals: list[Command] = field(default_factory=list)

    async def run(self, address: str) -> None:
        """Until the connection ends."""
        dialer = Dialer()
        self.connections += 1
        try:
            connection = await dialer.connection(address)
            await asyncio.gather(*[self._send_on(connection) for _ in range(WINDOW)])
        except NetError:
            pass
        finally:
            await dialer.close()

    async def _send_on(self, connection: Connection) -> None:
        while True:
            message = self._next()
            self.attempts += 1
            self.times_sent[message] += 1
            attempt = self.attempts
            try:
                request = send_request(TOPIC, message.body, message.queue_id, properties=message.properties)
                answer = await connection.request(request, 10_000)
            except NetError:
                self.unknown.append(message)
                return
            if answer.code == ResponseCode.SUCCESS:
                self.acks.append(Ack(message, attempt, self.connections, int(answer.fields["queueOffset"])))
            else:
                self.refusals.append(answer)
                self.unknown.append(message)

    def _next(self) -> Numbered:
        if self.unknown:
            return self.unknown.pop(0)
        self.next_message += 1
        return Numbered(self.number, self.next_message)


@dataclass(slots=True)
class Consumer:
    delivered: dict[int, int] = field(default_factory=lambda: dict.fromkeys(range(QUEUES), 0))  # the offset behind the last one
    committed: dict[int, int] = field(default_factory=lambda: dict.fromkeys(range(QUEUES), 0))  # that we asked for, at the most
    got: set[Numbered] = field(default_factory=set)

    async def run(self, address: str) -> None:
        """Consume from the committed offset until the connection ends."""
        dialer = Dialer()
        try:
            connection = await dialer.connection(address)
            await asyncio.gather(*[self._consume(connection, queue_id) for queue_id in range(QUEUES)])
        except NetError:
            pass
        finally:
            await dialer.close()

    async def _consume(self, connection: Connection, queue_id: int) -> None:
        offset = await self.query_offset(connection, queue_id)
        assert offset <= self.committed[queue_id] <= self.delivered[queue_id], "an offset was made up"
        while True:
            pull = pull_request(TOPIC, offset, queue_id=queue_id, consumer_group=GROUP, hold_ms=200)
            answer = await connection.request(pull, 10_000)
            if answer.code != ResponseCode.SUCCESS:
                assert answer.code in (ResponseCode.PULL_NOT_FOUND, ResponseCode.TOPIC_NOT_EXIST), answer
                await asyncio.sleep(0.02)
                continue
            for record in records(answer):
                assert (record.queue_id, record.queue_offset) == (queue_id, offset), "a message was left out, or came out of turn"
                self._take(record)
                offset += 1
            self.delivered[queue_id] = max(offset, self.delivered[queue_id])
            await self._commit(connection, queue_id, offset)

    def _take(self, record: Record) -> None:
        message = Numbered.of(record)
        assert record.body == message.body, f"{message} came with another body"
        self.got.add(message)

    async def _commit(self, connection: Connection, queue_id: int, offset: int) -> None:
        self.committed[queue_id] = max(offset, self.committed[queue_id])
        header = UpdateConsumerOffsetRequestHeader(consumer_group=GROUP, topic=TOPIC, queue_id=queue_id, commit_offset=offset)
        answer = await connection.request(Command(RequestCode.UPDATE_CONSUMER_OFFSET, fields=header.to_fields()), 10_000)
        assert answer.code == ResponseCode.SUCCESS, answer

    @staticmethod
    async def query_offset(connection: Connection, queue_id: int) -> int:
        header = QueryConsumerOffsetRequestHeader(consumer_group=GROUP, topic=TOPIC, queue_id=queue_id)
        answer = await connection.request(Command(RequestCode.QUERY_CONSUMER_OFFSET, fields=header.to_fields()), 10_000)
        return int(answer.fields["offset"]) if answer.code == ResponseCode.SUCCESS else 0


def offsets_on_disk(data: Path) -> dict[int, int]:
    """Read the committed offsets of our group from the config file."""
    path = data / "store" / "config" / "consumerOffset.json"
    if not path.exists():
        return {}
    text = path.read_text()
    start = text.find(f'"{TOPIC}@{GROUP}"')
    if start < 0:
        return {}
    table = text[text.index("{", start) + 1 : text.index("}", start)]
    return {int(queue): int(offset) for queue, offset in (pair.split(":") for pair in table.split(",") if pair)}


def live_and_die(broker: Skyrocket, producers: list[Producer], consumer: Consumer, load_s: float) -> None:
    """Put load on the broker, and kill it meanwhile."""

    async def main() -> None:
        everyone = asyncio.gather(*[each.run(broker.address) for each in producers], consumer.run(broker.address))
        done, _ = await asyncio.wait([everyone], timeout=load_s)
        for task in done:
            task.result()
        assert not done, f"the broker ended connections by itself:\n{broker.log_tail()}"
        broker.kill()
        await everyone

    asyncio.run(main())


def lives(broker: Skyrocket, producers: list[Producer], consumer: Consumer) -> Iterator[int]:
    chance = random.Random(9)
    for kill in range(KILLS):
        on_disk = offsets_on_disk(broker.data)
        if kill % EARLY_KILLS == EARLY_KILLS - 1:
            broker.launch()
            time.sleep(chance.uniform(0, START_S_MAX))
            broker.kill()
            assert offsets_on_disk(broker.data) == on_disk, "starting changed the offsets"
        else:
            broker.start()
            check_offsets(broker, on_disk)
            live_and_die(broker, producers, consumer, chance.uniform(0.02, LOAD_S_MAX))
        yield kill
    broker.start()


def check_offsets(broker: Skyrocket, on_disk: dict[int, int]) -> None:
    """Check that the broker returns the offsets of the file."""
    with Wire(broker.address) as wire:
        for queue_id, offset in on_disk.items():
            header = QueryConsumerOffsetRequestHeader(consumer_group=GROUP, topic=TOPIC, queue_id=queue_id)
            answer = wire.ask(Command(RequestCode.QUERY_CONSUMER_OFFSET, fields=header.to_fields()))
            assert int(answer.fields["offset"]) >= offset, f"queue {queue_id} was at {offset} before the start"


def everything(broker: Skyrocket) -> dict[int, list[Record]]:
    """Fetch all messages of all queues."""
    queues: dict[int, list[Record]] = {queue_id: [] for queue_id in range(QUEUES)}
    with Wire(broker.address) as wire:
        for queue_id, found in queues.items():
            while True:
                answer = wire.ask(pull_request(TOPIC, len(found), queue_id=queue_id, consumer_group="auditors"))
                if answer.code != ResponseCode.SUCCESS:
                    break
                found.extend(records(answer))
    return queues


def test_acknowledged_messages_are_consumed_however_often_the_broker_is_killed(tmp_path: Path) -> None:
    producers, consumer = [Producer(number) for number in range(PRODUCERS)], Consumer()
    with Skyrocket(tmp_path, SETTINGS) as broker:
        broker.kill()
        for _ in lives(broker, producers, consumer):
            pass
        queues = everything(broker)
        asyncio.run(consume_the_rest(broker, consumer, {queue_id: len(found) for queue_id, found in queues.items()}))
        broker.stop()
        assert broker.complaints() == [], broker.log_tail(100)
    for producer in producers:
        assert not producer.refusals, producer.refusals[0]
        check_acknowledged(producer, queues)
    check_nothing_else(producers, queues)
    acknowledged = {ack.message for producer in producers for ack in producer.acks}
    assert len(acknowledged) > 20 * KILLS, f"only {len(acknowledged)} messages were acknowledged: this says nothing"
    assert acknowledged <= consumer.got, f"{len(acknowledged - consumer.got)} acknowledged messages were not consumed"


async def consume_the_rest(broker: Skyrocket, consumer: Consumer, ends: dict[int, int]) -> None:
    task = asyncio.ensure_future(consumer.run(broker.address))
    deadline = time.monotonic() + 60
    while consumer.delivered != ends:
        assert not task.done(), task.exception()
        assert time.monotonic() < deadline, f"consumed up to {consumer.delivered} of {ends}"
        await asyncio.sleep(0.02)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


def check_acknowledged(producer: Producer, queues: dict[int, list[Record]]) -> None:
    """Check that each message lies at its acknowledged offset with its body, in sending order for each connection and queue."""
    last: dict[tuple[int, int], int] = {}
    for ack in sorted(producer.acks, key=lambda ack: ack.attempt):
        queue_id = ack.message.queue_id
        assert ack.queue_offset < len(queues[queue_id]), f"{ack} is behind the end of its queue"
        record = queues[queue_id][ack.queue_offset]
        assert record.body == ack.message.body, f"{ack}: there lies {record.body[:40]!r}"
        place = (ack.connection, queue_id)
        assert ack.queue_offset > last.get(place, -1), f"{ack} was stored before one that was sent earlier"
        last[place] = ack.queue_offset


def check_nothing_else(producers: list[Producer], queues: dict[int, list[Record]]) -> None:
    """Check that queues hold only sent messages, no more often than they were sent, and that offsets have no gaps."""
    copies: dict[Numbered, int] = defaultdict(int)
    for queue_id, found in queues.items():
        assert [record.queue_offset for record in found] == list(range(len(found)))
        for record in found:
            message = Numbered.of(record)
            assert (record.queue_id, record.body) == (queue_id, message.body)
            copies[message] += 1
    for message, count in copies.items():
        sent = producers[message.producer].times_sent.get(message, 0)
        assert count <= sent, f"{message} was sent {sent} times and is there {count} times"
