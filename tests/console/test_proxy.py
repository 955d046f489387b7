"""A consumer behind our proxy is shown as any other: the proxy has a connection to the broker for each client."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

from skyrocket.client.sync import Consumer
from skyrocket.testing.threaded import SyncBroker
from tests.client.consumer_support import QUICK
from tests.support.pages.console import Visitor
from tests.support.processes.skyrocket_process import SkyrocketProxy
from tests.support.waiting import wait_until


def test_a_consumer_behind_our_proxy_is_a_member_that_tells_its_queues(broker: SyncBroker, visitor: Visitor, tmp_path: Path):
    broker.create_topic("behind", queues=2)
    visitor.fill("/new-group", group="behind-proxy")
    assert "No consumer is connected." in visitor.read("/groups/behind-proxy")
    assert "those behind ours they do" in visitor.read("/groups/behind-proxy")
    with (
        SkyrocketProxy(tmp_path, broker.nameserver) as proxy,
        Consumer(proxy.address, group="behind-proxy", topics="behind", consumer_limits=QUICK) as consumer,
    ):
        client_id = consumer.client_id
        wait_until(lambda: f"{client_id} 127.0.0.1" in visitor.read("/groups/behind-proxy"), "the broker knows the consumer")
        member = f"/groups/behind-proxy/members/{quote(client_id)}"
        wait_until(lambda: "behind broker-a 1" in visitor.read(member), lambda: f"its queues: {visitor.read(member)}")
