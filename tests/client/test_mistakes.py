"""Mistakes that would otherwise pass in silence, or end in an error that explains nothing: each is an error at once."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from skyrocket.client import (
    Admin,
    ClientError,
    ConfigurationError,
    Consumer,
    InvalidMessageError,
    Message,
    NoNameserverError,
    Outcome,
    Producer,
    PullConsumer,
    TransactionProducer,
    sync,
)
from skyrocket.net.router import Router
from skyrocket.net.server import Server
from tests.client.consumer_support import broker_address
from tests.client.servers import Servers, reader
from tests.support.processes.certificates import Certificate


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return Certificate.make(tmp_path_factory.mktemp("tls"))


# --- subscriptions


def test_sql92_text_and_single_bar_are_refused_by_every_consumer():
    for expression, advice in (("amount > 100", "Write sql"), ("a | b", "Write 'a || b'")):
        for kind in (Consumer, sync.Consumer):
            with pytest.raises(ConfigurationError, match=advice):
                kind("127.0.0.1:1", group="g", topics={"orders": expression})
            with pytest.raises(ConfigurationError, match=advice):
                kind("127.0.0.1:1", group="g").on("orders", expression)(lambda _: None)


async def test_sql92_text_is_refused_by_a_pull_consumer(ours: Servers):
    async with PullConsumer(ours.nameserver, group="g") as consumer:
        with pytest.raises(ConfigurationError, match="Write sql"):
            await consumer.subscribe({"orders": "amount > 100"})


# --- messages

NOT_MESSAGES: list[Any] = [{"topic": "t", "body": b"b"}, b"body", ("t", b"b"), None]


@pytest.mark.parametrize("wrong", NOT_MESSAGES, ids=lambda wrong: type(wrong).__name__)
@pytest.mark.parametrize("linger_ms", [None, 5])
async def test_send_of_something_else_than_a_message_is_an_invalid_message(ours: Servers, wrong: Any, linger_ms: int | None):
    kind = type(wrong).__name__

    async def check(outcome: str) -> Outcome:
        raise AssertionError(outcome)

    async with (
        Producer(ours.nameserver, linger_ms=linger_ms) as producer,
        TransactionProducer(ours.nameserver, check=check) as transactions,  # type: ignore[arg-type]
    ):
        for method, send in (
            ("send", producer.send),
            ("send_soon", producer.send_soon),
            ("send_oneway", producer.send_oneway),
            ("request", producer.request),
            ("transaction", lambda message: transactions.transaction(message, check)),  # type: ignore[arg-type]
        ):
            with pytest.raises(InvalidMessageError, match=f"^{method} takes a Message, not {kind}"):
                await send(wrong)
        with pytest.raises(InvalidMessageError, match=f"send_batch takes a Message, not {kind}"):
            await producer.send_batch([Message("t", b"b"), wrong])
        with pytest.raises(InvalidMessageError, match="takes a list of messages"):
            await producer.send_batch(Message("t", b"b"))  # type: ignore[arg-type]


def test_sync_send_of_a_dictionary_is_an_invalid_message(ours: Servers):
    with sync.Producer(ours.nameserver) as producer, pytest.raises(InvalidMessageError, match="send takes a Message, not dict"):
        producer.send({"topic": "t"})  # type: ignore[arg-type]


# --- a broker's port given as the nameserver's


async def test_port_of_a_broker_is_not_a_nameserver(servers: Servers):
    async with reader(servers) as read:
        address = await broker_address(read)
    async with Producer(address) as producer, Admin(address) as admin:
        for use in (
            producer.send(Message("t", b"m")),
            Consumer(address, group="g", topics="t").start(),
            admin.cluster.brokers(),
        ):
            with pytest.raises(NoNameserverError, match=f"{address} is not a nameserver, but perhaps a broker"):
                await use


async def test_right_nameserver_beside_a_brokers_port_still_serves(servers: Servers):
    async with reader(servers) as read:
        address = await broker_address(read)
    async with Producer([address, servers.nameserver]) as producer:
        assert (await producer.send(Message(servers.topic("beside"), b"m"))).is_safe


# --- TLS and plain ports


async def fails(address: str, sentence: str, **options: Any) -> None:
    async with Producer(address, **options) as producer:
        with pytest.raises(ClientError, match=sentence):
            await producer.send(Message("t", b"m"), timeout_ms=20_000)


async def test_tls_to_a_plain_port_says_so(ours: Servers, certificate: Certificate):
    await fails(ours.nameserver, "during the TLS handshake; the port may be one without TLS", tls=certificate.trusted())


async def test_plain_connection_to_a_tls_port_says_so(certificate: Certificate):
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate.path, certificate.key)
    server = Server(Router(), tls=context, tls_only=True)
    port = await server.listen("127.0.0.1", 0)
    try:
        await fails(f"127.0.0.1:{port}", r"It has never answered: .* to be used with TLS \(tls=True\)")
    finally:
        await server.close()


@asynccontextmanager
async def closing_listener(answer: bytes) -> AsyncIterator[str]:
    """Run a server that answers the first bytes with `answer` and closes the connection."""

    async def talk(reading: asyncio.StreamReader, writing: asyncio.StreamWriter) -> None:
        await reading.read(1)
        writing.write(answer)
        writing.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        await asyncio.sleep(0.05)  # let its connections close


TLS_ALERT = bytes.fromhex("15030300020250")


@pytest.mark.parametrize("answer", [b"", TLS_ALERT, b"HTTP/1.1 400 Bad Request\r\n\r\n"], ids=["nothing", "alert", "http"])
async def test_each_end_of_a_first_connection_is_explained(answer: bytes, certificate: Certificate):
    async with closing_listener(answer) as address:
        await fails(address, "It has never answered: it may not be a RocketMQ server")
        await fails(address, "TLS handshake", tls=certificate.trusted())
