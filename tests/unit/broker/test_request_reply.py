"""A reply goes to whoever waits for it, over the connection that it opened, and is kept."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from skyrocket.net.connection import Connection
from skyrocket.net.dialer import Dialer
from skyrocket.net.router import Router
from skyrocket.protocol.bodies import HeartbeatData, ProducerData
from skyrocket.protocol.command import Command
from skyrocket.protocol.fastjson.codec import encode
from skyrocket.protocol.headers import ReplyMessageRequestHeader
from skyrocket.protocol.message.properties import CORRELATION_ID, PUSH_REPLY_TIME, REPLY_TO_CLIENT, decode_properties
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from tests.support.brokers.running_broker import RunningBroker, records, running, send_header

REPLIES = "DefaultCluster_REPLY_TOPIC"
TO_REQUESTER = {REPLY_TO_CLIENT: "requester", CORRELATION_ID: "42"}


class Requester:
    """A client that asked, and waits."""

    def __init__(self, code: int = ResponseCode.SUCCESS) -> None:
        self.replies: list[Command] = []
        self._code = code
        router = Router()
        router.add(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, self._take)
        self.dialer = Dialer(router=router)

    def _take(self, command: Command, _: Connection) -> Command:
        self.replies.append(command)
        return command.response(self._code, remark=None if self._code == ResponseCode.SUCCESS else "not mine")

    async def come(self, address: str, client_id: str = "requester") -> None:
        body = encode(HeartbeatData(client_id=client_id, producer_data_set=[ProducerData(group_name="askers")]))
        answer = await self.dialer.request(address, Command(RequestCode.HEART_BEAT, body=body), 5_000)
        assert answer.code == ResponseCode.SUCCESS


async def reply(served: RunningBroker, body: bytes, properties: dict[str, str], *, v1: bool = False, **given: Any) -> Command:
    header = send_header(REPLIES, properties=properties, **given)
    if v1:
        return await served.ask(RequestCode.SEND_REPLY_MESSAGE, header.to_v1(), body)
    return await served.ask(RequestCode.SEND_REPLY_MESSAGE_V2, header, body)


async def kept(served: RunningBroker) -> list[bytes]:
    return [record.body for record in records(await served.pull(REPLIES, 0))]


@pytest.mark.parametrize("v1", [False, True])
async def test_a_reply_reaches_the_one_who_asked_as_it_was_sent(tmp_path: Path, v1: bool):
    async with running(tmp_path) as served:
        requester = Requester()
        await requester.come(served.address)
        answer = await reply(served, b"the answer", TO_REQUESTER, v1=v1, flag=7, sys_flag=1, born_timestamp=123)
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        (push,) = requester.replies
        assert push.body == b"the answer"
        header = push.header(ReplyMessageRequestHeader)
        assert (header.topic, header.flag, header.sys_flag, header.born_timestamp) == (REPLIES, 7, 1, 123)
        properties = decode_properties(header.properties or "")
        assert properties.items() >= TO_REQUESTER.items()
        assert int(properties[PUSH_REPLY_TIME]) > 0
        assert header.store_host == served.address
        assert await kept(served) == [b"the answer"]
        assert (answer.fields["queueId"], answer.fields["queueOffset"]) == ("0", "0")
        await requester.dialer.close()


async def test_with_sync_flush_a_reply_that_is_not_flushed_is_no_success(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    async with running(tmp_path, sync_flush=True) as served:
        requester = Requester()
        await requester.come(served.address)
        monkeypatch.setattr("skyrocket.broker.send.parked_answers.SYNC_FLUSH_TIMEOUT_MS", -1)
        monkeypatch.setattr(served.broker.store, "begin_flush", lambda: None)
        answer = await reply(served, b"the answer", TO_REQUESTER)
        assert answer.code == ResponseCode.FLUSH_DISK_TIMEOUT
        assert (answer.fields["queueId"], answer.fields["queueOffset"]) == ("0", "0")
        monkeypatch.undo()
        await requester.dialer.close()


async def test_a_reply_to_one_who_is_not_there_fails_and_is_kept(tmp_path: Path):
    async with running(tmp_path) as served:
        for properties, word in ((TO_REQUESTER, "requester"), ({CORRELATION_ID: "42"}, REPLY_TO_CLIENT)):
            answer = await reply(served, b"lost", properties)
            assert answer.code == ResponseCode.SYSTEM_ERROR
            assert word in (answer.remark or "")
        assert await kept(served) == [b"lost", b"lost"]


async def test_one_who_left_is_not_there(tmp_path: Path):
    async with running(tmp_path) as served:
        requester = Requester()
        await requester.come(served.address)
        await requester.dialer.close()
        while served.broker.clients.all_producers:  # noqa: ASYNC110 — the kernel tells the broker
            await asyncio.sleep(0.01)
        assert (await reply(served, b"lost", TO_REQUESTER)).code == ResponseCode.SYSTEM_ERROR


async def test_one_who_refuses_its_reply_is_an_error_for_the_replier(tmp_path: Path):
    async with running(tmp_path) as served:
        requester = Requester(ResponseCode.SYSTEM_ERROR)
        await requester.come(served.address)
        answer = await reply(served, b"no", TO_REQUESTER)
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert "not mine" in (answer.remark or "")
        await requester.dialer.close()


async def test_replies_need_not_be_kept(tmp_path: Path):
    async with running(tmp_path, store_replies=False) as served:
        requester = Requester()
        await requester.come(served.address)
        answer = await reply(served, b"the answer", TO_REQUESTER)
        assert (answer.code, answer.fields["msgId"]) == (ResponseCode.SUCCESS, "0")
        assert len(requester.replies) == 1
        assert await kept(served) == []
        await requester.dialer.close()


async def test_a_reply_to_a_topic_that_takes_nothing_is_refused_before_anyone_hears_it(tmp_path: Path):
    async with running(tmp_path) as served:
        requester = Requester()
        await requester.come(served.address)
        answer = await reply(served, b"no", TO_REQUESTER, queue_id=9)
        assert answer.code == ResponseCode.INVALID_PARAMETER
        assert requester.replies == []
        await requester.dialer.close()
