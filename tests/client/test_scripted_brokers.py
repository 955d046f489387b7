"""Consumers against scripted brokers, whose responses a real broker rarely gives."""

from __future__ import annotations

import asyncio
import time

import pytest

from skyrocket.client import ClientLimits, Consumer, PullConsumer, Queue, Received
from skyrocket.protocol.command import Command
from skyrocket.protocol.headers import (
    PullMessageRequestHeader,
    PullMessageResponseHeader,
    SendMessageRequestHeaderV2,
    SendMessageResponseHeader,
    UpdateConsumerOffsetRequestHeader,
)
from skyrocket.protocol.message.properties import decode_properties
from skyrocket.protocol.message.record import Record, encode_record
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from skyrocket.protocol.sysflag import PULL_COMMIT_OFFSET
from tests.client.consumer_support import QUICK, numbers, take
from tests.client.scripted_brokers import scripted_brokers
from tests.client.servers import until


def record(number: int) -> bytes:
    return encode_record(Record(topic="t", body=b"%d" % number, queue_offset=number, properties=b"UNIQ_KEY\x01ID\x02"))


async def test_slave_is_read_when_the_master_suggests_it_and_gets_no_offset_commit():
    async with scripted_brokers(2) as (master, slave):
        master.suggests = slave.suggests = 1
        slave.records = [record(number) for number in range(3)]
        async with Consumer(master.address, group="g", topics="t", start="first", consumer_limits=QUICK) as consumer:
            assert numbers(await take(consumer, 3)) == [0, 1, 2]
            await consumer.commit()
            await until(lambda: len(slave.requests[RequestCode.PULL_MESSAGE]) > 2, "the slave gets another pull")
        flags = [command.header(PullMessageRequestHeader).sys_flag for command in slave.requests[RequestCode.PULL_MESSAGE]]
        assert not any(flag & PULL_COMMIT_OFFSET for flag in flags)
        committed = [
            command.header(UpdateConsumerOffsetRequestHeader).commit_offset
            for command in master.requests[RequestCode.UPDATE_CONSUMER_OFFSET]
        ]
        assert committed[-1] == 3


async def test_slow_broker_gets_the_last_commit_of_a_consumer_that_closes(caplog: pytest.LogCaptureFixture):
    """`close_timeout_ms` is for the last commit too. Otherwise messages that are handled would be delivered again."""
    async with scripted_brokers() as (broker,):
        broker.records = [record(number) for number in range(3)]
        limits = ClientLimits(request_ms=500)

        async def answer_late(command: Command) -> Command:
            await asyncio.sleep(2 * limits.request_ms / 1000)
            return command.response(0)

        broker.forget(RequestCode.UPDATE_CONSUMER_OFFSET)
        broker.respond(RequestCode.UPDATE_CONSUMER_OFFSET, answer_late)
        consumer = Consumer(broker.address, group="g", topics="t", start="first", limits=limits, consumer_limits=QUICK)
        async with consumer:
            assert numbers(await take(consumer, 3)) == [0, 1, 2]
        commits = broker.requests[RequestCode.UPDATE_CONSUMER_OFFSET]
        assert commits[-1].header(UpdateConsumerOffsetRequestHeader).commit_offset == 3
    assert "could not be committed" not in caplog.text


async def test_slave_that_fails_is_left_for_the_master():
    async with scripted_brokers(2) as (master, slave):

        def first_suggest_slave(command: Command) -> Command:
            master.suggests = int(not slave.requests.get(RequestCode.PULL_MESSAGE))
            return usual(command)

        usual = master._pull
        master.records = [record(0), record(1)]
        for broker in (master, slave):
            broker.forget(RequestCode.PULL_MESSAGE)
        master.respond(RequestCode.PULL_MESSAGE, first_suggest_slave)
        slave.respond(RequestCode.PULL_MESSAGE, lambda command: command.response(ResponseCode.TOPIC_NOT_EXIST))
        async with Consumer(master.address, group="g", topics="t", start="first", consumer_limits=QUICK) as consumer:
            assert numbers(await take(consumer, 2)) == [0, 1]
            await until(lambda: RequestCode.PULL_MESSAGE in slave.requests, "the consumer tries the slave")
            master.records += [record(2)]
            assert numbers(await take(consumer, 1)) == [2]


async def test_slave_that_does_not_have_the_offset_is_not_asked_without_a_pause():
    async with scripted_brokers(2) as (master, slave):

        def behind(command: Command) -> Command:
            """As Apache's slave answers for an offset that it does not have: at once, and with the same offset."""
            offset = command.header(PullMessageRequestHeader).queue_offset
            response = PullMessageResponseHeader(suggest_which_broker_id=1, next_begin_offset=offset, min_offset=0, max_offset=0)
            return command.response(ResponseCode.PULL_RETRY_IMMEDIATELY, response)

        master.suggests = 1
        slave.forget(RequestCode.PULL_MESSAGE)
        slave.respond(RequestCode.PULL_MESSAGE, behind)
        async with PullConsumer(master.address, group="g", start="first", consumer_limits=QUICK) as consumer:
            await consumer.assign([Queue("t", "scripted", 0)])
            await until(lambda: RequestCode.PULL_MESSAGE in slave.requests, "the consumer asks the slave")
            began = time.monotonic()
            await until(lambda: len(slave.requests[RequestCode.PULL_MESSAGE]) >= 3, "it asks again")
            assert time.monotonic() - began > 0.4


