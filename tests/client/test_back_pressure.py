"""Producers against brokers that answer SYSTEM_BUSY when they have too much to do."""

from __future__ import annotations

import asyncio

from skyrocket.client import Message, Producer
from skyrocket.protocol.command import Command
from skyrocket.protocol.headers import SendMessageResponseHeader
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from tests.client.scripted_brokers import ScriptedBroker, scripted_brokers

SERVED_S = 0.002  # how long the broker works on a request
QUEUE_MAX = 32  # requests that wait in the broker; beyond, they are refused


class SlowBroker(ScriptedBroker):
    """A broker that serves one request after another and refuses those that would wait for long."""

    def __init__(self) -> None:
        super().__init__()
        self.stored = 0
        self.refused = 0
        self._waiting = 0
        self._working = asyncio.Lock()
        for code in (RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE):
            self.router.add(code, self._store)

    async def _store(self, command: Command, _connection: object) -> Command:
        if self._waiting >= QUEUE_MAX:
            self.refused += 1
            return command.response(ResponseCode.SYSTEM_BUSY, remark="broker busy, try again")
        self._waiting += 1
        async with self._working:
            await asyncio.sleep(SERVED_S)
        self._waiting -= 1
        self.stored += 1
        return command.response(0, SendMessageResponseHeader(msg_id="0" * 32, queue_id=0, queue_offset=self.stored))


async def flood(broker: SlowBroker, *, batch: bool) -> int:
    """Send from 256 tasks of four producers at the same time. Return how many sends there were."""
    producers = [Producer(broker.address, instance=str(number)) for number in range(4)]
    for producer in producers:
        await producer.start()

    async def send(producer: Producer) -> None:
        for _ in range(4):
            if batch:
                await producer.send_batch([Message("t", b"m")] * 32, timeout_ms=60_000)
            else:
                await producer.send(Message("t", b"m"), timeout_ms=60_000)

    await asyncio.gather(*(send(producer) for producer in producers for _ in range(64)))
    for producer in producers:
        await producer.close()
    return 4 * 64 * 4


async def test_many_senders_slow_down_instead_of_asking_a_busy_broker_again_and_again():
    """The broker refuses far fewer requests than it serves, and each send ends well within its deadline."""
    for batch in (False, True):
        async with scripted_brokers(1, SlowBroker) as (broker,):
            assert isinstance(broker, SlowBroker)
            assert await flood(broker, batch=batch) == broker.stored
            first_refusals = 4 * 64  # all tasks begin at once
            assert broker.refused < first_refusals + broker.stored / 2


async def test_busy_broker_uses_up_no_retries():
    async with scripted_brokers() as (broker,), Producer(broker.address, retries=0) as producer:
        stored = SendMessageResponseHeader(msg_id="0" * 32, queue_id=0, queue_offset=0)
        refusals = iter(range(5))

        def answer(command: Command) -> Command:
            if next(refusals, None) is not None:
                return command.response(ResponseCode.SYSTEM_BUSY, remark="try again")
            return command.response(0, stored)

        broker.respond(RequestCode.SEND_MESSAGE_V2, answer)
        assert (await producer.send(Message("t", b"m"), timeout_ms=60_000)).is_safe
        assert len(broker.requests[RequestCode.SEND_MESSAGE_V2]) == 6
