"""Ports of the proxy that belong to one broker: which requests they take, and which clients each broker knows."""

from __future__ import annotations

import pytest

from skyrocket.protocol.command import Command
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from skyrocket.proxy.settings import BrokerPort
from tests.unit.proxy.scene import QUERY, SEND, heartbeat, playing, to


def _ports(*names: str, broker_id: int = 0) -> tuple[BrokerPort, ...]:
    return tuple(BrokerPort(name, broker_id, 0) for name in names)


async def test_a_port_of_a_broker_takes_every_request_for_it():
    async with playing() as scene:
        name_ports = scene.proxy.broker_ports
        assert name_ports == {}
    async with playing(broker_ports=_ports("broker-a", "broker-b")) as scene:
        ports = scene.proxy.broker_ports
        client = await scene.client(ports["broker-b", 0])
        for code in (
            QUERY,
            SEND,
            RequestCode.HEART_BEAT,
            RequestCode.GET_CONSUMER_LIST_BY_GROUP,
            RequestCode.UPDATE_BROKER_CONFIG,
        ):
            assert (await client.request(Command(code))).fields["by"] == "broker-b"
        assert scene.brokers["broker-a"].codes == []
        route = await scene.learn(await scene.client())
        assert {each.broker_name: each.broker_addrs for each in route.broker_datas} == {
            name: {0: f"127.0.0.1:{ports[name, 0]}"} for name in ("broker-a", "broker-b")
        }


async def test_a_port_of_a_broker_follows_its_master():
    async with playing("broker-a", "slave", broker_ports=_ports("broker-a")) as scene:
        client, observer = await scene.client(scene.proxy.broker_ports["broker-a", 0]), await scene.client()
        assert (await client.request(Command(QUERY))).fields["by"] == "broker-a"
        scene.table = {"broker-a": {0: scene.brokers["slave"].address, 1: scene.brokers["broker-a"].address}}
        await scene.learn(observer)
        assert (await client.request(Command(QUERY))).fields["by"] == "slave"


@pytest.mark.parametrize("with_ports", [("broker-b",), ("broker-a", "broker-b")])
async def test_a_broker_with_a_port_of_its_own_knows_a_client_once(with_ports: tuple[str, ...]):
    """Clients send their heartbeat to every address of their routes. A member that a broker knows by two connections counts
    twice when Apache's clients share out the queues, and some queues have no reader."""
    async with playing(broker_ports=_ports(*with_ports)) as scene:
        if "broker-a" in with_ports:
            scene.table["broker-a"] = {1: scene.brokers["broker-a"].address}  # the slave, without its master
            await scene.proxy._look()
        main = await scene.client()
        route = await scene.learn(main)
        shown = {address for broker in route.broker_datas for address in (broker.broker_addrs or {}).values()}
        assert len(shown) == 2
        ports = [int(address.rpartition(":")[2]) for address in shown - {scene.proxy.address}]
        for connection in [main, *[await scene.client(port) for port in ports]]:
            await connection.request(heartbeat())
        await main.request(Command(RequestCode.GET_CONSUMER_LIST_BY_GROUP, fields={"consumerGroup": "g"}))
        assert [len(broker.connections) for broker in scene.brokers.values()] == [1, 1]


async def test_before_its_first_route_a_client_is_known_to_the_brokers_of_the_main_address():
    async with playing(broker_ports=_ports("broker-b")) as scene:
        client = await scene.client()
        assert (await client.request(heartbeat())).code == 0
        assert (await client.request(to("broker-b"))).fields["by"] == "broker-b"
        assert (scene.brokers["broker-a"].codes, scene.brokers["broker-b"].codes) == ([RequestCode.HEART_BEAT], [QUERY])
    async with playing(broker_ports=_ports("broker-a", "broker-b")) as scene:
        answer = await (await scene.client()).request(heartbeat())
        assert (answer.code, "a port of its own" in (answer.remark or "")) == (ResponseCode.SERVICE_NOT_AVAILABLE, True)


async def test_a_port_of_a_broker_takes_requests_for_the_slave_while_there_is_no_master():
    """Clients of RocketMQ 4 name no broker in their requests, so the main address would be of no use to them."""
    async with playing(broker_ports=_ports("broker-a", "broker-b")) as scene:
        master, slave = scene.brokers["broker-a"].address, scene.brokers["broker-b"].address
        at = f"127.0.0.1:{scene.proxy.broker_ports['broker-a', 0]}"
        for table, by in (({1: slave}, "broker-b"), ({0: master, 1: slave}, "broker-a")):
            scene.table["broker-a"] = table
            await scene.proxy._look()
            route = await scene.learn(await scene.client())
            assert [each.broker_addrs for each in route.broker_datas if each.broker_name == "broker-a"] == [{min(table): at}]
            client = await scene.client(scene.proxy.broker_ports["broker-a", 0])
            assert (await client.request(Command(QUERY))).fields["by"] == by


async def test_a_slave_with_a_port_of_its_own_is_reached_through_no_other():
    async with playing("broker-a", broker_ports=_ports("broker-a") + _ports("broker-a", broker_id=1)) as scene:
        scene.table["broker-a"] = {1: scene.brokers["broker-a"].address}
        await scene.proxy._look()
        ports = scene.proxy.broker_ports
        route = await scene.learn(await scene.client())
        assert [each.broker_addrs for each in route.broker_datas] == [{1: f"127.0.0.1:{ports['broker-a', 1]}"}]
        answer = await (await scene.client(ports["broker-a", 0])).request(Command(QUERY))
        assert (answer.code, "broker-a with id 0" in (answer.remark or "")) == (ResponseCode.SERVICE_NOT_AVAILABLE, True)
        assert (await (await scene.client(ports["broker-a", 1])).request(Command(QUERY))).fields["by"] == "broker-a"
