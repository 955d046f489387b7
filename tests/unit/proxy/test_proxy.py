"""The proxy process: its start and end, its limits, and how it looks for brokers."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from skyrocket.net.errors import NetError
from skyrocket.protocol.command import Command
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from skyrocket.proxy.limits import ProxyLimits
from skyrocket.proxy.proxy import Proxy
from skyrocket.proxy.settings import BrokerPort, ProxySettings
from tests.support.ports import free_port
from tests.unit.proxy.scene import PULL, QUERY, QUICK, SEND, ScriptedServer, heartbeat, playing, to, until


async def test_a_first_request_waits_for_the_first_look_at_the_brokers():
    """Clients connect the moment the proxy starts, while it asks the nameserver."""
    names, asked = ScriptedServer("names"), asyncio.Event()
    names.script[int(RequestCode.GET_BROKER_CLUSTER_INFO)] = lambda command, connection: asked.set()  # type: ignore[func-returns-value]
    await names.start()
    proxy = Proxy(ProxySettings(listen_port=0, namesrv_addr=names.address))
    await proxy.start()
    await asked.wait()
    names.script.clear()
    looking = asyncio.ensure_future(proxy.find_broker("broker-a", None))
    await asyncio.sleep(0.05)
    assert not looking.done()
    looking.cancel()
    await asyncio.gather(looking, return_exceptions=True)
    await proxy.close()
    await names.stop()


async def test_a_nameserver_that_is_away_is_logged_once(caplog: pytest.LogCaptureFixture):
    names = ScriptedServer("names")
    port = free_port()
    limits = replace(QUICK, refresh_s=0.01)
    proxy = Proxy(ProxySettings(listen_port=0, namesrv_addr=f"127.0.0.1:{port}"), limits=limits)
    caplog.set_level("INFO", "skyrocket.proxy.proxy")
    await proxy.start()
    await until(lambda: "cannot ask for the brokers" in caplog.text, "it is logged")
    await asyncio.sleep(0.05)
    assert caplog.text.count("cannot ask for the brokers") == 1
    names.script[int(RequestCode.GET_BROKER_CLUSTER_INFO)] = lambda command, _: command.response(0, body=b"{}")
    await names.start(port)
    await until(lambda: "answers again" in caplog.text, "it is back")
    await proxy.close()
    await names.stop()


async def test_a_nameserver_that_answered_is_asked_first():
    async with playing() as scene:
        gone = f"127.0.0.1:{free_port()}"
        proxy = Proxy(ProxySettings(listen_port=0, namesrv_addr=f"{gone};{scene.names.address}"), limits=QUICK)
        await proxy.start()
        await until(lambda: bool(proxy.directory.names), "the second nameserver answers")
        assert proxy._nameservers() == [scene.names.address, gone]
        await proxy.close()


async def test_a_port_that_is_taken_is_one_sentence_and_frees_the_others():
    async with playing() as scene:
        port = free_port()
        settings = ProxySettings(
            listen_port=port, namesrv_addr=scene.names.address, broker_ports=(BrokerPort("a", 0, scene.proxy.port),)
        )
        with pytest.raises(NetError, match=f"Cannot listen on 127.0.0.1:{scene.proxy.port}"):
            await Proxy(settings).start()
        again = Proxy(replace(settings, broker_ports=()))
        await again.start()
        await again.close()


async def test_a_proxy_that_stops_waits_for_the_answers_to_sends_and_not_for_pulls():
    async with playing() as scene:
        broker, client = scene.brokers["broker-a"], await scene.client()
        sent: list[Command] = []
        broker.script[int(SEND)] = lambda command, _: sent.append(command)  # type: ignore[func-returns-value]
        broker.script[int(PULL)] = lambda _, __: None
        pull, send = client.request(to("broker-a", PULL), 60_000), client.request(to("broker-a", SEND), 60_000)
        await until(lambda: bool(sent), "the broker has the message")
        closing = asyncio.ensure_future(scene.proxy.close())
        await until(lambda: scene.proxy._server._draining, "no request is taken any more")
        refused = await client.request(to("broker-a"))
        assert (refused.code, closing.done()) == (ResponseCode.SYSTEM_BUSY, False)
        broker.connections[0].send_command(sent[0].response(0))
        assert (await send).code == 0
        await closing
        with pytest.raises(NetError):
            await pull


async def test_requests_of_all_clients_are_bounded_together():
    limits = ProxyLimits(unanswered_max_bytes=5_000, request_overhead_bytes=1_000)
    async with playing(limits=limits) as scene:
        one, two = await scene.client(), await scene.client()
        broker = scene.brokers["broker-a"]
        broker.script[int(PULL)] = lambda _, __: None
        waiting = [one.request(to("broker-a", PULL), 60_000) for _ in range(4)]
        await until(lambda: len(broker.asked) == 4, "they wait at the broker")
        refused = await two.request(to("broker-a", PULL))
        assert refused.code == ResponseCode.SYSTEM_BUSY
        assert "memory" in (refused.remark or "")
        one.close("the test says so")
        await asyncio.gather(*waiting, return_exceptions=True)
        await until(lambda: scene.proxy.in_flight.size_bytes == 0, "what waited is forgotten")
        assert (await two.request(to("broker-a", QUERY))).code == 0


async def test_the_heartbeats_of_clients_that_have_gone_take_no_memory():
    async with playing() as scene:
        clients = [await scene.client() for _ in range(3)]
        for client in clients:
            await scene.learn(client)
            assert (await client.request(heartbeat())).code == 0
        assert scene.proxy.heartbeats.size_bytes > 0
        for client in clients:
            client.close("the test says so")
        await until(lambda: scene.proxy.heartbeats.size_bytes == 0, "what was kept is forgotten")


async def test_a_client_beyond_its_quota_is_told_to_come_again():
    async with playing(requests_per_second=10) as scene:
        one, two = await scene.client(), await scene.client()
        await asyncio.gather(*(one.request(to("broker-a"), 60_000) for _ in range(400)))
        refused = await two.request(to("broker-a"))
        assert (refused.code, len(scene.brokers["broker-a"].asked)) == (ResponseCode.SYSTEM_BUSY, 400)


async def test_connections_are_bounded():
    async with playing(connections_max=2) as scene:
        one, two, three = [await scene.client() for _ in range(3)]
        await until(lambda: not three.is_open, "there is no room for a third")
        assert ((await one.request(to("broker-a"))).code, (await two.request(to("broker-a"))).code) == (0, 0)
