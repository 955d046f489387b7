"""A nameserver with metrics: its page, its health, and the labels of its series."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from skyrocket.nameserver.nameserver import Nameserver
from skyrocket.nameserver.route_table import BrokerRegistration
from skyrocket.nameserver.settings import NameserverSettings
from skyrocket.protocol.bodies import TopicConfig, TopicConfigAndMappingSerializeWrapper
from skyrocket.settings.metrics import MetricsExporter
from tests.support.processes.http_client import ask, ask_async, scrape


def settings_in(folder: Path) -> NameserverSettings:
    return replace(NameserverSettings(), listen_port=0, kv_config_path=folder / "kv.json", config_store_path=folder / "conf")


async def test_brokers_topics_and_health(tmp_path: Path):
    names = Nameserver(replace(settings_in(tmp_path), metrics_exporter=MetricsExporter.PROM, metrics_port=0))
    await names.start()
    assert names.monitoring is not None
    port = names.monitoring.port
    for number in range(2):
        topics = TopicConfigAndMappingSerializeWrapper(topic_config_table={"a": TopicConfig("a"), "b": TopicConfig("b")})
        broker = BrokerRegistration(
            cluster="C", name=f"broker-{number}", id=0, address=f"10.0.0.{number}:1", ha_address="", topics=topics
        )
        names.table.register(broker, 0)
    page = await scrape(port)
    assert page.value("skyrocket_nameserver_brokers", broker_cluster="C", node_type="nameserver", node_id=names.address) == 2
    assert page.value("skyrocket_nameserver_topics") == 2
    assert page.value("skyrocket_connections") == 0
    assert page.value("skyrocket_build_info", rocketmq_version="5.5.0") == 1
    assert (await ask_async(port, "/readyz")).text == "ready\n"
    await names.close()
    with pytest.raises(ConnectionRefusedError):
        ask(port, "/healthz")


def test_its_default_port_is_not_the_brokers():
    assert NameserverSettings().metrics_address == ("127.0.0.1", 5558)
    assert not NameserverSettings().exports_metrics
