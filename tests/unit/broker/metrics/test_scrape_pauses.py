"""How long the event loop stands still for a scrape of a broker with full tables: less than 50 ms."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from skyrocket.broker.load.counters import GET, KEYS_MAX, PUT
from skyrocket.broker.tables.clients import GroupMember
from skyrocket.net.connection import Connection
from skyrocket.protocol.bodies import ConsumerData, SubscriptionData, TopicConfig
from skyrocket.protocol.language import Language
from skyrocket.protocol.versions import CURRENT
from skyrocket.settings.metrics import MetricsExporter
from tests.support.brokers.running_broker import RunningBroker, running
from tests.support.processes.http_client import ask_async, parse_page
from tests.support.processes.loop_pauses import measured_pauses

GROUPS, MEMBERS, TOPICS = 2_000, 10_000, 500


def fill(served: RunningBroker) -> None:
    """Fill the tables that a scrape goes over: counters, clients, offsets of groups."""
    broker = served.broker
    counters = broker.context.counters
    for number in range(KEYS_MAX // 2):
        counters.add(PUT, f"topic{number}", 1, 10)
        counters.add(GET, f"topic{number}@group{number}", 1, 10)
    for number in range(TOPICS):
        broker.topics.put(TopicConfig(f"lagging{number}", read_queue_nums=4, write_queue_nums=4))
    for number in range(GROUPS):
        for queue_id in range(4):
            broker.offsets.commit(f"group{number}", f"lagging{number % TOPICS}", queue_id, 0)
    for number in range(MEMBERS):
        member = GroupMember(cast("Connection", _Peer()), f"client{number}", Language.JAVA, CURRENT)
        data = ConsumerData(group_name=f"group{number % GROUPS}", subscription_data_set=[SubscriptionData(topic="orders")])
        broker.clients.register_consumer(member, data, 0)


class _Peer:
    """A connection as a key."""


@pytest.mark.parametrize("series_max", [2_000, 50_000])
async def test_a_scrape_of_full_tables(tmp_path: Path, series_max: int):
    changes: dict[str, Any] = {"metrics_exporter": MetricsExporter.PROM, "metrics_port": 0, "metrics_series_max": series_max}
    async with running(tmp_path, **changes) as served:
        fill(served)
        for queue_id in range(4):
            assert (await served.send("lagging0", b"x", queue_id=queue_id)).code == 0
        assert served.broker.monitoring is not None
        async with measured_pauses() as pauses:
            answer = await ask_async(served.broker.monitoring.port, "/metrics")
        pauses.check()
        page = parse_page(answer.text)
        topics = page.samples["rocketmq_messages_in_total"]
        assert len(topics) == min(series_max + 1, KEYS_MAX // 2)
        assert sum(value for _, value in topics) == KEYS_MAX // 2, "the table of counters is full: further topics have none"
        assert page.value("rocketmq_consumer_lag_messages", topic="lagging0", consumer_group="group0") == 4
