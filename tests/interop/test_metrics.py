"""Our page of metrics beside that of a running Apache broker: names, types and labels of what both have are equal."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from skyrocket.protocol.bodies import (
    ConsumeFromWhere,
    ConsumerData,
    ConsumeType,
    HeartbeatData,
    MessageModel,
    ProducerData,
    SubscriptionData,
)
from skyrocket.protocol.fastjson.codec import encode
from skyrocket.protocol.headers import ConsumerSendMsgBackRequestHeader, UpdateConsumerOffsetRequestHeader
from skyrocket.protocol.requests import RequestCode
from tests.support.apache.cluster import ApacheCluster
from tests.support.brokers.running_broker import RunningBroker, records
from tests.support.ports import free_port
from tests.support.processes.http_client import Page, ask_async, parse_page
from tests.support.processes.skyrocket_process import SkyrocketBroker
from tests.support.waiting import WAIT_S_MAX

pytestmark = pytest.mark.interop

BOTH = {
    *("rocketmq_broker_permission", "rocketmq_topic_number", "rocketmq_consumer_group_number"),
    *("rocketmq_messages_in_total", "rocketmq_throughput_in_total"),
    *("rocketmq_messages_out_total", "rocketmq_throughput_out_total", "rocketmq_send_to_dlq_messages_total"),
    *("rocketmq_producer_connections", "rocketmq_consumer_connections"),
    *("rocketmq_consumer_lag_messages", "rocketmq_consumer_lag_latency_milliseconds", "rocketmq_consumer_inflight_messages"),
    *("rocketmq_consumer_queueing_latency_milliseconds", "rocketmq_consumer_ready_messages"),
    *("rocketmq_storage_size_bytes", "rocketmq_storage_flush_behind_bytes", "rocketmq_storage_dispatch_behind_bytes"),
    "rocketmq_storage_message_reserve_time_milliseconds",
    *("rocketmq_timer_enqueue_lag", "rocketmq_timer_dequeue_lag", "rocketmq_timer_dequeue_latency_milliseconds"),
    "rocketmq_timing_messages",
}
HISTOGRAMS = {"rocketmq_message_size", "rocketmq_rpc_latency_milliseconds"}
PROM = {"metricsExporterType": "PROM", "metricsPromExporterHost": "127.0.0.1"}


class ClientOf(RunningBroker):
    """Raw requests to a broker of either kind."""

    def __init__(self, address: str) -> None:
        super().__init__(None)  # type: ignore[arg-type]  # a broker in another process
        self._address = address

    @property
    def address(self) -> str:
        return self._address


async def use(client: ClientOf) -> None:
    """Do everything once that the compared metrics count. The connection stays open."""
    group = ConsumerData(
        group_name="readers",
        consume_type=ConsumeType.CONSUME_PASSIVELY,
        message_model=MessageModel.CLUSTERING,
        consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
        subscription_data_set=[SubscriptionData(topic="orders", sub_string="*", sub_version=1)],
    )
    producer = ProducerData(group_name="senders")
    beat = HeartbeatData(client_id="both", producer_data_set=[producer], consumer_data_set=[group])
    for _ in range(3):
        assert (await client.send("orders", b"x" * 100)).code == 0
    assert (await client.ask(RequestCode.HEART_BEAT, body=encode(beat))).code == 0
    assert (await client.send("orders", b"timed", properties={"TIMER_DELAY_SEC": "3600"})).code == 0
    async with asyncio.timeout(WAIT_S_MAX):
        while not (found := records(await client.pull("orders", 0, consumer_group="readers"))):  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    offset = UpdateConsumerOffsetRequestHeader(consumer_group="readers", topic="orders", queue_id=0, commit_offset=1)
    assert (await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, offset)).code == 0
    dead = ConsumerSendMsgBackRequestHeader(
        offset=found[0].physical_offset, group="readers", delay_level=-1, origin_msg_id="", origin_topic="orders"
    )
    assert (await client.ask(RequestCode.CONSUMER_SEND_MSG_BACK, dead)).code == 0


async def page_with_everything(port: int) -> Page:
    async with asyncio.timeout(WAIT_S_MAX):
        while True:
            page = parse_page((await ask_async(port, "/metrics")).text)
            if not (BOTH | {f"{name}_count" for name in HISTOGRAMS}) - page.samples.keys():
                return page
            await asyncio.sleep(1)


async def test_names_types_and_labels_of_what_both_have_are_equal(tmp_path: Path):
    ports = {"theirs": free_port(), "ours": free_port()}
    with ApacheCluster(tmp_path / "apache") as apache:
        theirs_at = free_port(-2, 1)
        apache.broker(tmp_path / "store", {**PROM, "listenPort": theirs_at, "metricsPromExporterPort": ports["theirs"]})
        with SkyrocketBroker(tmp_path / "ours", apache.nameserver, {**PROM, "metricsPromExporterPort": ports["ours"]}) as ours:
            clients = [ClientOf(f"127.0.0.1:{theirs_at}"), ClientOf(ours.address)]
            try:
                for client in clients:
                    await use(client)
                their_page = await page_with_everything(ports["theirs"])
                our_page = await page_with_everything(ports["ours"])
            finally:
                for client in clients:
                    await client.dialer.close()
    shared = our_page.types.keys() & their_page.types.keys()
    assert shared == BOTH | HISTOGRAMS, "every name that both pages have is compared"
    assert {name: our_page.types[name] for name in shared} == {name: their_page.types[name] for name in shared}
    for name in sorted(HISTOGRAMS):
        assert our_page.labels_of(f"{name}_count") <= their_page.labels_of(f"{name}_count"), name
        bounds = [{labels["le"] for labels, _ in page.samples[f"{name}_bucket"]} for page in (our_page, their_page)]
        assert bounds[0] == bounds[1], name
    sizes = {"topic": "orders", "message_type": "normal"}
    assert our_page.value("rocketmq_message_size_count", **sizes) == their_page.value("rocketmq_message_size_count", **sizes)
    kind = {"request_code": "send_message_v2", "response_code": "success", "result": "success", "is_long_polling": "false"}
    counted = [page.value("rocketmq_rpc_latency_milliseconds_count", **kind) for page in (our_page, their_page)]
    assert counted[0] == counted[1], "as many sends were answered"
    for name in sorted(BOTH):
        assert our_page.labels_of(name) <= their_page.labels_of(name), name
    client = {"consumer_group": "readers", "topic": "orders"}
    for name in ("rocketmq_consumer_lag_messages", "rocketmq_send_to_dlq_messages_total", "rocketmq_messages_out_total"):
        assert our_page.value(name, **client) == their_page.value(name, **client), name
    assert our_page.value("rocketmq_timing_messages", topic="orders") == their_page.value(
        "rocketmq_timing_messages", topic="orders"
    )
