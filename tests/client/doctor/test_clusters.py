"""What can be wrong with servers: addresses, nameservers, routes, disks, clocks, overload, retention. Each is made for real."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from skyrocket.client import Admin, Credentials, Message, NoNameserverError, Producer
from skyrocket.client.limits import ClientLimits
from skyrocket.client.queues import Queue
from skyrocket.doctor.examination import examine_cluster
from skyrocket.protocol.requests import RequestCode
from skyrocket.store.files import Disk
from skyrocket.testing import LocalBroker
from tests.client.doctor.scenes import examine, finding_of, rules_of
from tests.support.ports import free_port
from tests.support.processes.batch_load import Batches, BatchLoad
from tests.support.processes.skyrocket_process import (
    SMALL_STORE,
    DescriptorLimits,
    Skyrocket,
    SkyrocketBroker,
    SkyrocketNameserver,
    SkyrocketProcess,
    registered,
)
from tests.support.waiting import WAIT_S_MAX, wait_until

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS


@pytest.fixture(scope="module")
def nameserver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with SkyrocketNameserver(tmp_path_factory.mktemp("names")) as names:
        yield names.nameserver


@contextmanager
def broker_with_address(home: Path, nameserver: str, host: str, port: int) -> Iterator[None]:
    """Run a broker that tells its clients another address than the one it listens on."""
    own = {"listenPort": port, "brokerIP1": host, "storePathRootDir": home / "store", "brokerName": "astray", **SMALL_STORE}
    sets = [text for key, value in own.items() for text in ("--set", f"{key}={value}")]
    is_ready = lambda: f"{host}:{port}" in registered(nameserver)  # noqa: E731
    with SkyrocketProcess("broker", home, ["broker", "-n", nameserver, *sets], is_ready):
        yield


# --- addresses and nameservers


async def test_no_nameserver_answers():
    with pytest.raises(NoNameserverError, match=r"^No nameserver answers: .*-n host:port\.$"):
        await examine(f"127.0.0.1:{free_port()}")


async def test_a_nameserver_without_a_broker(nameserver: str):
    examined = await examine(nameserver, group="coupons")
    assert rules_of(examined) == ["no-broker"], "and not that the group is missing"
    assert examined.unanswered == ["No master answers, so nothing is known of groups."]
    assert "namesrvAddr" in examined.findings[0].advice


async def test_an_address_that_refuses_and_one_that_never_answers(nameserver: str, tmp_path: Path):
    port = free_port(-2, 1)
    with broker_with_address(tmp_path, nameserver, "127.0.0.2", port):
        refused = await finding_of(nameserver, "broker-unreachable")
        with socket.create_server(("127.0.0.2", port)):  # it takes connections, and says nothing
            limits = ClientLimits(request_ms=300)
            async with Admin(nameserver, limits=limits) as admin:
                examined = await examine_cluster(admin, every_s=0)
    (silent,) = (one for one in examined.findings if one.rule == "broker-unreachable")
    for found in (refused, silent):
        assert found.about == f"broker astray (127.0.0.2:{port})"
        assert "brokerIP1" in found.advice
    assert refused.evidence != silent.evidence
    assert any("groups" in sentence for sentence in examined.unanswered)


async def test_a_broker_that_one_of_two_nameservers_does_not_know(nameserver: str, tmp_path: Path):
    with SkyrocketNameserver(tmp_path / "other") as other, SkyrocketBroker(tmp_path / "broker", nameserver) as broker:
        both = f"{nameserver};{other.nameserver}"
        found = await finding_of(both, "nameservers-differ")
        other.kill()
        silent = await finding_of(both, "nameserver-silent")
    assert broker.address in found.about
    assert found.evidence == f"Unknown at {other.nameserver}. namesrvAddr of the broker: {nameserver}."
    assert silent.about == f"nameserver {other.nameserver}"


async def test_a_broker_that_tells_nothing_without_keys():
    admins = {"initAuthenticationUser": '{"username":"root","password":"12345678"}'}
    async with LocalBroker({"authenticationEnabled": "true", "authorizationEnabled": "true", **admins}) as broker:
        found = await finding_of(broker.nameserver, "broker-refuses")
        async with Admin(broker.nameserver, credentials=Credentials("root", "12345678")) as admin:
            allowed = await examine_cluster(admin, every_s=0)
    assert "NO_PERMISSION" in found.evidence
    assert "--access-key" in found.advice
    assert rules_of(allowed) == []


# --- topics


async def test_a_missing_topic_where_brokers_create_none():
    async with LocalBroker({"autoCreateTopicEnable": "false"}) as broker:
        await broker.create_topic("orders")
        found = await finding_of(broker.nameserver, "topic-missing", topic="order")
    assert found.evidence == "autoCreateTopicEnable is false at broker-a. Did you mean 'orders'?"
    assert found.advice == "Create it with: skyrocket topic create order"


async def test_a_topic_that_its_first_message_created_at_one_of_two_brokers(nameserver: str, tmp_path: Path):
    names = {name: {"brokerName": name} for name in ("left", "right")}
    with (
        SkyrocketBroker(tmp_path / "left", nameserver, names["left"]),
        SkyrocketBroker(tmp_path / "right", nameserver, names["right"]),
    ):
        async with Producer(nameserver) as producer:
            await producer.send(Message("sudden", b"first"))
        found = await finding_of(nameserver, "topic-unbalanced", topic="sudden")
        assert "autoCreateTopicEnable is true at left, right" in found.evidence
        async with Admin(nameserver) as admin:
            await admin.topics.create("sudden", queues=4)
        assert rules_of(await examine(nameserver, topic="sudden")) == []


# --- disk, clocks, load


async def test_a_disk_above_each_level(tmp_path: Path):
    used = int(Disk().used_percent(str(tmp_path)))
    if not 16 <= used <= 88:
        pytest.skip(f"The disk of this machine is {used} % full; levels around that cannot be set.")
    high = {"diskMaxUsedSpaceRatio": 95, "diskSpaceCleanForciblyRatio": 95, "diskSpaceWarningLevelRatio": 95}
    with Skyrocket(tmp_path, {**high, "diskSpaceWarningLevelRatio": used + 3}) as run:
        fills = await finding_of(run.nameserver, "disk-fills")
        async with Admin(run.nameserver) as admin:
            await admin.cluster.update_config("broker-a", {"diskSpaceCleanForciblyRatio": str(used - 3)})
            deletes = await finding_of(run.nameserver, "disk-deletes-early")
            await admin.cluster.update_config("broker-a", {"diskSpaceWarningLevelRatio": str(used - 3)})
            full = await finding_of(run.nameserver, "disk-full")
    assert f"the broker acts at {used + 3} %" in fills.evidence
    assert f"from {used - 3} % on (diskSpaceCleanForciblyRatio)" in deletes.evidence
    assert "fileReservedTime" in full.advice


async def test_a_broker_whose_clock_is_an_hour_behind():
    async with LocalBroker() as broker:
        assert "broker-clock" not in rules_of(await examine(broker.nameserver))
    broker = LocalBroker()
    broker.clock.ahead_ms = -HOUR_MS
    async with broker:
        async with Producer(broker.nameserver) as producer:
            await producer.send(Message("orders", b"before its time"))
        clock = await finding_of(broker.nameserver, "broker-clock", topic="orders")
        born = await finding_of(broker.nameserver, "producer-clock", topic="orders")
    assert clock.what.endswith("is behind this machine's.")
    assert clock.evidence.startswith(("By 59 min 59 s", "By 1 h"))
    assert born.evidence.startswith("1 of the newest 1 messages, by up to ")


async def test_a_broker_that_answers_system_busy(tmp_path: Path):
    """More connections send than the broker works through within a limit of 20 ms."""
    with Skyrocket(tmp_path, {"waitTimeMillsInSendQueue": 20, "mappedFileSizeCommitLog": 1 << 28}) as run:
        async with Producer(run.nameserver) as producer:
            await producer.send(Message("orders", b"creates the topic"))
        assert "broker-busy" not in {one.rule for one in (await examine(run.nameserver)).findings}
        load = BatchLoad(run.address, "orders", 150, Batches(in_flight=32, body_bytes=64), 1 << 30)
        load.start()
        try:
            await asyncio.to_thread(wait_until, lambda: bool(load.refusals), "the broker refuses")
        finally:
            load.stop()
        found = await finding_of(run.nameserver, "broker-busy")
    assert "since its start" in found.evidence


async def test_a_broker_with_few_descriptors_that_has_no_room_for_one_more_client(tmp_path: Path):
    with Skyrocket(tmp_path, descriptors=DescriptorLimits(256, 256)) as run, ExitStack() as opened:
        assert run.process is not None
        few = await finding_of(run.nameserver, "descriptors-few")
        host, port = run.address.split(":")
        for _ in range(100):  # more than it takes
            opened.enter_context(socket.create_connection((host, int(port))))
        closed = await finding_of(run.nameserver, "broker-unreachable")
    assert few.what == f"The broker (process {run.process.pid}) may open few files and connections."
    assert "The hard limit (ulimit -Hn) is 256" in few.evidence
    assert "It has never answered" in closed.evidence
    assert "as many connections as it may" in closed.advice


# --- retention


async def test_messages_that_are_deleted_before_they_are_read():
    hour = f"{datetime.now(UTC).astimezone().hour:02d}"
    at_once = {"deleteWhen": hour, "diskMaxUsedSpaceRatio": "10"}
    broker = LocalBroker({"mappedFileSizeCommitLog": str(64 * 1024), "fileReservedTime": "2", **at_once})
    broker.clock.ahead_ms = -100 * MINUTE_MS
    async with broker, Admin(broker.nameserver) as admin:
        await broker.create_topic("orders", queues=1)
        await admin.groups.create("slow")
        async with Producer(broker.nameserver) as producer:
            for _ in range(80):
                await producer.send(Message("orders", bytes(2000)))
        await admin.offsets.set("slow", {Queue("orders", "broker-a", 0): 0})
        expiring = await finding_of(broker.nameserver, "expiring", group="slow")
        broker.clock.ahead_ms = HOUR_MS
        assert admin._session is not None
        async with asyncio.timeout(WAIT_S_MAX):
            while not (await admin.topics.status("orders")).queues[0].first_offset:  # a segment that is not closed yet stays
                await admin._session.request_ok(broker.address, RequestCode.DELETE_EXPIRED_COMMITLOG)
        expired = await finding_of(broker.nameserver, "expired", group="slow")
    assert "has waited 1 h 40 min" in expiring.evidence
    assert "the broker keeps messages for 2 h" in expiring.evidence
    assert int(expired.evidence.split()[0]) > 10
