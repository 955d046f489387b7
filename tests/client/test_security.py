"""TLS and signed requests."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from skyrocket.client import Admin, BrokerError, ClientError, Credentials, Message, Producer
from skyrocket.client.session.credentials import signature
from skyrocket.net.router import Router
from skyrocket.net.server import Server
from skyrocket.protocol.bodies import BrokerData, QueueData, TopicRouteData
from skyrocket.protocol.command import Command
from skyrocket.protocol.fastjson.codec import encode
from skyrocket.protocol.requests import RequestCode
from tests.support.apache.cluster import send_request
from tests.support.processes.certificates import Authority, Certificate
from tests.support.processes.skyrocket_process import Skyrocket, SkyrocketBroker, SkyrocketNameserver


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return Certificate.make(tmp_path_factory.mktemp("tls"))


async def test_producer_uses_tls_with_nameserver_and_broker(tmp_path: Path, certificate: Certificate):
    tls = certificate.server_settings
    with (
        SkyrocketNameserver(tmp_path / "names", tls) as names,
        SkyrocketBroker(tmp_path / "broker", names.nameserver, tls),
    ):
        async with Producer(names.nameserver, tls=certificate.trusted()) as producer:
            assert (await producer.send(Message("secret", b"m" * 100_000, keys=["k"]))).is_safe
        async with Producer(names.nameserver, tls=True) as strict:
            with pytest.raises(ClientError, match="certificate verify failed"):
                await strict.send(Message("secret", b"m"), timeout_ms=1_000)


async def test_servers_with_a_certificate_refuse_plain_connections(tmp_path: Path, certificate: Certificate):
    """Nothing but the certificate is set. `skyrocket run` shows it on all of its ports, and its broker registers with TLS."""
    with Skyrocket(tmp_path, certificate.server_settings) as server:
        async with Producer(server.nameserver, tls=certificate.trusted()) as producer:
            assert (await producer.send(Message("secret", b"m"))).is_safe
        async with Producer(server.nameserver) as plain:
            with pytest.raises(ClientError):
                await plain.send(Message("secret", b"m"), timeout_ms=1_000)
        host, port = server.address.split(":")
        for each in (int(port), int(port) - 2, int(server.nameserver.split(":")[1])):
            assert send_request((host, each), Command(RequestCode.GET_BROKER_CLUSTER_INFO, opaque=1)) is None


async def test_servers_that_require_client_certificates_refuse_others(tmp_path: Path):
    authority, stranger = Authority.make(tmp_path / "ca"), Authority.make(tmp_path / "other")
    shown, own, foreign = authority.certificate("server"), authority.certificate("client"), stranger.certificate("client")
    settings = authority.mutual_settings(shown, own)
    with (
        SkyrocketNameserver(tmp_path / "names", settings) as names,
        SkyrocketBroker(tmp_path / "broker", names.nameserver, settings),
    ):
        async with Producer(names.nameserver, tls=authority.trusted(own)) as producer:
            assert (await producer.send(Message("secret", b"m"))).is_safe
        for unknown in (authority.trusted(), authority.trusted(foreign)):
            async with Producer(names.nameserver, tls=unknown) as refused:
                with pytest.raises(ClientError):
                    await refused.send(Message("secret", b"m"), timeout_ms=1_000)


async def test_every_request_is_signed():
    """The test runs a server that is nameserver and broker, and checks each request."""
    wrong: list[str] = []
    codes_seen: set[int] = set()
    credentials = Credentials("key", "secret")

    def check(command: Command) -> None:
        fields = dict(command.fields)
        codes_seen.add(command.code)
        if fields.pop("Signature", "") != signature(fields, command.body, "secret") or fields["AccessKey"] != "key":
            wrong.append(repr(command))

    router = Router()
    server = Server(router)
    port = await server.listen("127.0.0.1", 0)
    route = TopicRouteData(
        queue_datas=[QueueData(broker_name="b", read_queue_nums=1, write_queue_nums=1, perm=6)],
        broker_datas=[BrokerData(cluster="c", broker_name="b", broker_addrs={0: f"127.0.0.1:{port}"})],
    )

    def answer(command: Command, _: object) -> Command:
        check(command)
        response = command.response(0, body=encode(route))
        response.fields = {"msgId": "0" * 32, "queueId": "0", "queueOffset": "0"}
        return response

    codes = [RequestCode.GET_ROUTEINFO_BY_TOPIC, RequestCode.HEART_BEAT, RequestCode.UNREGISTER_CLIENT]
    codes += [RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE]
    for code in codes:
        router.add(code, answer)
    async with Producer(f"127.0.0.1:{port}", credentials=credentials) as producer:
        await producer.send(Message("t", "grün".encode(), properties={"colour": "grün"}))
        await producer.send_batch([Message("t", b"m")])
        await producer.send_oneway(Message("t", b"m"))
        await producer._session.send_heartbeats()
    await server.close()
    await asyncio.sleep(0)
    assert codes_seen == set(map(int, codes))
    assert not wrong


async def test_a_user_whom_the_nameserver_does_not_know_deletes_no_topic_by_half(tmp_path: Path):
    """Users made with createUser are at the brokers; a nameserver knows those of its settings."""
    settings = {
        "authenticationEnabled": "true",
        "authorizationEnabled": "true",
        "initAuthenticationUser": '{"username":"root","password":"root-secret"}',
        "innerClientAuthenticationCredentials": '{"accessKey":"inner","secretKey":"inner-secret"}',
    }
    root, boss = Credentials("root", "root-secret"), Credentials("boss", "boss-secret")
    with Skyrocket(tmp_path, settings) as server:
        async with Admin(server.nameserver, credentials=root) as admin, Admin(server.nameserver, credentials=boss) as by_boss:
            await admin.access.create_user("boss", "boss-secret", is_super=True)
            await by_boss.topics.create("orders", queues=2)
            async with Producer(server.nameserver, credentials=boss) as producer:
                await producer.send(Message("orders", b"m"))
            with pytest.raises(BrokerError, match=r"NO_PERMISSION.*User:boss is not found\. Nothing was changed, at the brokers"):
                await by_boss.topics.delete("orders")
            with pytest.raises(BrokerError, match="Nothing was changed"):
                await by_boss.topics.create("steps", order=True)
            assert (await admin.topics.names()) == ["orders"]
            assert (await admin.topics.status("orders")).messages == 1
            await admin.topics.delete("orders")
            assert (await admin.topics.names()) == []
