"""The console over Apache's broker: every page works, and what Apache lacks says so."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from skyrocket.client import Message
from skyrocket.client.sync import Admin, Producer
from tests.client.servers import BROKER, Servers, apache_servers
from tests.support.pages.console import Visitor, running_console
from tests.support.waiting import wait_until

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module")
def apache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    with apache_servers(tmp_path_factory.mktemp("apache")) as servers:
        yield servers


@pytest.fixture(scope="module")
def apache_visitor(apache: Servers) -> Iterator[Visitor]:
    with running_console(apache.nameserver) as console:
        visitor = Visitor(console.url)
        yield visitor
        visitor.close()


def test_every_page_shows_apaches_cluster(apache: Servers, apache_visitor: Visitor):
    # Apache's broker cannot tell its runtime figures before it has counted for a second.
    wait_until(lambda: "1 of 1 answer" in apache_visitor.read("/"), "Apache's broker tells its figures")
    cluster = apache_visitor.get("/cluster")
    assert "kvConfigPath" in cluster, "the nameserver's settings"
    address = re.search(r'href="(/brokers/[^"]+)"', cluster)
    assert address is not None
    broker = apache_visitor.read(address[1])
    assert "brokerVersionDesc V5_5_0" in broker
    assert "No slave is connected" in broker
    for path in ("/topics?internal=1", "/groups?internal=1", "/dead-letters", "/waiting", "/access", "/doctor"):
        assert "This page failed" not in apache_visitor.read(path)
    assert "authentication is off" in apache_visitor.read("/access")


def test_what_apaches_cluster_does_not_have_says_so(apache: Servers, apache_visitor: Visitor):
    wait_until(lambda: "1 of 1 answer" in apache_visitor.read("/"), "Apache's broker tells its figures")
    overview = apache_visitor.read("/")
    assert "Apache's broker has no times of stages" in overview
    assert "Wait for a turn, 99 % at most (ms) No broker tells it." in overview
    assert "Apache's brokers tell neither their role and term in a DLedger group nor damage" in apache_visitor.read("/cluster")
    with Admin(apache.nameserver) as admin:
        broker = f"/brokers/{admin.cluster.brokers()[0].address}"
    assert "Apache's broker has no times of stages" in apache_visitor.read(broker)
    assert "Apache's broker accepts every name" in apache_visitor.read(broker)
    unknown = apache_visitor.fill(broker, "settings", name="noSuchSetting", value="1")
    assert "noSuchSetting of broker-a" in unknown, "Apache's broker says yes, as the page warns"
    access = apache_visitor.read("/access")
    assert "Apache's brokers have them only while access control is on" in access
    assert "Failed." not in access
    assert "Apache's brokers tell neither how many requests they refused" in apache_visitor.read("/doctor")
    assert "Timers: 0 messages wait" in apache_visitor.read("/waiting"), "it has a timer wheel"


def test_the_doctor_examines_apaches_cluster(apache: Servers, apache_visitor: Visitor):
    with Admin(apache.nameserver) as admin:
        admin.groups.create("disabled-group", enabled=False)
    path = "/doctor?group=disabled-group"
    wait_until(lambda: "Examined" in apache_visitor.read(path), "the examination ends")
    page = apache_visitor.get(path)
    assert 'href="/groups/disabled-group">group disabled-group</a>' in page
    assert "docs/doctor.md#group-disabled" in page


def test_topics_groups_and_messages_of_apaches_broker(apache: Servers, apache_visitor: Visitor):
    assert "is created" in apache_visitor.fill("/new-topic", topic="orders", read_queues=2, write_queues=2, type="NORMAL")
    assert "Sent message" in apache_visitor.fill("/topics/orders", "send", body='{"a": 1}', tag="paid", keys="o-7")
    wait_until(lambda: "o-7" in apache_visitor.read("/messages?topic=orders"), "the message is dispatched")
    wait_until(lambda: "o-7" in apache_visitor.read("/messages?topic=orders&by=key&words=o-7"), "the message is indexed")
    place = re.search(r'href="(/message\?[^"]+)"', apache_visitor.get("/messages?topic=orders"))
    assert place is not None
    assert '{ "a": 1 }' in apache_visitor.read(place[1].replace("&amp;", "&"))
    assert "is created" in apache_visitor.fill("/new-group", group="coupons")
    apache_visitor.fill("/groups/coupons/reset?topic=orders&to=first")
    assert "Lag 1 message;" in apache_visitor.read("/groups/coupons")
    assert "1 message will be skipped" in apache_visitor.read("/groups/coupons/reset?topic=orders&to=last")
    with Admin(apache.nameserver) as admin:
        assert [one.broker_name for one in admin.groups.get("coupons")] == [BROKER]
    with Producer(apache.nameserver) as producer:
        producer.send(Message("orders", b"later", delay_level=5))
    wait_until(lambda: re.search(r"5 1s 1 0|5 1s 0 1", apache_visitor.read("/waiting")) is not None, "the delay level is shown")
    assert "is deleted" in apache_visitor.fill("/topics/orders/delete", confirm="orders")
