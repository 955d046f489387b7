"""Request and reply, against our broker and Apache's."""

from __future__ import annotations

import asyncio

import pytest

from skyrocket.client import Message, Producer, ReplyError, RequestTimedOutError, SendFailedError
from tests.client.servers import Servers, reader


async def test_each_request_gets_its_reply(servers: Servers):
    topic = servers.topic("requests")
    async with (
        Producer(servers.nameserver, group="asking") as asking,
        Producer(servers.nameserver, group="replying", instance="replier") as replier,
        reader(servers) as read,
    ):
        requests = [asyncio.create_task(asking.request(Message(topic, b"%d" % n), timeout_ms=20_000)) for n in range(5)]
        for request in await read.at_least(topic, 5):
            await replier.reply_to(request, b"twice is %d" % (2 * int(request.body)))
        replies = await asyncio.gather(*requests)
    assert [reply.body for reply in replies] == [b"twice is %d" % (2 * n) for n in range(5)]


async def test_request_without_a_reply_times_out(servers: Servers):
    topic = servers.topic("unheard")
    async with Producer(servers.nameserver) as producer, reader(servers) as read:
        await producer.send(Message(topic, b"the topic is there"))
        with pytest.raises(RequestTimedOutError, match="no reply came within 300 ms"):
            await producer.request(Message(topic, b"anyone?"), timeout_ms=300)
        late = next(message for message in await read.at_least(topic, 2) if message.body == b"anyone?")
        await producer.reply_to(late, b"too late")  # the client ignores a reply to a request that timed out
        plain = next(message for message in await read.at_least(topic, 2) if message.body != b"anyone?")
        with pytest.raises(ReplyError, match="is not a request"):
            await producer.reply_to(plain, b"?")


async def test_reply_to_a_client_that_left_fails(servers: Servers):
    topic = servers.topic("left")
    async with Producer(servers.nameserver, instance="leaver") as leaver:
        with pytest.raises(RequestTimedOutError):
            await leaver.request(Message(topic, b"bye"), timeout_ms=4_000)
    async with Producer(servers.nameserver) as replier, reader(servers) as read:
        (request,) = await read.at_least(topic, 1)
        with pytest.raises(SendFailedError):
            await replier.reply_to(request, b"hello?")
