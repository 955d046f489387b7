"""How the proxy finds brokers that move, with nameservers that die or disagree."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from skyrocket.net.connection import Connection
from skyrocket.protocol.bodies import BrokerData, ClusterInfo, QueueData, TopicRouteData
from skyrocket.protocol.command import Command
from skyrocket.protocol.fastjson.codec import encode
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import CONNECTION_LOST, PROXY_FAILURE, ResponseCode
from tests.unit.proxy.scene import PULL, QUICK, Scene, ScriptedServer, playing, to, until


async def test_a_broker_with_another_address_is_found_without_waiting_for_the_next_look():
    async with playing("broker-a", "elsewhere") as scene:
        client = await scene.client()
        await client.request(to("broker-a"))
        await scene.brokers["broker-a"].stop()
        scene.table = {"broker-a": {0: scene.brokers["elsewhere"].address}}
        assert (await client.request(to("broker-a"))).fields["by"] == "elsewhere"


async def test_after_a_fail_over_requests_leave_the_old_master_although_it_lives():
    async with playing("broker-a", "slave") as scene:
        client, observer = await scene.client(), await scene.client()
        old, new = scene.brokers["broker-a"], scene.brokers["slave"]
        old.script[int(PULL)] = lambda _, __: None
        await client.request(to("broker-a"))
        waiting = client.request(to("broker-a", PULL), 60_000)
        await until(lambda: PULL in old.codes, "a pull waits at the old master")
        scene.table = {"broker-a": {0: new.address, 1: old.address}}
        await scene.learn(observer)  # any client's route tells the proxy
        assert (await client.request(to("broker-a"))).fields["by"] == "slave"
        assert (await waiting).fields[PROXY_FAILURE] == CONNECTION_LOST


def knows(scene: Scene, server: ScriptedServer, addresses: dict[int, str]) -> None:
    """Let a server answer as a nameserver that knows other addresses of broker-a, and no topic but t."""
    broker = BrokerData(cluster="c", broker_name="broker-a", broker_addrs=addresses)

    def answer_route(command: Command, _: Connection) -> Command:
        if command.fields["topic"] != "t":
            return command.response(ResponseCode.TOPIC_NOT_EXIST)
        rows = [QueueData(broker_name="broker-a", read_queue_nums=1, write_queue_nums=1, perm=6)]
        return command.response(0, body=encode(TopicRouteData(queue_datas=rows, broker_datas=[broker])))

    cluster = ClusterInfo(broker_addr_table={"broker-a": broker}, cluster_addr_table={"c": ["broker-a"]})
    server.script = {
        int(RequestCode.GET_ROUTEINFO_BY_TOPIC): answer_route,
        int(RequestCode.GET_BROKER_CLUSTER_INFO): lambda command, _: command.response(0, body=encode(cluster)),
    }
    scene.proxy.settings = replace(scene.proxy.settings, namesrv_addr=f"{scene.names.address};{server.address}")


async def client_at_the_second(scene: Scene) -> Connection:
    """A client that found the first nameserver away, and stays at the second. The proxy itself asks the first."""
    await scene.names.stop()
    client = await scene.client()
    answer = await client.request(Command(RequestCode.GET_ROUTEINFO_BY_TOPIC, fields={"topic": "another"}))
    assert answer.code == ResponseCode.TOPIC_NOT_EXIST
    await scene.names.start(scene.names.port)
    return client


async def test_a_nameserver_with_a_former_address_breaks_no_connection():
    async with playing("broker-a", "former", "stale-names") as scene:
        broker, former, stale = scene.brokers["broker-a"], scene.brokers["former"], scene.brokers["stale-names"]
        held: list[Command] = []
        broker.script[int(PULL)] = lambda command, _: held.append(command)  # type: ignore[func-returns-value]
        knows(scene, stale, {0: former.address})
        one, two = await scene.client(), await client_at_the_second(scene)
        waiting = one.request(to("broker-a", PULL), 60_000)
        await until(lambda: bool(held), "a pull waits at the broker")
        for _ in range(3):
            await scene.learn(two)
            assert [(await client.request(to("broker-a"))).fields["by"] for client in (one, two)] == ["broker-a"] * 2
        broker.connections[0].send_command(held[0].response(0))
        assert (await waiting).code == 0
        assert (len(broker.connections), former.codes) == (2, [])


async def test_a_broker_that_the_first_nameserver_seeks_in_vain_is_found_by_the_second():
    """The first has lost its connection to the broker, and keeps the broker's former address for up to two minutes."""
    async with playing("broker-a", "new", "other-names") as scene:
        new, other = scene.brokers["new"], scene.brokers["other-names"]
        knows(scene, other, {0: new.address})
        client = await scene.client()
        assert (await client.request(to("broker-a"))).fields["by"] == "broker-a"
        await scene.brokers["broker-a"].stop()
        assert (await client.request(to("broker-a"))).fields["by"] == "new"
        waiting_at = len(new.connections)
        await scene.proxy._look()  # the first still has the former address
        assert (await client.request(to("broker-a"))).fields["by"] == "new"
        assert len(new.connections) == waiting_at, "nobody listens at the former address, so no connection was given up for it"


async def test_a_route_waits_for_the_brokers_of_the_cluster_for_a_moment_only():
    async with playing("broker-a", "former", "stale-names", limits=replace(QUICK, doubt_ms=50)) as scene:
        knows(scene, scene.brokers["stale-names"], {0: scene.brokers["former"].address})
        client = await client_at_the_second(scene)
        scene.names.script[int(RequestCode.GET_BROKER_CLUSTER_INFO)] = lambda _, __: None
        route = await scene.learn(client)
        assert [each.broker_addrs for each in route.broker_datas] == [{0: scene.proxy.address}]
        assert (await client.request(to("broker-a"))).fields["by"] == "broker-a"


async def test_a_nameserver_that_dies_is_replaced_by_the_next():
    async with playing("broker-a", "other-names") as scene:
        client = await scene.client()
        await scene.learn(client)
        other = scene.brokers["other-names"]
        other.script = scene.names.script
        scene.proxy.settings = replace(scene.proxy.settings, namesrv_addr=f"{scene.names.address};{other.address}")
        await scene.names.stop()
        route = await scene.learn(client)
        assert {each.broker_name for each in route.broker_datas} == {"broker-a", "other-names"}
        await scene.names.start(scene.names.port)


async def test_a_look_that_has_just_ended_is_not_the_answer_to_a_later_question():
    async with playing("broker-a", "elsewhere") as scene:
        look = scene.proxy._begin_look()
        while not look.done():  # noqa: ASYNC110 — the proxy has not heard of the end yet
            await asyncio.sleep(0)
        again = scene.proxy._begin_look()
        assert again is not look
        await again
