"""Certificates that are renewed on disk are used without a restart."""

from __future__ import annotations

import asyncio
import logging
import shutil
import ssl
from pathlib import Path

import pytest

from skyrocket.net.errors import NetError
from skyrocket.net.limits import NetLimits
from skyrocket.net.router import Router
from skyrocket.net.server import Server
from skyrocket.net.tls import RENEWAL_MS, RenewableContext, TlsLayer, client_context, server_context
from tests.support.certificates import Authority, Certificate
from tests.support.waiting import WAIT_S_MAX


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.made(tmp_path_factory.mktemp("ca"))


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


def test_client_that_a_new_authority_signed_is_trusted_after_renewal(tmp_path: Path, files: Certificate, authority: Authority):
    trusted = tmp_path / "trusted.pem"
    shutil.copy(authority.path, trusted)
    context = server_context(files.path, files.key, trusted=trusted, client_certificates=ssl.CERT_REQUIRED)
    assert context is not None
    assert len(context.get_ca_certs()) == 1
    other = Authority.made(tmp_path / "other")
    trusted.write_bytes(authority.path.read_bytes() + other.path.read_bytes())
    context.renew()
    assert len(context.get_ca_certs()) == 2


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
