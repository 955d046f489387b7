"""TLS in front of a proxy and behind it, and signed requests through it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from skyrocket.client import Admin, BrokerError, ClientError, Consumer, Credentials, Message, Producer, Received
from tests.client.consumer_support import QUICK
from tests.client.servers import until
from tests.support.processes.certificates import Authority, Certificate
from tests.support.processes.skyrocket_process import Skyrocket, SkyrocketProxy


@dataclass
class Locked:
    proxy: SkyrocketProxy
    server: Skyrocket
    authority: Authority
    client: Certificate


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Locked]:
    """Certificates are required in front and behind, and the broker has users."""
    home = tmp_path_factory.mktemp("locked")
    authority = Authority.make(home / "ca")
    shown, own, client = (authority.certificate(name) for name in ("server", "proxy", "client"))
    tls = authority.mutual_settings(shown, own)
    users = {
        "authenticationEnabled": "true",
        "authorizationEnabled": "true",
        "initAuthenticationUser": '{"username":"root","password":"secret"}',
        "innerClientAuthenticationCredentials": '{"accessKey":"inner","secretKey":"inner-secret"}',
    }
    with (
        Skyrocket(home / "server", {**tls, **users}) as server,
        SkyrocketProxy(home / "proxy", server.nameserver, {**tls, "tls.enable": "true"}) as proxy,
    ):
        yield Locked(proxy, server, authority, client)
        proxy.stop()
        assert proxy.complaints() == [], proxy.log_tail(100)


async def test_signed_requests_pass_over_tls_and_a_consumer_gets_what_was_sent(locked: Locked):
    known = {"tls": locked.authority.trusted(locked.client), "credentials": Credentials("root", "secret")}
    got: list[bytes] = []
    async with Admin(locked.proxy.address, **known) as admin:
        await admin.topics.create("vault", queues=1)
    consumer = Consumer(locked.proxy.address, group="readers", start="first", consumer_limits=QUICK, **known)

    @consumer.on("vault")
    async def handle(message: Received) -> None:
        got.append(message.body)

    async with Producer(locked.proxy.address, **known) as producer, consumer:
        assert (await producer.send(Message("vault", b"m" * 200_000))).is_safe
        await until(lambda: len(got) == 1, "the message")
    assert got == [b"m" * 200_000]


@pytest.mark.parametrize("credentials", [Credentials("root", "forged"), Credentials("nobody", "secret"), None])
async def test_a_forged_or_missing_signature_is_refused_by_the_broker(locked: Locked, credentials: Credentials | None):
    tls = locked.authority.trusted(locked.client)
    async with Producer(locked.proxy.address, tls=tls, credentials=credentials) as stranger:
        with pytest.raises(BrokerError, match="NO_PERMISSION"):
            await stranger.send(Message("vault", b"m"), timeout_ms=2_000)


async def test_clients_without_the_right_certificate_do_not_get_in(locked: Locked, tmp_path: Path):
    foreign = Authority.make(tmp_path).certificate("client")
    for tls in (locked.authority.trusted(), locked.authority.trusted(foreign), None):
        async with Producer(locked.proxy.address, tls=tls) as stranger:
            with pytest.raises(ClientError):
                await stranger.send(Message("vault", b"m"), timeout_ms=1_000)


async def test_a_proxy_that_trusts_another_authority_sends_nothing_to_the_cluster(locked: Locked, tmp_path: Path):
    stranger = Authority.make(tmp_path / "ca").certificate("proxy")
    settings = {"tls.enable": "true", "tls.client.trustCertPath": stranger.path}
    with SkyrocketProxy(tmp_path / "proxy", locked.server.nameserver, settings, brokers=0) as proxy:
        async with Producer(proxy.address) as producer:
            with pytest.raises(ClientError, match="certificate verify failed"):
                await producer.send(Message("vault", b"m"), timeout_ms=2_000)
