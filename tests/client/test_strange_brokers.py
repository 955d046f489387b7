"""Consumers against brokers made for the test, which answer what a real one rarely does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from skyrocket.client import Consumer, Received
from skyrocket.net.router import Router
from skyrocket.net.server import Server
from skyrocket.protocol.bodies import (
    BrokerData,
    GetConsumerListByGroupResponseBody,
    HeartbeatData,
    QueueData,
    TopicRouteData,
)
from skyrocket.protocol.command import Command
from skyrocket.protocol.fastjson import decode, encode
from skyrocket.protocol.headers import (
    PullMessageRequestHeader,
    PullMessageResponseHeader,
    QueryConsumerOffsetResponseHeader,
    SendMessageRequestHeaderV2,
    SendMessageResponseHeader,
    UpdateConsumerOffsetRequestHeader,
)
from skyrocket.protocol.properties import decode_properties
from skyrocket.protocol.record import Record, encode_record
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from skyrocket.protocol.sysflag import PULL_COMMIT_OFFSET
from tests.client.consuming import QUICK, numbers, taken
from tests.client.playing import play
from tests.client.servers import until


class Strange:
    """Nameserver and broker in one, with one queue of `t`. What it is asked is noted by code."""

    def __init__(self) -> None:
        self.router = Router()
        self.server = Server(self.router)
        self.address = ""
        self.addresses: dict[int, str] = {}
        self.members: list[str] = []
        self.asked: dict[int, list[Command]] = {}
        self.records: list[bytes] = []
        self.suggests = 0
        self.answer(RequestCode.GET_ROUTEINFO_BY_TOPIC, self._route)
        self.answer(RequestCode.HEART_BEAT, self._heartbeat)
        self.answer(RequestCode.GET_CONSUMER_LIST_BY_GROUP, self._members)
        self.answer(RequestCode.QUERY_CONSUMER_OFFSET, lambda c: c.response(0, QueryConsumerOffsetResponseHeader(offset=0)))
        self.answer(RequestCode.PULL_MESSAGE, self._pull)
        for code in (RequestCode.UNREGISTER_CLIENT, RequestCode.UPDATE_CONSUMER_OFFSET):
            self.answer(code, lambda command: command.response(0))

    def answer(self, code: int, how: Callable[[Command], Command]) -> None:
        def noted(command: Command, _connection: object) -> Command:
            self.asked.setdefault(command.code, []).append(command)
            return how(command)

        self.router.add(code, noted)

    def forget(self, code: int) -> None:
        del self.router._handlers[code]

    def _route(self, command: Command) -> Command:
        route = TopicRouteData(
            queue_datas=[QueueData(broker_name="strange", read_queue_nums=1, write_queue_nums=1, perm=6)],
            broker_datas=[BrokerData(cluster="c", broker_name="strange", broker_addrs=self.addresses)],
        )
        return command.response(0, body=encode(route))

    def _heartbeat(self, command: Command) -> Command:
        self.members = [decode(command.body, HeartbeatData).client_id]
        return command.response(0)

    def _members(self, command: Command) -> Command:
        return command.response(0, body=encode(GetConsumerListByGroupResponseBody(consumer_id_list=self.members)))

    def _pull(self, command: Command) -> Command:
        header = command.header(PullMessageRequestHeader)
        records = self.records[header.queue_offset :] if header.topic == "t" else []
        end = header.queue_offset + len(records)
        told = PullMessageResponseHeader(
            suggest_which_broker_id=self.suggests, next_begin_offset=end, min_offset=0, max_offset=end
        )
        code = ResponseCode.SUCCESS if records else ResponseCode.PULL_NOT_FOUND
        return command.response(code, told, body=b"".join(records))


@asynccontextmanager
async def strange(count: int = 1) -> AsyncIterator[list[Strange]]:
    """A master, and slaves of the same name."""
    brokers = [Strange() for _ in range(count)]
    for broker in brokers:
        broker.address = f"127.0.0.1:{await broker.server.listen('127.0.0.1', 0)}"
    for broker in brokers:
        broker.addresses = {number: other.address for number, other in enumerate(brokers)}
    try:
        yield brokers
    finally:
        for broker in brokers:
            await broker.server.close()
        await asyncio.sleep(0)


def record(number: int) -> bytes:
    return encode_record(Record(topic="t", body=b"%d" % number, queue_offset=number, properties=b"UNIQ_KEY\x01ID\x02"))


def test_a_slave_is_read_when_the_master_suggests_it_and_keeps_no_offset():
    async def scene() -> None:
        async with strange(2) as (master, slave):
            master.suggests = slave.suggests = 1
            slave.records = [record(number) for number in range(3)]
            async with Consumer(master.address, group="g", topics="t", start="first", consumer_limits=QUICK) as consumer:
                assert numbers(await taken(consumer, 3)) == [0, 1, 2]
                await consumer.commit()
                await until(lambda: len(slave.asked[RequestCode.PULL_MESSAGE]) > 2, "it is asked again")
            flags = [command.header(PullMessageRequestHeader).sys_flag for command in slave.asked[RequestCode.PULL_MESSAGE]]
            assert not any(flag & PULL_COMMIT_OFFSET for flag in flags)
            committed = [
                command.header(UpdateConsumerOffsetRequestHeader).commit_offset
                for command in master.asked[RequestCode.UPDATE_CONSUMER_OFFSET]
            ]
            assert committed[-1] == 3

    play(scene())


def test_a_message_that_cannot_be_given_back_is_sent_to_the_retry_topic():
    async def scene() -> None:
        async with strange() as (broker,):
            broker.records = [record(0)]
            broker.answer(
                RequestCode.CONSUMER_SEND_MSG_BACK, lambda command: command.response(ResponseCode.SYSTEM_ERROR, remark="not me")
            )
            stored = SendMessageResponseHeader(msg_id="x", queue_id=0, queue_offset=0)
            broker.answer(RequestCode.SEND_MESSAGE_V2, lambda command: command.response(0, stored))
            consumer = Consumer(broker.address, group="g", start="first", retries_max=5, consumer_limits=QUICK)

            @consumer.on("t")
            async def handle(_: Received) -> None:
                raise ValueError("no")

            async with consumer:
                await until(lambda: RequestCode.SEND_MESSAGE_V2 in broker.asked, "it is sent")
                await until(
                    lambda: consumer._running().holdings.queues[consumer.queues[0]].state.commit_offset == 1, "it is done"
                )
            (sent,) = broker.asked[RequestCode.SEND_MESSAGE_V2]
            header = sent.header(SendMessageRequestHeaderV2)
            properties = decode_properties(header.properties or "")
            assert (header.topic, header.reconsume_times, header.max_reconsume_times, sent.body) == ("%RETRY%g", 1, 5, b"0")
            assert (properties["RETRY_TOPIC"], properties["ORIGIN_MESSAGE_ID"], properties["DELAY"]) == ("t", "ID", "3")

    play(scene())


def test_a_damaged_record_is_never_given_out(caplog: pytest.LogCaptureFixture):
    async def scene() -> None:
        async with strange() as (broker,):
            damaged = bytearray(record(0))
            damaged[88] ^= 1  # in its body
            broker.records = [bytes(damaged)]
            async with Consumer(broker.address, group="g", topics="t", start="first", consumer_limits=QUICK) as consumer:
                await until(lambda: "has CRC" in caplog.text, "it is noticed")
                broker.records = [record(0)]
                assert numbers(await taken(consumer, 1)) == [0]

    play(scene())


def test_an_offset_that_the_broker_does_not_have_is_corrected_and_committed():
    async def scene() -> None:
        async with strange() as (broker,):

            def moved(command: Command) -> Command:
                header = command.header(PullMessageRequestHeader)
                if header.topic == "t" and header.queue_offset < 5:
                    told = PullMessageResponseHeader(suggest_which_broker_id=0, next_begin_offset=5, min_offset=5, max_offset=6)
                    return command.response(ResponseCode.PULL_OFFSET_MOVED, told)
                return usual(command)

            usual = broker._pull
            broker.records = [b""] * 5 + [record(5)]
            broker.forget(RequestCode.PULL_MESSAGE)
            broker.answer(RequestCode.PULL_MESSAGE, moved)
            async with Consumer(broker.address, group="g", topics="t", start="first", consumer_limits=QUICK) as consumer:
                assert numbers(await taken(consumer, 1)) == [5]
            with_pulls = [command.header(PullMessageRequestHeader) for command in broker.asked[RequestCode.PULL_MESSAGE]]
            alone = [
                command.header(UpdateConsumerOffsetRequestHeader)
                for command in broker.asked.get(RequestCode.UPDATE_CONSUMER_OFFSET, [])
            ]
            offsets = [header.commit_offset for header in [*with_pulls, *alone] if header.topic == "t"]
            assert max(offsets) == 6

    play(scene())
