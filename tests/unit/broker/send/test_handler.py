"""Sends over loopback: they are stored as by Apache's broker, or refused with an error that says why."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from skyrocket.protocol.headers import SendMessageRequestHeader, SendMessageResponseHeader
from skyrocket.protocol.message.batch import BatchEntry, encode_batch
from skyrocket.protocol.message.message_id import decode_offset_id
from skyrocket.protocol.message.properties import decode_properties, encode_properties
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from tests.support.brokers.running_broker import records, running, send_header


async def test_a_message_is_stored_with_the_properties_that_the_broker_adds(tmp_path: Path):
    async with running(tmp_path) as served:
        sent = await served.send("orders", b"hello", queue_id=2, properties={"TAGS": "red", "UNIQ_KEY": "U1", "KEYS": "k"})
        header = sent.header(SendMessageResponseHeader)
        assert (sent.code, header.queue_id, header.queue_offset, header.transaction_id) == (0, 2, 0, "U1")
        assert (header.region_id, header.trace_on) == ("DefaultRegion", True)
        (record,) = records(await served.pull("orders", 0, queue_id=2))
        assert (record.body, record.queue_id, record.born_timestamp) == (b"hello", 2, 1_000)
        assert decode_properties(record.properties) == {
            "TAGS": "red",
            "UNIQ_KEY": "U1",
            "KEYS": "k",
            "MSG_REGION": "DefaultRegion",
            "TRACE_ON": "true",
            "CLUSTER": "DefaultCluster",
        }
        assert decode_offset_id(header.msg_id)[1] == record.physical_offset


async def test_the_brokers_region_and_cluster_replace_the_producers(tmp_path: Path):
    async with running(tmp_path) as served:
        await served.send("orders", b"x", properties={"MSG_REGION": "elsewhere", "CLUSTER": "other", "mine": "1"})
        (record,) = records(await served.pull("orders", 0))
        properties = decode_properties(record.properties)
        assert (properties["MSG_REGION"], properties["CLUSTER"], properties["mine"]) == ("DefaultRegion", "DefaultCluster", "1")


async def test_a_send_with_the_long_header_of_old_clients_is_stored(tmp_path: Path):
    async with running(tmp_path) as served:
        header = send_header("orders", 1, {"TAGS": "red"}).to_v1()
        assert isinstance(header, SendMessageRequestHeader)
        sent = await served.ask(RequestCode.SEND_MESSAGE, header, b"old")
        assert sent.code == 0
        assert [r.body for r in records(await served.pull("orders", 0, queue_id=1, tags="red"))] == [b"old"]


async def test_a_batch_gets_consecutive_offsets_and_one_answer(tmp_path: Path):
    async with running(tmp_path) as served:
        entries = [BatchEntry(b"m%d" % n, encode_properties({"TAGS": "red", "UNIQ_KEY": f"U{n}"}), 0) for n in range(3)]
        sent = await served.send("orders", encode_batch(entries), code=RequestCode.SEND_BATCH_MESSAGE, batch=True)
        header = sent.header(SendMessageResponseHeader)
        assert header.queue_offset == 0
        assert len(header.msg_id.split(",")) == 3
        found = records(await served.pull("orders", 0))
        assert [(r.body, r.queue_offset) for r in found] == [(b"m0", 0), (b"m1", 1), (b"m2", 2)]
        assert [r.properties for r in found] == [entry.properties for entry in entries]


async def test_sends_of_one_read_event_are_stored_in_order(tmp_path: Path):
    async with running(tmp_path) as served:
        responses = await asyncio.gather(*(served.send("orders", b"%d" % n) for n in range(100)))
        assert [r.header(SendMessageResponseHeader).queue_offset for r in responses] == list(range(100))
        found = records(await served.pull("orders", 0)) + records(await served.pull("orders", 32))
        assert [r.body for r in found] == [b"%d" % n for n in range(64)]


async def test_sends_without_a_queue_id_go_to_all_queues_in_turn(tmp_path: Path):
    async with running(tmp_path) as served:
        sent = [await served.send("orders", b"x", queue_id=-1) for _ in range(8)]
        queues = [response.header(SendMessageResponseHeader).queue_id for response in sent]
        assert sorted(queues) == [0, 0, 1, 1, 2, 2, 3, 3]


async def test_a_oneway_send_is_stored_and_not_answered(tmp_path: Path):
    async with running(tmp_path) as served:
        await served.send("orders", b"first")
        await served.oneway("orders", b"second")
        await served.send("orders", b"third")
        assert [r.body for r in records(await served.pull("orders", 0))] == [b"first", b"second", b"third"]


async def test_a_send_does_not_create_a_topic_when_auto_create_is_off(tmp_path: Path):
    async with running(tmp_path, auto_create_topic=False) as served:
        refused = await served.send("orders", b"x")
        assert refused.code == ResponseCode.TOPIC_NOT_EXIST
        assert "does not exist" in (refused.remark or "")
        assert served.broker.topics.get("orders") is None


REFUSALS = [
    ({"topic": "a/../b"}, b"x", ResponseCode.INVALID_PARAMETER, "characters other than"),
    ({"topic": "x" * 128}, b"x", ResponseCode.INVALID_PARAMETER, "127 are allowed"),
    ({"topic": "SCHEDULE_TOPIC_XXXX"}, b"x", ResponseCode.NO_PERMISSION, "only the broker writes to it"),
    ({"queue_id": 99}, b"x", ResponseCode.INVALID_PARAMETER, "there is no queue 99"),
    ({}, bytes(4 * 1024 * 1024 + 1), ResponseCode.MESSAGE_ILLEGAL, "larger than the 4194304"),
    ({"properties": "a\x01" + "x" * 32_766 + "\x02"}, b"x", ResponseCode.MESSAGE_ILLEGAL, "32767"),
    ({"properties": "a\x01" + "x" * 32_760 + "\x02"}, b"x", ResponseCode.MESSAGE_ILLEGAL, "32767"),
    ({"properties": "DELAY\x01soon\x02"}, b"x", ResponseCode.SYSTEM_ERROR, "whole number, not 'soon'"),
]


@pytest.mark.parametrize(("given", "body", "code", "sentence"), REFUSALS)
async def test_an_invalid_send_is_refused_with_a_reason(
    tmp_path: Path, given: dict, body: bytes, code: ResponseCode, sentence: str
):
    async with running(tmp_path) as served:
        header = send_header(given.get("topic", "orders"), given.get("queue_id", 0))
        if "properties" in given:
            header.properties = given["properties"]
        refused = await served.ask(RequestCode.SEND_MESSAGE_V2, header, body)
        assert refused.code == code
        assert sentence in (refused.remark or "")
        assert served.broker.store.log.end == 0


async def test_a_broken_batch_stores_nothing(tmp_path: Path):
    async with running(tmp_path) as served:
        for body in (b"", b"\0" * 10, encode_batch([BatchEntry(b"x", b"", 0)])[:-1]):
            refused = await served.send("orders", body, code=RequestCode.SEND_BATCH_MESSAGE, batch=True)
            assert refused.code in (ResponseCode.MESSAGE_ILLEGAL, ResponseCode.SYSTEM_ERROR)
        assert served.broker.store.log.end == 0


async def test_neighbours_of_a_refused_send_are_stored(tmp_path: Path):
    async with running(tmp_path) as served:
        await served.send("orders", b"0")
        sends = [served.send("orders", b"1"), served.send("orders", b"x", queue_id=99), served.send("orders", b"2")]
        codes = [response.code for response in await asyncio.gather(*sends)]
        assert codes == [0, ResponseCode.INVALID_PARAMETER, 0]
        assert [r.body for r in records(await served.pull("orders", 0))] == [b"0", b"1", b"2"]


async def test_a_broker_without_write_permission_refuses_sends(tmp_path: Path):
    async with running(tmp_path, permission=4) as served:
        assert (await served.send("orders", b"x")).code == ResponseCode.NO_PERMISSION


async def test_with_sync_flush_the_answer_comes_after_the_flush(tmp_path: Path):
    async with running(tmp_path, sync_flush=True) as served:
        sent = await asyncio.gather(*(served.send("orders", b"x") for _ in range(20)))
        assert all(response.code == 0 for response in sent)
        horizon = served.broker.store.horizon
        assert horizon.flushed == horizon.appended == horizon.confirmed


async def test_a_late_flush_is_answered_with_flush_disk_timeout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    async with running(tmp_path, sync_flush=True) as served:
        monkeypatch.setattr("skyrocket.broker.send.parked_answers.SYNC_FLUSH_TIMEOUT_MS", -1)
        monkeypatch.setattr(served.broker._flusher, "on_append", lambda: None)
        monkeypatch.setattr(served.broker.store, "begin_flush", lambda: None)
        response = await served.send("orders", b"x")
        assert response.code == ResponseCode.FLUSH_DISK_TIMEOUT
        monkeypatch.undo()


async def test_no_send_is_acknowledged_before_the_flush_however_many_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    async with running(tmp_path, sync_flush=True) as served:
        await served.send("orders", b"0")
        monkeypatch.setattr(served.broker.store, "begin_flush", lambda: None)  # the disk stalls
        served.broker.context.answers._parked._answers_max = 2
        waiting = []
        for number in (1, 2):  # one read event each, as answers to one read event wait together
            waiting.append(asyncio.create_task(served.send("orders", b"%d" % number)))
            while len(served.broker.context.answers._parked) < number:  # noqa: ASYNC110 — the table sends no event
                await asyncio.sleep(0.001)
        refused = [await served.send("orders", b"refused") for _ in range(3)]
        assert {response.code for response in refused} == {ResponseCode.SYSTEM_BUSY}
        assert not any(task.done() for task in waiting)
        monkeypatch.undo()
        served.broker._flusher.on_append()
        assert [(await task).code for task in waiting] == [0, 0]
        assert [r.body for r in records(await served.pull("orders", 0))] == [b"0", b"1", b"2"]


async def test_a_full_store_is_answered_with_service_not_available(tmp_path: Path):
    async with running(tmp_path) as served:
        served.broker.store.retention.too_full = "The disk is 99 % full."
        refused = await served.send("orders", b"x")
        assert refused.code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert "99 % full" in (refused.remark or "")
