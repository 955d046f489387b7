"""The tables of a master, copied by a slave: our slave of Apache's master, and Apache's slave of ours."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from skyrocket.protocol.bodies import (
    ConsumerOffsetManager,
    SubscriptionGroupConfig,
    SubscriptionGroupWrapper,
    TopicConfigAndMappingSerializeWrapper,
)
from skyrocket.protocol.command import Command
from skyrocket.protocol.fastjson.codec import decode, encode
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from tests.support.apache.cluster import ApacheCluster, send_request
from tests.support.ports import free_port
from tests.support.processes.replica_pair import BOTH, MASTER, SLAVE
from tests.support.processes.skyrocket_process import SMALL_STORE, SkyrocketBroker
from tests.support.waiting import wait_until

pytestmark = pytest.mark.interop

WAITS_FOR_APACHE = bool(os.environ.get("SKYROCKET_SLAVE_TABLES"))  # Apache's slave copies tables 70 s after its start


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheCluster]:
    with ApacheCluster(tmp_path_factory.mktemp("apache")) as running:
        yield running


class Server:
    def __init__(self, port: int) -> None:
        self._at = ("127.0.0.1", port)

    def ask(self, code: int, body: bytes = b"", **fields: object) -> Command:
        texts = {name: str(value) for name, value in fields.items()}
        answer = send_request(self._at, Command(code, opaque=1, fields=texts or None, body=body))
        assert answer is not None
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        return answer

    def fill(self, name: str) -> None:
        """Make a topic, a group, and an offset of that group."""
        self.ask(
            RequestCode.UPDATE_AND_CREATE_TOPIC,
            topic=name,
            defaultTopic="TBW102",
            readQueueNums=3,
            writeQueueNums=5,
            perm=6,
            topicFilterType="SINGLE_TAG",
            topicSysFlag=0,
            order=False,
        )
        group = SubscriptionGroupConfig(group_name=f"{name}-group", retry_max_times=7, which_broker_when_consume_slowly=2)
        self.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, encode(group))
        self.ask(RequestCode.UPDATE_CONSUMER_OFFSET, consumerGroup=f"{name}-group", topic=name, queueId=2, commitOffset=41)

    def tables(self) -> tuple[Any, ...]:
        """What both brokers of a pair must have."""
        topics = decode(self.ask(RequestCode.GET_ALL_TOPIC_CONFIG).body, TopicConfigAndMappingSerializeWrapper)
        groups = decode(self.ask(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG).body, SubscriptionGroupWrapper)
        offsets = decode(self.ask(RequestCode.GET_ALL_CONSUMER_OFFSET).body, ConsumerOffsetManager)
        return (
            topics.topic_config_table,
            topics.data_version,
            groups.subscription_group_table,
            groups.data_version,
            offsets.offset_table,
        )


def test_our_slave_copies_the_tables_of_apaches_master(tmp_path: Path, cluster: ApacheCluster):
    port, slave_port = free_port(-2, 1), free_port(-2, 1)
    names = {"brokerName": "theirs"}
    cluster.broker(tmp_path / "master", {**SMALL_STORE, **BOTH, **MASTER, **names, "listenPort": port})
    master = Server(port)
    master.fill("first")
    own = {**BOTH, **SLAVE, **names, "listenPort": slave_port}
    with SkyrocketBroker(tmp_path / "slave", cluster.nameserver, own) as running:
        slave = Server(slave_port)
        wait_until(lambda: slave.tables() == master.tables(), "the slave has the tables")
        master.fill("second")
        master.ask(RequestCode.DELETE_TOPIC_IN_BROKER, topic="first")
        wait_until(lambda: slave.tables()[0] == master.tables()[0], "the slave has the new topic and not the deleted one")
        wait_until(lambda: slave.tables()[4]["second@second-group"] == {2: 41}, "the slave has the new offset")
        assert running.complaints() == []


@pytest.mark.skipif(not WAITS_FOR_APACHE, reason="set SKYROCKET_SLAVE_TABLES=1: it takes more than a minute")
def test_apaches_slave_copies_the_tables_of_our_master(tmp_path: Path, cluster: ApacheCluster):
    port, slave_port = free_port(-2, 1), free_port(-2, 1)
    names = {"brokerName": "ours"}
    with SkyrocketBroker(tmp_path / "master", cluster.nameserver, {**BOTH, **MASTER, **names, "listenPort": port}):
        master = Server(port)
        master.fill("first")
        settings = {**SMALL_STORE, **BOTH, **SLAVE, **names, "listenPort": slave_port}
        broker = cluster.broker(tmp_path / "slave", settings)
        slave = Server(slave_port)
        wait_until(lambda: slave.tables() == master.tables(), "the slave has the tables")
        logs = "".join(path.read_text(errors="replace") for path in (broker.home / "logs").rglob("*.log"))
        assert re.findall(r"[Ss]ync\w+ Exception", logs) == []
