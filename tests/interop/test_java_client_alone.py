"""The Java client in a harder world: every nameserver gone, and TLS where nothing else is taken."""

from __future__ import annotations

from pathlib import Path

import pytest

from skyrocket.testing.sync import LocalBroker as SyncBroker
from tests.support.apache.java_scenes import Cluster, Out, Scenes, Sent
from tests.support.processes.certificates import Authority, Certificate
from tests.support.processes.skyrocket_process import SkyrocketBroker, SkyrocketNameserver, tls_of

pytestmark = pytest.mark.interop


def numbered(messages: int, of: str) -> list[Out]:
    return [Out(f"{of} {number}".encode()) for number in range(messages)]


def test_clients_go_on_from_their_last_route_when_every_nameserver_is_gone(tmp_path: Path):
    with (
        SkyrocketNameserver(tmp_path / "one") as one,
        SkyrocketNameserver(tmp_path / "two") as two,
        SkyrocketBroker(tmp_path / "broker", f"{one.nameserver};{two.nameserver}") as broker,
    ):
        client = Scenes(tmp_path / "client", "alone", Cluster(one.nameserver, broker.address, "DefaultCluster"), [])
        try:
            topic = client.topic("alone")
            consumer = client.push(client.named("group"), topic)
            client.send(topic, *numbered(10, "before"))
            assert len(client.heard(consumer, 10)) == 10
            one.kill()
            two.kill()
            client.send(topic, *numbered(20, "after"))
            heard = sorted(got.body for got in client.heard(consumer, 30))
            assert heard == sorted(out.body for out in numbered(10, "before") + numbered(20, "after"))
        finally:
            client.kill()


def test_the_java_client_speaks_tls_with_both_servers(tmp_path: Path):
    tls = Certificate.make(tmp_path).server_settings
    with (
        SkyrocketNameserver(tmp_path / "names", tls) as names,
        SkyrocketBroker(tmp_path / "broker", names.nameserver, tls) as broker,
    ):
        cluster = Cluster(names.nameserver, broker.address, "DefaultCluster", tls_of(tls))
        client = Scenes(tmp_path / "client", "tls", cluster, ["-Dtls.enable=true"])
        try:
            topic = client.topic("tls")
            consumer = client.push(client.named("group"), topic)
            client.send(topic, *numbered(10, "secret"), Out(b"large" * 100_000))
            assert len(client.heard(consumer, 11)) == 11
        finally:
            client.kill()


def test_the_java_client_shows_its_certificate_where_one_is_required(tmp_path: Path):
    authority = Authority.make(tmp_path / "ca")
    shown, own = authority.certificate("server"), authority.certificate("client")
    settings = authority.mutual_settings(shown, own)
    flags = ["-Dtls.enable=true", "-Dtls.test.mode.enable=false", "-Dtls.client.authServer=true"]
    for key in ("tls.client.certPath", "tls.client.keyPath", "tls.client.trustCertPath"):
        flags.append(f"-D{key}={settings[key]}")
    with (
        SkyrocketNameserver(tmp_path / "names", settings) as names,
        SkyrocketBroker(tmp_path / "broker", names.nameserver, settings) as broker,
    ):
        cluster = Cluster(names.nameserver, broker.address, "DefaultCluster", tls_of(settings))
        client = Scenes(tmp_path / "client", "mtls", cluster, flags)
        try:
            topic = client.topic("mtls")
            consumer = client.push(client.named("group"), topic)
            client.send(topic, *numbered(10, "secret"), Out(b"large" * 100_000))
            assert len(client.heard(consumer, 11)) == 11
        finally:
            client.kill()


def test_a_flush_that_takes_too_long_has_its_own_status_and_says_where_the_message_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with SyncBroker({"flushDiskType": "SYNC_FLUSH"}) as broker:
        client = Scenes(tmp_path / "client", "flush", Cluster(broker.nameserver, broker.address, "DefaultCluster"), [])
        try:
            topic = client.topic("flush", queues=1)
            (on_disk,) = client.send(topic, Out(b"on disk"))
            monkeypatch.setattr("skyrocket.broker.send.parked_answers.SYNC_FLUSH_TIMEOUT_MS", -1)
            monkeypatch.setattr(broker._local.broker.store, "begin_flush", lambda: None)  # the disk stalls
            (late,) = client.try_to_send(topic, Out(b"late"))
            monkeypatch.undo()
            assert isinstance(late, Sent), late
            assert (late.status, late.queue, late.offset) == ("FLUSH_DISK_TIMEOUT", on_disk.queue, on_disk.offset + 1)
            assert len(late.offset_id) == len(on_disk.offset_id)
        finally:
            client.kill()
