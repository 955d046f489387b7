"""The whole broker: it starts, registers, answers administrators, stops, and continues after a restart."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from skyrocket.broker.broker import Broker
from skyrocket.broker.nameserver_registration import NameserverRegistration
from skyrocket.broker.settings import BrokerSettings
from skyrocket.nameserver.nameserver import Nameserver
from skyrocket.nameserver.settings import NameserverSettings
from skyrocket.net.dialer import Dialer
from skyrocket.net.errors import NetError
from skyrocket.net.limits import NetLimits
from skyrocket.protocol.bodies import BrokerStatsData, DataVersion, KVTable, TopicRouteData
from skyrocket.protocol.command import Command
from skyrocket.protocol.config_text import decode_config
from skyrocket.protocol.fastjson.codec import decode
from skyrocket.protocol.headers import GetRouteInfoRequestHeader, PutKVConfigRequestHeader, ViewBrokerStatsDataRequestHeader
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from skyrocket.store.errors import StoreLockedError
from tests.soak.faulty_disk import SLOW, DiskControl, FaultyDisk
from tests.support.brokers.running_broker import SMALL, RunningBroker, records, running


async def test_messages_topics_and_offsets_survive_a_restart(tmp_path: Path):
    async with running(tmp_path) as served:
        for number in range(3):
            await served.send("orders", b"%d" % number)
        served.broker.offsets.commit("consumers", "orders", 0, 2)
    async with running(tmp_path) as served:
        assert [r.body for r in records(await served.pull("orders", 0))] == [b"0", b"1", b"2"]
        assert served.broker.offsets.query("consumers", "orders", 0) == 2
        assert (await served.send("orders", b"3")).fields["queueOffset"] == "3"


async def test_a_send_that_waits_for_its_flush_is_answered_when_the_broker_stops(tmp_path: Path):
    control = DiskControl(tmp_path / "disk")
    broker = Broker(replace(SMALL, store_path=str(tmp_path / "store"), sync_flush=True), files=FaultyDisk(control))
    await broker.start()
    served = RunningBroker(broker)
    assert (await served.send("orders", b"first")).code == ResponseCode.SUCCESS
    control.set(SLOW)
    end = broker.store.log.end
    sending = asyncio.create_task(served.send("orders", b"last"))
    while broker.store.log.end == end:  # noqa: ASYNC110
        await asyncio.sleep(0)
    assert broker.store.horizon.flushed < broker.store.log.end, "its flush takes a while"
    await broker.close()
    assert (await sending).code == ResponseCode.SUCCESS
    await served.dialer.close()


async def test_second_broker_cannot_open_the_same_store(tmp_path: Path):
    async with running(tmp_path) as served:
        second = Broker(replace(SMALL, store_path=str(tmp_path / "store")))
        with pytest.raises(StoreLockedError, match="Another process has the store"):
            await second.start()
        assert (await served.send("orders", b"x")).code == 0


async def test_vip_port_serves_requests(tmp_path: Path):
    for port in range(21_911, 22_911, 10):
        try:
            async with running(tmp_path, port=port) as served:
                response = await served.dialer.request(f"127.0.0.1:{port - 2}", Command(RequestCode.GET_BROKER_CONFIG))
                assert response.code == 0
            return
        except NetError:
            continue  # taken


HOSTILE_SETTINGS = {
    b"storePathRootDir=/etc": ResponseCode.NO_PERMISSION,
    b"namesrvAddr=evil:1": ResponseCode.NO_PERMISSION,
    b"rocketmqHome=/bin": ResponseCode.NO_PERMISSION,
    b"fileReservedTime=x": ResponseCode.SYSTEM_ERROR,
    b"traceOn=true\nbindAddress=::": ResponseCode.NO_PERMISSION,
}


async def test_settings_are_returned_and_changed_within_bounds(tmp_path: Path):
    async with running(tmp_path) as served:
        shown = decode_config((await served.ask(RequestCode.GET_BROKER_CONFIG)).body)
        assert shown["brokerName"] == "broker-a"
        changed = await served.ask(RequestCode.UPDATE_BROKER_CONFIG, body=b"fileReservedTime=48\ntraceOn=false\n")
        assert changed.code == 0
        assert served.broker.settings().reserved_hours == 48
        for hostile, code in HOSTILE_SETTINGS.items():
            refused = await served.ask(RequestCode.UPDATE_BROKER_CONFIG, body=hostile)
            assert refused.code == code, hostile
        assert not served.broker.settings().trace_on


async def test_retention_changes_at_run_time(tmp_path: Path):
    async with running(tmp_path) as served:
        await served.ask(RequestCode.UPDATE_BROKER_CONFIG, body=b"fileReservedTime=7\ndiskMaxUsedSpaceRatio=60\n")
        assert (await served.ask(RequestCode.DELETE_EXPIRED_COMMITLOG)).code == 0
        assert (served.broker.store.config.reserved_hours, served.broker.store.config.disk_max_used_percent) == (7, 60)
        assert served.broker.store.config.segment_bytes == SMALL.segment_bytes


async def test_runtime_info_has_what_mqadmin_reads(tmp_path: Path):
    async with running(tmp_path) as served:
        await served.send("orders", b"x" * 100)
        table = decode((await served.ask(RequestCode.GET_BROKER_RUNTIME_INFO)).body, KVTable).table
        assert table["brokerVersionDesc"] == "V5_5_0"
        assert table["msgPutTotalTodayNow"] == "1"
        assert int(table["commitLogMaxOffset"]) == served.broker.store.log.end


async def test_statistics_of_a_topic(tmp_path: Path):
    async with running(tmp_path) as served:
        await served.send("orders", b"x")
        header = ViewBrokerStatsDataRequestHeader(stats_name="TOPIC_PUT_NUMS", stats_key="orders")
        stats = decode((await served.ask(RequestCode.VIEW_BROKER_STATS_DATA, header)).body, BrokerStatsData)
        assert stats.stats_minute is not None
        assert stats.stats_minute.sum == 1
        unknown = ViewBrokerStatsDataRequestHeader(stats_name="TOPIC_PUT_NUMS", stats_key="nothing")
        assert (await served.ask(RequestCode.VIEW_BROKER_STATS_DATA, unknown)).code == ResponseCode.SYSTEM_ERROR


async def route(dialer: Dialer, nameserver: Nameserver, topic: str) -> TopicRouteData | None:
    fields = GetRouteInfoRequestHeader(topic=topic).to_fields()
    response = await dialer.request(nameserver.address, Command(RequestCode.GET_ROUTEINFO_BY_TOPIC, fields=fields))
    return decode(response.body, TopicRouteData) if response.code == 0 else None


def a_nameserver(kv: Path) -> Nameserver:
    return Nameserver(NameserverSettings().with_texts({"listenPort": "0", "kvConfigPath": str(kv)}))


async def until(ready, seconds: float = 5.0):
    """Wait until `ready()` returns something; return it."""
    async with asyncio.timeout(seconds):
        while True:
            found = await ready()
            if found:
                return found
            await asyncio.sleep(0.02)


async def test_new_topic_is_registered_with_every_nameserver_despite_a_dead_one(tmp_path: Path):
    names = [a_nameserver(tmp_path / f"kv{number}.json") for number in (1, 2)]
    for nameserver in names:
        await nameserver.start()
    addresses = ";".join(["127.0.0.1:1", *(nameserver.address for nameserver in names)])
    async with running(tmp_path, namesrv_addr=addresses) as served:
        await served.send("orders", b"x")
        for nameserver in names:
            found = await until(lambda nameserver=nameserver: route(served.dialer, nameserver, "orders"))
            assert found.broker_datas[0].broker_addrs == {0: served.address}
            assert found.queue_datas[0].write_queue_nums == 4
        address = served.address
    dialer = Dialer()
    for nameserver in names:
        assert await route(dialer, nameserver, "orders") is None, f"{address} said goodbye"
        await nameserver.close()
    await dialer.close()


async def test_topics_of_a_nameservers_order_configuration_become_and_stay_ordered(tmp_path: Path):
    nameserver = a_nameserver(tmp_path / "kv.json")
    await nameserver.start()
    async with running(tmp_path, namesrv_addr=nameserver.address) as served:
        await served.send("orders", b"x")
        await served.send("bills", b"x")
        header = PutKVConfigRequestHeader(namespace="ORDER_TOPIC_CONFIG", key="orders", value="broker-a:4")
        put = Command(RequestCode.PUT_KV_CONFIG, fields=header.to_fields())
        assert (await served.dialer.request(nameserver.address, put, 5_000)).code == ResponseCode.SUCCESS
        await served.send("another-topic-makes-the-broker-register", b"x")
        while not served.broker.topics.is_order("orders"):  # noqa: ASYNC110 — a nameserver tells it
            await asyncio.sleep(0.01)
        assert not served.broker.topics.is_order("bills")
    async with running(tmp_path) as again:
        assert again.broker.topics.is_order("orders")
    await nameserver.close()


async def test_hanging_nameserver_does_not_delay_the_others(tmp_path: Path):
    held: list[asyncio.StreamWriter] = []
    hanging = await asyncio.start_server(lambda reader, writer: held.append(writer), "127.0.0.1", 0)
    good = a_nameserver(tmp_path / "kv.json")
    await good.start()
    port = hanging.sockets[0].getsockname()[1]
    settings = BrokerSettings(namesrv_addr=f"127.0.0.1:{port};{good.address}", register_timeout_ms=200)
    dialer = Dialer(limits=NetLimits(scan_ms=10))
    registration = NameserverRegistration(dialer, lambda: settings, lambda: ({}, DataVersion()), lambda topics: None)
    assert await registration.register() == 1
    await dialer.close()
    await good.close()
    for writer in held:
        writer.transport.abort()
    hanging.close()
