"""Two brokers behind a proxy, which are killed and come back, and a proxy that is: no acknowledged message is lost."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from skyrocket.client import Admin, BrokerError, ClientError, Consumer, Message, Producer, Received, SendFailedError
from skyrocket.protocol.command import Command
from skyrocket.protocol.headers import GetMaxOffsetRequestHeader
from skyrocket.protocol.requests import RequestCode
from tests.client.consumer_support import QUICK
from tests.client.servers import until
from tests.support.apache.cluster import send_request
from tests.support.ports import free_port
from tests.support.processes.skyrocket_process import SkyrocketBroker, SkyrocketNameserver, SkyrocketProxy

NAMES = ("broker-a", "broker-b")


@dataclass
class Pair:
    """Two brokers, and two proxies in front of them: in the second one, each broker has a port of its own."""

    names: SkyrocketNameserver
    brokers: dict[str, SkyrocketBroker]
    proxy: SkyrocketProxy
    with_ports: SkyrocketProxy


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    home = tmp_path_factory.mktemp("pair")
    ports = ";".join(f"{name}={free_port()}" for name in NAMES)
    with (
        SkyrocketNameserver(home / "names") as names,
        SkyrocketBroker(home / "a", names.nameserver, {"brokerName": "broker-a"}) as one,
        SkyrocketBroker(home / "b", names.nameserver, {"brokerName": "broker-b"}) as two,
        SkyrocketProxy(home / "proxy", names.nameserver, brokers=2) as proxy,
        SkyrocketProxy(home / "ports", names.nameserver, {"brokerPorts": ports}, brokers=2) as with_ports,
    ):
        yield Pair(names, dict(zip(NAMES, (one, two), strict=True)), proxy, with_ports)
        for each in (proxy, with_ports):
            each.stop()
            assert each.complaints() == [], each.log_tail(100)


class Load:
    """Producers that send all the time, and two consumers of one group, through one proxy."""

    def __init__(self, nameserver: str, topic: str) -> None:
        self.topic = topic
        self.acknowledged: dict[str, str] = {}  # by message id: the broker
        self.failed: list[ClientError] = []
        self.got: Counter[str] = Counter()
        self._producer = Producer(nameserver, timeout_ms=60_000)
        self._consumers = [Consumer(nameserver, group=topic, start="first", consumer_limits=QUICK) for _ in range(2)]
        self._stopped = False
        for consumer in self._consumers:
            consumer.on(topic)(self._handle)

    async def _handle(self, message: Received) -> None:
        self.got[message.message_id] += 1

    async def _send(self) -> None:
        while not self._stopped:
            try:
                receipt = await self._producer.send(Message(self.topic, b"x" * 200))
            except ClientError as error:
                self.failed.append(error)
            else:
                self.acknowledged[receipt.message_id] = receipt.queue.broker_name
            await asyncio.sleep(0.01)  # a load that leaves the machine to others

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with self._producer, self._consumers[0], self._consumers[1]:
            senders = [asyncio.create_task(self._send()) for _ in range(4)]
            try:
                yield
            finally:
                self._stopped = True
                await asyncio.gather(*senders)
            await until(lambda: self.acknowledged.keys() <= self.got.keys(), "all acknowledged messages are consumed")

    async def goes_on(self, *brokers: str) -> None:
        """Wait until each of these brokers has acknowledged, and consumers have got, 50 more messages."""
        before, got = Counter(self.acknowledged.values()), len(self.got)

        def has_grown() -> bool:
            now = Counter(self.acknowledged.values())
            return all(now[name] >= before[name] + 50 for name in brokers) and len(self.got) >= got + 50

        await until(has_grown, f"{brokers} go on")


async def new_topic(pair: Pair, topic: str) -> str:
    async with Admin(pair.with_ports.address) as admin:
        await admin.topics.create(topic, queues=4)
    return topic


async def test_administration_of_two_brokers_needs_ports(pair: Pair):
    async with Admin(pair.proxy.address) as admin:
        with pytest.raises(BrokerError, match="brokerPorts"):
            await admin.topics.create("refused", queues=1)
    async with Admin(pair.with_ports.address) as admin:
        await admin.topics.create("created", queues=1)
        assert [row.broker_name for row in (await admin.topics.status("created")).queues] == list(NAMES)
        shown = {broker.address for broker in await admin.cluster.brokers()}
        assert len(shown) == 2
        assert shown.isdisjoint({broker.address for broker in pair.brokers.values()})


async def test_a_killed_broker_costs_no_acknowledged_message_and_the_other_one_serves_meanwhile(pair: Pair):
    load = Load(pair.proxy.address, await new_topic(pair, "killed-broker"))
    async with load.running():
        await load.goes_on(*NAMES)
        pair.brokers["broker-b"].kill()
        await load.goes_on("broker-a")
        pair.brokers["broker-b"].launch()
        await load.goes_on(*NAMES)
    assert not load.failed, load.failed[0]


@pytest.mark.parametrize("end", [SkyrocketProxy.kill, SkyrocketProxy.stop], ids=["killed", "stopped"])
async def test_a_proxy_that_ends_and_comes_back_costs_no_acknowledged_message(pair: Pair, end: Callable[[SkyrocketProxy], None]):
    """While it is away, sends may fail: no broker can be reached."""
    load = Load(pair.with_ports.address, await new_topic(pair, f"proxy-{end.__name__}"))
    async with load.running():
        await load.goes_on(*NAMES)
        await asyncio.to_thread(end, pair.with_ports)
        pair.with_ports.launch()
        await load.goes_on(*NAMES)


async def test_a_client_that_knows_two_proxies_uses_the_one_that_lives(pair: Pair, tmp_path: Path):
    topic = await new_topic(pair, "two-proxies")
    with SkyrocketProxy(tmp_path, pair.names.nameserver, brokers=2) as mortal:
        load = Load(f"{mortal.address};{pair.proxy.address}", topic)
        async with load.running():
            await load.goes_on(*NAMES)
            mortal.kill()
            await load.goes_on(*NAMES)


async def test_without_a_broker_a_send_fails_as_it_does_without_a_proxy(tmp_path: Path):
    with (
        SkyrocketNameserver(tmp_path / "names") as names,
        SkyrocketBroker(tmp_path / "broker", names.nameserver) as broker,
        SkyrocketProxy(tmp_path / "proxy", names.nameserver) as proxy,
    ):
        async with Producer(proxy.address) as producer:
            await producer.send(Message("away", b"m"))
            broker.kill()
            with pytest.raises(SendFailedError) as caught:
                await producer.send(Message("away", b"m"), timeout_ms=700)
            assert {attempt.broker for attempt in caught.value.attempts} == {"broker-a"}
            assert not any(isinstance(attempt.error, BrokerError) for attempt in caught.value.attempts)


def has_copied(slave: SkyrocketBroker, topic: str, messages: int) -> bool:
    """Whether a slave knows the topic, and has so many messages of its first queue."""
    host, port = slave.address.split(":")
    known = send_request((host, int(port)), Command(RequestCode.GET_TOPIC_CONFIG, opaque=1, fields={"topic": topic}))
    header = GetMaxOffsetRequestHeader(topic=topic, queue_id=0)
    answer = send_request((host, int(port)), Command(RequestCode.GET_MAX_OFFSET, opaque=1, fields=header.to_fields()))
    return known is not None and known.code == 0 and answer is not None and answer.fields.get("offset") == str(messages)


async def test_consumers_read_from_the_slave_while_there_is_no_master(tmp_path: Path):
    """Routes show the slave at the proxy's address then."""
    reads = {"brokerRole": "SLAVE", "brokerId": 1, "slaveReadEnable": "true"}
    with (
        SkyrocketNameserver(tmp_path / "names") as names,
        SkyrocketBroker(tmp_path / "master", names.nameserver) as master,
        SkyrocketProxy(tmp_path / "proxy", names.nameserver) as proxy,
    ):
        async with Admin(proxy.address) as admin, Producer(proxy.address) as producer:
            await admin.topics.create("kept", queues=1)
            for number in range(20):
                await producer.send(Message("kept", b"%d" % number))
            with SkyrocketBroker(tmp_path / "slave", names.nameserver, reads) as slave:
                await until(lambda: has_copied(slave, "kept", 20), "the slave has the messages")
                assert [broker.broker_id for broker in await admin.cluster.brokers()] == [0], "a slave without a port is hidden"
                master.kill()
                got: list[bytes] = []
                consumer = Consumer(proxy.address, group="readers", start="first", consumer_limits=QUICK)

                @consumer.on("kept")
                async def handle(message: Received) -> None:
                    got.append(message.body)

                async with consumer:
                    await until(lambda: len(got) >= 20, "the slave's messages")
                assert sorted(got, key=int) == [b"%d" % number for number in range(20)]
                assert [broker.broker_id for broker in await admin.cluster.brokers()] == [1]
