"""Topics and groups are saved in the background: nobody waits for a file but those whose answer promises what is in it."""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from skyrocket.broker.broker import Broker
from skyrocket.protocol.bodies import SubscriptionGroupConfig, TopicConfigSerializeWrapper
from skyrocket.protocol.command import Command
from skyrocket.protocol.fastjson.codec import decode, encode
from skyrocket.protocol.headers import ConsumerSendMsgBackRequestHeader, CreateTopicRequestHeader, DeleteTopicRequestHeader
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from skyrocket.store import table_text
from skyrocket.store.files import Disk
from tests.support.brokers.running_broker import SMALL, RunningBroker, records, running, send_header


class ConfigDisk(Disk):
    """A disk whose writes to `config/` can be held up or fail, and are counted."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()
        self.gate.set()
        self.writing = threading.Event()  # a write is held up
        self.fails = False
        self.writes: list[str] = []

    def replace(self, path: str, data: bytes) -> None:
        self._meet(path)
        super().replace(path, data)

    def replace_with_backup(self, path: str, pieces: Iterable[bytes], backup: str | None) -> None:
        self._meet(path)
        super().replace_with_backup(path, pieces, backup)

    def _meet(self, path: str) -> None:
        if "/config/" not in path:
            return
        if not self.gate.is_set():
            self.writing.set()
            assert self.gate.wait(60), "the test left the gate closed"
        if self.fails:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.writes.append(path.rpartition("/")[2])

    def close_gate(self) -> None:
        self.writing.clear()
        self.gate.clear()


@asynccontextmanager
async def served_from(disk: ConfigDisk, path: Path, **changes: Any) -> AsyncIterator[RunningBroker]:
    broker = Broker(replace(SMALL, store_path=str(path / "store"), **changes), files=disk)
    await broker.start()
    served = RunningBroker(broker)
    try:
        yield served
    finally:
        disk.gate.set()
        disk.fails = False
        await served.dialer.close()
        await broker.close()


async def write_begins(disk: ConfigDisk) -> None:
    assert await asyncio.to_thread(disk.writing.wait, 60), "nothing is saved"


async def create_topic(served: RunningBroker, topic: str) -> Command:
    header = CreateTopicRequestHeader(
        topic=topic,
        default_topic="TBW102",
        read_queue_nums=4,
        write_queue_nums=4,
        perm=6,
        topic_filter_type="SINGLE_TAG",
        topic_sys_flag=0,
        order=False,
    )
    return await served.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, header)


def topics_on_disk(path: Path) -> set[str]:
    data = (path / "store" / "config" / "topics.json").read_bytes()
    return set(decode(data, TopicConfigSerializeWrapper).topic_config_table)


# --- nobody waits


async def test_heartbeats_are_answered_while_a_save_is_held_up(tmp_path: Path):
    disk = ConfigDisk()
    async with served_from(disk, tmp_path) as served:
        disk.close_gate()
        for number in range(20):
            async with asyncio.timeout(5):
                assert (await served.heartbeat(f"group-{number}", orders="*")).code == 0
        assert "group-19" in served.broker.groups
        assert "%RETRY%group-19" in served.broker.topics


async def test_changes_in_quick_succession_are_saved_together(tmp_path: Path):
    disk = ConfigDisk()
    async with served_from(disk, tmp_path) as served:
        for number in range(200):
            await served.heartbeat(f"group-{number}", orders="*")
        written = disk.writes.count("topics.json")
    assert written <= 20, "a save for each heartbeat"
    async with running(tmp_path) as served:
        assert "group-199" in served.broker.groups
        assert "%RETRY%group-199" in served.broker.topics


async def test_offsets_are_saved_while_requests_are_served(tmp_path: Path):
    disk = ConfigDisk()
    async with served_from(disk, tmp_path, offsets_interval_ms=20) as served:
        disk.close_gate()
        served.broker.offsets.commit("billing", "orders", 0, 7)
        await write_begins(disk)
        async with asyncio.timeout(5):
            assert (await served.ask(RequestCode.GET_BROKER_CONFIG)).code == 0


# --- who promises something waits


async def test_created_topic_is_on_disk_before_the_answer_and_counts_from_then(tmp_path: Path):
    disk = ConfigDisk()
    async with served_from(disk, tmp_path, auto_create_topic=False) as served:
        disk.close_gate()
        creating = asyncio.ensure_future(create_topic(served, "orders"))
        await write_begins(disk)
        assert "orders" not in served.broker.topics
        early = asyncio.ensure_future(served.send("orders", b"early"))
        assert (await served.send("returns", b"x")).code == ResponseCode.TOPIC_NOT_EXIST
        assert not creating.done()
        assert not early.done()
        disk.gate.set()
        assert (await creating).code == 0
        assert (await early).code == 0
        assert "orders" in topics_on_disk(tmp_path)
        deleted = await served.ask(RequestCode.DELETE_TOPIC_IN_BROKER, DeleteTopicRequestHeader(topic="orders"))
        assert deleted.code == 0
        assert "orders" not in topics_on_disk(tmp_path)


async def test_topic_that_could_not_be_saved_does_not_exist(tmp_path: Path):
    disk = ConfigDisk()
    async with served_from(disk, tmp_path) as served:
        await create_topic(served, "orders")
        disk.fails = True
        refused = await create_topic(served, "returns")
        assert refused.code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert "topics.json" in (refused.remark or "")
        assert (await served.send("invoices", b"x")).code == ResponseCode.SERVICE_NOT_AVAILABLE
        deleted = await served.ask(RequestCode.DELETE_TOPIC_IN_BROKER, DeleteTopicRequestHeader(topic="orders"))
        assert deleted.code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert {"orders"} == {"orders", "returns", "invoices"} & set(served.broker.topics)
        disk.fails = False
        assert (await create_topic(served, "returns")).code == 0
        assert {"orders", "returns"} == {"orders", "returns", "invoices"} & topics_on_disk(tmp_path)


async def test_group_is_on_disk_before_the_answer(tmp_path: Path):
    disk = ConfigDisk()
    async with served_from(disk, tmp_path) as served:
        body = encode(SubscriptionGroupConfig(group_name="billing"))
        assert (await served.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)).code == 0
        assert b'"billing"' in (tmp_path / "store" / "config" / "subscriptionGroup.json").read_bytes()
        disk.fails = True
        body = encode(SubscriptionGroupConfig(group_name="audit"))
        answer = await served.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)
        assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE


async def test_sends_that_create_their_topic_wait_for_it_and_keep_their_order(tmp_path: Path):
    disk = ConfigDisk()
    async with served_from(disk, tmp_path) as served:
        disk.close_gate()
        first = [asyncio.ensure_future(served.send("orders", b"%d" % number)) for number in range(20)]
        await write_begins(disk)
        later = [asyncio.ensure_future(served.send("orders", b"%d" % number)) for number in range(20, 40)]
        await served.ask(RequestCode.GET_BROKER_CONFIG)  # behind them on the same connection
        assert not any(sending.done() for sending in first + later)
        assert "orders" not in served.broker.topics
        disk.gate.set()
        answers = await asyncio.gather(*first, *later)
        assert [answer.fields["queueOffset"] for answer in answers] == [str(number) for number in range(40)]
        assert [r.body for r in records(await served.pull("orders", 0, max_msg_nums=32))] == [b"%d" % n for n in range(32)]
        assert "orders" in topics_on_disk(tmp_path)


async def test_too_many_sends_that_wait_for_a_topic_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("skyrocket.broker.send.deferred_sends.DEFERRED_SENDS_BYTES_MAX", 1_000)
    disk = ConfigDisk()
    async with served_from(disk, tmp_path) as served:
        disk.close_gate()
        first = asyncio.ensure_future(served.send("orders", bytes(900)))
        await write_begins(disk)
        assert (await served.send("orders", bytes(200))).code == ResponseCode.SYSTEM_BUSY
        disk.gate.set()
        assert (await first).code == 0
        assert (await served.send("orders", bytes(2_000))).code == 0


async def test_dead_letter_topic_is_on_disk_before_its_first_message(tmp_path: Path):
    disk = ConfigDisk()
    async with served_from(disk, tmp_path) as served:
        await served.send("orders", b"poison")
        await served.heartbeat("billing", orders="*")
        disk.close_gate()
        header = ConsumerSendMsgBackRequestHeader(offset=0, group="billing", delay_level=-1, origin_topic="orders")
        going_back = asyncio.ensure_future(served.ask(RequestCode.CONSUMER_SEND_MSG_BACK, header))
        await write_begins(disk)
        await served.ask(RequestCode.GET_BROKER_CONFIG)
        assert not going_back.done()
        disk.gate.set()
        assert (await going_back).code == 0
        assert "%DLQ%billing" in topics_on_disk(tmp_path)
        assert [r.body for r in records(await served.pull("%DLQ%billing", 0))] == [b"poison"]


async def test_reply_to_an_unknown_topic_waits_for_it(tmp_path: Path):
    disk = ConfigDisk()
    async with served_from(disk, tmp_path) as served:
        header = send_header("replies", properties={"REPLY_TO_CLIENT": "nobody"})
        answer = await served.ask(RequestCode.SEND_REPLY_MESSAGE_V2, header, b"reply")
        assert "is not connected" in (answer.remark or "")
        assert "replies" in topics_on_disk(tmp_path)


# --- what a save costs


async def test_topic_number_5001_costs_what_the_first_one_did(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    encoded: list[str] = []
    original = table_text.encode_pretty_entry

    def counting(key: str, value: object, depth: int) -> bytes:
        encoded.append(key)
        return original(key, value, depth)

    monkeypatch.setattr(table_text, "encode_pretty_entry", counting)
    async with served_from(ConfigDisk(), tmp_path) as served:
        for number in range(5_000):
            served.broker.topics.create_for_group(f"%RETRY%group-{number}", 1)
        await create_topic(served, "orders")
        encoded.clear()
        await create_topic(served, "returns")
        assert encoded == ["returns"]
        assert len(topics_on_disk(tmp_path)) > 5_000
