"""Certificates that are renewed on disk are used without a restart."""

from __future__ import annotations

import asyncio
import logging
import shutil
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest
import uvloop

from skyrocket.net.errors import NetError
from skyrocket.net.limits import NetLimits
from skyrocket.net.router import Router
from skyrocket.net.server import Server
from skyrocket.net.tls import RENEWAL_MS, RenewableContext, TlsLayer, client_context, server_context
from tests.support.processes.certificates import Authority, Certificate
from tests.support.waiting import WAIT_S_MAX


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.make(tmp_path_factory.mktemp("ca"))


@pytest.fixture
def files(tmp_path: Path, authority: Authority) -> Certificate:
    """The files of a server, which hold its first certificate."""
    files = Certificate(tmp_path / "cert.pem", tmp_path / "key.pem")
    install(files, authority.certificate("first"))
    return files


def install(files: Certificate, renewed: Certificate) -> None:
    """Replace the files, as certbot and the like do."""
    for target, source in zip(files, renewed, strict=True):
        shutil.copy(source, target.with_suffix(".new"))
        target.with_suffix(".new").replace(target)


def shown_name(context: ssl.SSLContext, authority: Authority) -> str:
    """Shake hands with a server that uses the context. Return the common name of its certificate."""
    server = TlsLayer(context)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    trusting = client_context("", "", trusted=authority.path)
    client = trusting.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    for _ in range(10):
        try:
            client.do_handshake()
            break
        except ssl.SSLWantReadError:
            server.receive(outgoing.read())
            incoming.write(server.to_send())
    found = client.getpeercert()
    assert found
    subject = dict(pair for names in found["subject"] for pair in names)  # type: ignore[misc]
    return str(subject["commonName"])


def loaded(files: Certificate) -> RenewableContext:
    context = server_context(files.path, files.key)
    assert context is not None
    return context


def test_renewed_certificate_is_shown_to_new_connections(files: Certificate, authority: Authority):
    context = loaded(files)
    assert shown_name(context, authority) == "first"
    install(files, authority.certificate("second"))
    assert shown_name(context, authority) == "first"
    context.renew()
    assert shown_name(context, authority) == "second"


def test_certificate_without_its_key_is_not_used_until_the_key_is_there(
    files: Certificate, authority: Authority, caplog: pytest.LogCaptureFixture
):
    context = loaded(files)
    renewed = authority.certificate("second")
    shutil.copy(renewed.path, files.path)
    for _ in range(3):
        context.renew()
    assert shown_name(context, authority) == "first"
    complaints = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert len(complaints) == 1, "one line for one incident"
    assert "New connections go on with the certificate that was loaded before." in complaints[0].getMessage()
    shutil.copy(renewed.key, files.key)
    context.renew()
    assert shown_name(context, authority) == "second"


def test_file_that_is_missing_for_a_moment_is_no_change(files: Certificate, authority: Authority):
    context = loaded(files)
    files.path.rename(files.path.with_suffix(".away"))
    context.renew()
    assert shown_name(context, authority) == "first"


class ClientConnection:
    """A client's end of a connection in memory, which shows a certificate."""

    def __init__(self, server: ssl.SSLContext, client: ssl.SSLContext, session: ssl.SSLSession | None = None) -> None:
        self._server = TlsLayer(server)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._client = client.wrap_bio(self._incoming, self._outgoing, server_hostname="127.0.0.1", session=session)

    def exchange(self) -> ssl.SSLObject:
        """Shake hands and read a word of the server. Raise ssl.SSLError when the server refuses the certificate."""
        self._server.send(b"hello")
        for step in [self._client.do_handshake, lambda: self._client.read(16)]:
            for _ in range(10):
                try:
                    step()
                    break
                except ssl.SSLWantReadError:
                    self._server.receive(self._outgoing.read())
                    self._incoming.write(self._server.to_send())
        return self._client


@pytest.fixture
def trusted(tmp_path: Path, authority: Authority) -> Path:
    """The file with the authorities of clients."""
    return Path(shutil.copy(authority.path, tmp_path / "trusted.pem"))


@pytest.fixture
def strict(files: Certificate, trusted: Path) -> RenewableContext:
    context = server_context(files.path, files.key, trusted=trusted, client_certificates=ssl.CERT_REQUIRED)
    assert context is not None
    return context


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.make(tmp_path_factory.mktemp("other"))


def shown_by(client: Certificate, authority: Authority) -> RenewableContext:
    return client_context(client.path, client.key, trusted=authority.path)


def test_an_authority_is_trusted_from_renewal_on_and_until_it_is_removed(
    strict: RenewableContext, trusted: Path, authority: Authority, other: Authority
):
    ours, theirs = (shown_by(each.certificate("client"), authority) for each in (authority, other))
    ClientConnection(strict, ours).exchange()
    with pytest.raises(ssl.SSLError):
        ClientConnection(strict, theirs).exchange()
    trusted.write_bytes(authority.path.read_bytes() + other.path.read_bytes())
    strict.renew()
    for client in (ours, theirs):
        ClientConnection(strict, client).exchange()
    trusted.write_bytes(other.path.read_bytes())
    strict.renew()
    ClientConnection(strict, theirs).exchange()
    with pytest.raises(ssl.SSLError):
        ClientConnection(strict, ours).exchange()


def test_a_session_of_before_does_not_get_in_behind_an_authority_that_was_removed(
    strict: RenewableContext, trusted: Path, authority: Authority, other: Authority
):
    client = shown_by(authority.certificate("client"), authority).current
    session = ClientConnection(strict, client).exchange().session
    assert ClientConnection(strict, client, session).exchange().session_reused, "a session can be taken up again"
    trusted.write_bytes(other.path.read_bytes())
    strict.renew()
    with pytest.raises(ssl.SSLError):
        ClientConnection(strict, client, session).exchange()


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_event_loops_take_the_renewed_certificates(
    strict: RenewableContext,
    trusted: Path,
    authority: Authority,
    other: Authority,
    new_loop: Callable[[], asyncio.AbstractEventLoop],
):
    client = shown_by(authority.certificate("client"), authority)

    async def is_served(port: int) -> bool:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client, server_hostname="127.0.0.1")
            word = await reader.read(16)
            writer.close()
        except OSError:
            return False
        return word == b"hello"

    def renew_without_ours() -> None:
        trusted.write_bytes(other.path.read_bytes())
        strict.renew()

    async def play() -> None:
        async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"hello")
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(greet, "127.0.0.1", 0, ssl=strict)
        async with server:
            port = server.sockets[0].getsockname()[1]
            assert await is_served(port)
            renew_without_ours()
            assert not await is_served(port)

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(play())


def test_files_that_cannot_be_used_at_the_start_are_named(tmp_path: Path):
    with pytest.raises(NetError, match=r"none\.pem cannot be used"):
        server_context(tmp_path / "none.pem", tmp_path / "none.key")


async def test_server_looks_at_its_certificates_now_and_then(files: Certificate, authority: Authority):
    now = [0]
    server = Server(Router(), NetLimits(scan_ms=1), loaded(files), now_ms=lambda: now[0])
    await server.listen("127.0.0.1", 0)
    try:
        install(files, authority.certificate("second"))
        now[0] = RENEWAL_MS
        assert server.tls is not None
        async with asyncio.timeout(WAIT_S_MAX):
            while shown_name(server.tls, authority) != "second":  # noqa: ASYNC110 no event tells of it
                await asyncio.sleep(0.01)
    finally:
        await server.close()