async def test_message_that_cannot_be_sent_back_is_sent_to_the_retry_topic():
    async with scripted_brokers() as (broker,):
        broker.records = [record(0)]
        broker.respond(
            RequestCode.CONSUMER_SEND_MSG_BACK, lambda command: command.response(ResponseCode.SYSTEM_ERROR, remark="not me")
        )
        stored = SendMessageResponseHeader(msg_id="x", queue_id=0, queue_offset=0)
        broker.respond(RequestCode.SEND_MESSAGE_V2, lambda command: command.response(0, stored))
        consumer = Consumer(broker.address, group="g", start="first", retries_max=5, consumer_limits=QUICK)

        @consumer.on("t")
        async def handle(_: Received) -> None:
            raise ValueError("no")

        async with consumer:
            await until(lambda: RequestCode.SEND_MESSAGE_V2 in broker.requests, "the message is sent")
            (queue,) = consumer.queues
            process_queue = consumer._require_engine().assigned.by_queue[queue].process_queue
            await until(lambda: process_queue.commit_offset == 1, "the message is finished")
        (sent,) = broker.requests[RequestCode.SEND_MESSAGE_V2]
        header = sent.header(SendMessageRequestHeaderV2)
        properties = decode_properties(header.properties or "")
        assert (header.topic, header.reconsume_times, header.max_reconsume_times, sent.body) == ("%RETRY%g", 1, 5, b"0")
        assert (properties["RETRY_TOPIC"], properties["ORIGIN_MESSAGE_ID"], properties["DELAY"]) == ("t", "ID", "3")


async def test_damaged_record_is_never_delivered(caplog: pytest.LogCaptureFixture):
    async with scripted_brokers() as (broker,):
        damaged = bytearray(record(0))
        damaged[88] ^= 1  # a bit of the body
        broker.records = [bytes(damaged)]
        async with Consumer(broker.address, group="g", topics="t", start="first", consumer_limits=QUICK) as consumer:
            await until(lambda: "has CRC" in caplog.text, "the damage is logged")
            broker.records = [record(0)]
            assert numbers(await take(consumer, 1)) == [0]


async def test_offset_outside_the_queue_is_corrected_and_committed():
    async with scripted_brokers() as (broker,):

        def moved(command: Command) -> Command:
            header = command.header(PullMessageRequestHeader)
            if header.topic == "t" and header.queue_offset < 5:
                response = PullMessageResponseHeader(suggest_which_broker_id=0, next_begin_offset=5, min_offset=5, max_offset=6)
                return command.response(ResponseCode.PULL_OFFSET_MOVED, response)
            return usual(command)

        usual = broker._pull
        broker.records = [b""] * 5 + [record(5)]
        broker.forget(RequestCode.PULL_MESSAGE)
        broker.respond(RequestCode.PULL_MESSAGE, moved)
        async with Consumer(broker.address, group="g", topics="t", start="first", consumer_limits=QUICK) as consumer:
            assert numbers(await take(consumer, 1)) == [5]
        with_pulls = [command.header(PullMessageRequestHeader) for command in broker.requests[RequestCode.PULL_MESSAGE]]
        alone = [
            command.header(UpdateConsumerOffsetRequestHeader)
            for command in broker.requests.get(RequestCode.UPDATE_CONSUMER_OFFSET, [])
        ]
        offsets = [header.commit_offset for header in [*with_pulls, *alone] if header.topic == "t"]
        assert max(offsets) == 6


async def test_broker_may_hold_pulls_as_long_as_those_of_javas_consumers():
    """15 s for a push consumer, 20 s for a pull consumer."""
    holds = []
    for pulls in (False, True):
        async with scripted_brokers() as (broker,):
            if pulls:
                async with PullConsumer(broker.address, group="g", start="first") as consumer:
                    await consumer.assign([Queue("t", "scripted", 0)])
                    await until(lambda: RequestCode.PULL_MESSAGE in broker.requests, "a pull")
            else:
                async with Consumer(broker.address, group="g", topics="t", start="first"):
                    await until(lambda: RequestCode.PULL_MESSAGE in broker.requests, "a pull")
            holds.append(broker.requests[RequestCode.PULL_MESSAGE][0].header(PullMessageRequestHeader).suspend_timeout_millis)
    assert holds == [15_000, 20_000]
