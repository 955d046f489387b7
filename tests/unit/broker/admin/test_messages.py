"""Message queries by key, unique key, tag and physical offset."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from skyrocket.broker.admin import messages
from skyrocket.protocol.command import Command
from skyrocket.protocol.headers import QueryMessageRequestHeader, QueryMessageResponseHeader, ViewMessageRequestHeader
from skyrocket.protocol.message.message_id import decode_offset_id
from skyrocket.protocol.message.properties import KEYS, TAGS, UNIQUE_KEY
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from skyrocket.store.read import message_query
from tests.support.brokers.running_broker import RunningBroker, records, running


async def query(served: RunningBroker, key: str, topic: str = "orders", **given: Any) -> Command:
    values = {"max_num": 32, "begin_timestamp": 0, "end_timestamp": 2**62, **given}
    return await served.ask(RequestCode.QUERY_MESSAGE, QueryMessageRequestHeader(topic=topic, key=key, **values))


async def send(served: RunningBroker, body: bytes, topic: str = "orders", **properties: str) -> int:
    """Return a message's physical offset."""
    answer = await served.send(topic, body, properties=properties)
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    return decode_offset_id(answer.fields["msgId"]).physical_offset


def bodies(answer: Command) -> list[bytes]:
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    return [record.body for record in records(answer)]


async def test_a_message_is_found_by_each_key_its_unique_key_and_its_tag(tmp_path: Path):
    async with running(tmp_path) as served:
        await send(served, b"one", **{KEYS: "red blue", UNIQUE_KEY: "ID-1", TAGS: "paid"})
        await send(served, b"two", **{KEYS: "blue", UNIQUE_KEY: "ID-2", TAGS: "open"})
        await send(served, b"elsewhere", "bills", **{KEYS: "blue", UNIQUE_KEY: "ID-1", TAGS: "paid"})
        assert bodies(await query(served, "blue")) == [b"one", b"two"], "oldest first"
        assert bodies(await query(served, "red")) == [b"one"]
        assert bodies(await query(served, "ID-2")) == [b"two"]
        assert bodies(await query(served, "ID-1", unique_key_query=True)) == [b"one"]
        assert bodies(await query(served, "paid", index_type="T")) == [b"one"]
        assert (await query(served, "paid")).code == ResponseCode.QUERY_NOT_FOUND, "a tag is no key"


async def test_query_response_has_the_last_position_of_the_index(tmp_path: Path):
    async with running(tmp_path) as served:
        await send(served, b"one", **{KEYS: "red"})
        place = await send(served, b"two", **{KEYS: "blue"})
        header = (await query(served, "red")).header(QueryMessageResponseHeader)
        assert header.index_last_update_phyoffset == place
        assert header.index_last_update_timestamp > 0
        nothing = await query(served, "green")
        assert nothing.code == ResponseCode.QUERY_NOT_FOUND
        assert nothing.header(QueryMessageResponseHeader).index_last_update_phyoffset == 0


async def test_query_returns_the_newest_messages_up_to_a_bound(tmp_path: Path):
    async with running(tmp_path, query_max=8, query_default_max=5) as served:
        for number in range(12):
            await send(served, b"%d" % number, **{KEYS: "same"})
        assert bodies(await query(served, "same", max_num=3)) == [b"9", b"10", b"11"]
        assert len(bodies(await query(served, "same", max_num=2**31 - 1))) == 8
        assert len(bodies(await query(served, "same", unique_key_query=True, max_num=1))) == 5
        for none in (0, -1):
            assert (await query(served, "same", max_num=none)).code == ResponseCode.QUERY_NOT_FOUND


async def test_query_ignores_messages_outside_its_time_range(tmp_path: Path):
    async with running(tmp_path) as served:
        place = await send(served, b"one", **{KEYS: "red"})
        record = served.broker.store.reading.record_at(place)
        assert record is not None
        at_ms = record.store_timestamp
        assert bodies(await query(served, "red", begin_timestamp=at_ms, end_timestamp=at_ms)) == [b"one"]
        assert (await query(served, "red", begin_timestamp=at_ms + 1)).code == ResponseCode.QUERY_NOT_FOUND
        assert (await query(served, "red", end_timestamp=at_ms - 1)).code == ResponseCode.QUERY_NOT_FOUND


async def test_a_query_that_walks_far_lets_the_broker_serve_others(tmp_path: Path):
    async with running(tmp_path, index_slots=1, index_entries=100_000) as served:
        wanted = {KEYS: "wanted"}
        await send(served, b"first", **wanted)
        keys = " ".join(f"k{number}" for number in range(250))
        for _ in range(100):
            await send(served, b"x", **{KEYS: keys})
        rounds = 0

        async def count_rounds() -> None:
            nonlocal rounds
            while True:
                await asyncio.sleep(0)
                rounds += 1

        counting = asyncio.ensure_future(count_rounds())
        parts = served.broker.context
        handler = parts.router._handlers[RequestCode.QUERY_MESSAGE]
        header = QueryMessageRequestHeader(topic="orders", key="wanted", max_num=1, begin_timestamp=0, end_timestamp=2**62)
        answer = await handler(Command(RequestCode.QUERY_MESSAGE, fields=header.to_fields()), None)
        counting.cancel()
        assert bodies(answer) == [b"first"]
        assert rounds >= 20, "25,000 entries lie between: one pause for every thousand"


async def test_a_query_looks_at_a_bounded_number_of_entries_and_returns_what_it_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(message_query, "COST_MAX", 2_000)
    async with running(tmp_path, index_slots=1, index_entries=100_000) as served:
        keys = " ".join(f"k{number}" for number in range(100))
        await send(served, b"old", **{KEYS: "same"})
        for _ in range(30):
            await send(served, b"x", **{KEYS: keys})
        await send(served, b"new", **{KEYS: "same"})
        assert bodies(await query(served, "same")) == [b"new"], "the old one lies 3,000 entries behind"
        assert (await query(served, "none")).code == ResponseCode.QUERY_NOT_FOUND


async def test_query_response_fits_into_a_frame(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(messages, "ANSWER_BYTES_MAX", 2_500)
    async with running(tmp_path) as served:
        for number in range(4):
            await send(served, b"%d" % number * 1_000, **{KEYS: "same"})
        assert [body[:1] for body in bodies(await query(served, "same"))] == [b"2", b"3"]


async def test_without_an_index_nothing_is_found(tmp_path: Path):
    async with running(tmp_path, index_enabled=False) as served:
        await send(served, b"one", **{KEYS: "red"})
        assert (await query(served, "red")).code == ResponseCode.QUERY_NOT_FOUND


async def test_view_message_returns_only_the_record_at_an_offset(tmp_path: Path):
    async with running(tmp_path) as served:
        place = await send(served, b"here")

        async def view(offset: int) -> Command:
            return await served.ask(RequestCode.VIEW_MESSAGE_BY_ID, ViewMessageRequestHeader(offset=offset))

        assert bodies(await view(place)) == [b"here"]
        for nowhere in (place + 1, place + 4, 2**40, 2**62, -1):
            answer = await view(nowhere)
            assert answer.code == ResponseCode.SYSTEM_ERROR
            assert str(nowhere) in (answer.remark or "")
