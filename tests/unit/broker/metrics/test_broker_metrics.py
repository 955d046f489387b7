"""A running broker is scraped: its figures agree with what was sent, pulled and committed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from skyrocket import __version__
from skyrocket.broker.settings import BrokerSettings
from skyrocket.protocol.bodies import HeartbeatData, ProducerData
from skyrocket.protocol.fastjson.codec import encode
from skyrocket.protocol.headers import ConsumerSendMsgBackRequestHeader
from skyrocket.protocol.requests import RequestCode
from skyrocket.settings.errors import SettingsError
from skyrocket.settings.metrics import MetricsExporter
from tests.support.brokers.running_broker import RunningBroker, records, running
from tests.support.processes.http_client import scrape
from tests.support.waiting import WAIT_S_MAX, wait_until
from tests.unit.metrics.test_otlp import attributes, collecting, metrics_of

ON = {"metrics_exporter": MetricsExporter.PROM, "metrics_port": 0}


@asynccontextmanager
async def monitored(path: Path, **changes: Any) -> AsyncIterator[tuple[RunningBroker, int]]:
    """A broker, and the port of its metrics."""
    async with running(path, **{**ON, **changes}) as served:
        assert served.broker.monitoring is not None
        yield served, served.broker.monitoring.port


async def test_messages_in_and_out_lag_and_connections(tmp_path: Path):
    async with monitored(tmp_path) as (served, port):
        for number in range(10):
            assert (await served.send("orders", b"x" * 100, queue_id=number % 2)).code == 0
        await served.heartbeat("readers", orders="*")
        producer = HeartbeatData(client_id="p", producer_data_set=[ProducerData(group_name="senders")])
        await served.ask(RequestCode.HEART_BEAT, body=encode(producer))
        assert len(records(await served.pull("orders", 0, consumer_group="readers"))) == 5
        await served.pull("orders", 5, consumer_group="readers")  # a pull says that everything before it was pulled
        served.broker.offsets.commit("readers", "orders", 0, 2)
        served.broker.offsets.commit("readers", "orders", 1, 5)

        page = await scrape(port)
        of_broker = {"cluster": "DefaultCluster", "node_id": "broker-a", "node_type": "broker", "otel_scope_name": "broker-meter"}
        orders = {"topic": "orders", "message_type": "normal", "is_system": "false"}
        assert page.value("rocketmq_messages_in_total", **orders, **of_broker) == 10
        assert page.value("rocketmq_throughput_in_total", topic="orders") > 1_000
        assert page.value("rocketmq_messages_out_total", topic="orders", consumer_group="readers", is_system="false") == 5
        assert page.value("rocketmq_consumer_lag_messages", topic="orders", consumer_group="readers") == 3
        assert page.value("rocketmq_consumer_inflight_messages", topic="orders", consumer_group="readers") == 3
        assert page.value("rocketmq_consumer_ready_messages", topic="orders", consumer_group="readers") == 0
        assert page.value("rocketmq_consumer_lag_latency_milliseconds", consumer_group="readers") >= 0
        assert page.value("rocketmq_producer_connections", language="python", protocol_type="remoting") == 1
        assert page.value("rocketmq_consumer_connections", consumer_group="readers", consume_mode="unknown") == 1
        assert page.value("rocketmq_broker_permission") == 6
        assert page.value("rocketmq_topic_number") == len(served.broker.topics)
        assert page.value("skyrocket_connections") == 1
        assert page.value("skyrocket_store_writable") == 1
        assert page.value("skyrocket_log_written_bytes_total") == served.broker.store.log.end
        assert page.value("skyrocket_build_info", version=__version__, rocketmq_version="5.5.0") == 1
        assert 0 < page.value("skyrocket_disk_used_ratio", disk="store") < 1


async def test_stages_are_observed_once_a_turn_append_and_flush(tmp_path: Path):
    async with monitored(tmp_path, sync_flush=True) as (served, port):
        await asyncio.gather(*(served.send("orders", b"x") for _ in range(50)))
        page = await scrape(port)
        counts = {labels["stage"]: value for labels, value in page.samples["skyrocket_stage_seconds_count"]}
        assert counts.keys() == {"queue", "append", "flush", "replicate", "park", "answer"}
        assert counts["replicate"] == 0, "no copy is promised"
        for stage in ("queue", "append", "flush", "park", "answer"):
            assert 1 <= counts[stage] <= 55, f"{stage}: not once a message and more"
        assert page.value("skyrocket_stage_seconds_sum", stage="flush") > 0


async def test_messages_that_wait_and_messages_that_are_given_up(tmp_path: Path):
    async with monitored(tmp_path) as (served, port):
        await served.send("orders", b"later", properties={"DELAY": "18"})
        await served.send("orders", b"timed", properties={"TIMER_DELAY_SEC": "3600"})
        await served.send("orders", b"half", properties={"TRAN_MSG": "true"}, sys_flag=4)
        await served.send("orders", b"now")
        record = records(await served.pull("orders", 0))[0]
        header = ConsumerSendMsgBackRequestHeader(
            offset=record.physical_offset, group="readers", delay_level=-1, origin_msg_id="", origin_topic="orders"
        )
        assert (await served.ask(RequestCode.CONSUMER_SEND_MSG_BACK, header)).code == 0
        async with asyncio.timeout(WAIT_S_MAX):
            while True:
                page = await scrape(port)
                if page.value("rocketmq_timer_dequeue_lag") == 1:
                    break
                await asyncio.sleep(0.2)
        assert page.value("skyrocket_delayed_messages", level="18") == 1
        assert page.value("rocketmq_timing_messages", topic="orders") == 1
        assert page.value("skyrocket_half_messages_unchecked") == 1
        assert page.value("rocketmq_send_to_dlq_messages_total", topic="orders", consumer_group="readers") == 1
        assert page.value("skyrocket_sent_back_messages_total", topic="orders", consumer_group="readers") == 1
        assert page.value("rocketmq_messages_in_total", topic="SCHEDULE_TOPIC_XXXX", message_type="delay", is_system="true") == 1
        assert page.value("rocketmq_messages_in_total", message_type="transaction") == 1


async def test_a_scrape_under_load_shows_counters_that_only_grow(tmp_path: Path):
    async with monitored(tmp_path) as (served, port):
        loading = asyncio.ensure_future(send_until_cancelled(served))
        seen: list[float] = []
        for _ in range(3):
            page = await scrape(port)
            seen.append(sum(value for _, value in page.samples.get("rocketmq_messages_in_total", [])))
            await asyncio.sleep(1.05)  # a page is a second old before it is built again
        loading.cancel()
        await asyncio.gather(loading, return_exceptions=True)
        assert seen == sorted(seen)
        assert seen[0] < seen[-1]


async def send_until_cancelled(served: RunningBroker) -> None:
    while True:
        await asyncio.gather(*(served.send("orders", b"x" * 100, queue_id=number % 4) for number in range(20)))


async def test_label_sets_are_limited_and_labels_can_be_added(tmp_path: Path):
    async with monitored(tmp_path, metrics_series_max=3, metrics_labels=(("zone", "east"),)) as (served, port):
        for number in range(6):
            await served.send(f"topic{number}", b"x")
        series = (await scrape(port)).samples["rocketmq_messages_in_total"]
        assert len(series) == 4
        assert sum(value for _, value in series) == 6
        assert {labels["zone"] for labels, _ in series} == {"east"}
        assert series[-1][0]["topic"] == series[-1][0]["is_system"] == "(other)"


async def test_without_the_setting_nothing_listens_and_only_stages_are_observed(tmp_path: Path):
    async with running(tmp_path) as served:
        await served.send("orders", b"x")
        assert served.broker.monitoring is None
        assert served.broker.router.responses is None
        assert served.broker.server.served_turns is None
        assert ":1" in served.broker.stage_watch.times.figures()["stageMillis_append"]


async def test_an_exporter_that_does_not_exist_here_is_told_and_does_no_harm(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    async with running(tmp_path, metrics_exporter=MetricsExporter.LOG) as served:
        assert served.broker.monitoring is None
    assert "metricsExporterType=LOG does not exist here" in caplog.text


async def test_a_collector_gets_the_metrics_of_a_broker(tmp_path: Path):
    with collecting() as (collector, port):
        otlp = {"metrics_exporter": MetricsExporter.OTLP_GRPC, "otlp_target": f"127.0.0.1:{port}", "otlp_interval_ms": 10}
        async with running(tmp_path, **otlp) as served:
            await served.send("orders", b"x")

            def shows_the_message() -> bool:
                stored = [each for each in metrics_of(collector.requests) if each.name == "rocketmq_messages_in_total"]
                points = [(attributes(point)["topic"], point.as_int) for each in stored for point in each.sum.data_points]
                return ("orders", 1) in points

            await asyncio.to_thread(wait_until, shows_the_message, "the message in the metrics")


def test_a_collector_needs_an_address():
    with pytest.raises(SettingsError, match="OTLP_GRPC needs metricsGrpcExporterTarget"):
        BrokerSettings().with_texts({"metricsExporterType": "OTLP_GRPC"})


def test_settings_have_apaches_keys_and_values():
    texts = {"metricsExporterType": "2", "metricsPromExporterPort": "0", "metricsLabel": "a:b,instance_id:x y"}
    settings = BrokerSettings().with_texts(texts)
    assert settings.exports_metrics
    assert settings.metrics_address == ("127.0.0.1", 0)
    assert settings.metrics_labels == (("a", "b"), ("instance_id", "x y"))
    assert settings.to_texts()["metricsExporterType"] == "PROM"
    assert settings.to_texts()["metricsLabel"] == "a:b,instance_id:x y"
