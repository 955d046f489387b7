"""A master and its slaves in this process, over real connections: the slave's log becomes the master's, byte for byte."""

from __future__ import annotations

import asyncio
import json
import struct
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from skyrocket.broker.broker import Broker
from skyrocket.broker.replication import ha_client
from skyrocket.broker.replication.ha_server import HaServer
from skyrocket.broker.replication.roles import BrokerRole
from skyrocket.broker.settings import BrokerSettings
from skyrocket.protocol.responses import ResponseCode
from tests.support.brokers.running_broker import SMALL, RunningBroker, records, running
from tests.support.ports import free_port
from tests.support.processes.certificates import Authority
from tests.support.stores.replicas import copy_log, log_bytes
from tests.support.stores.store_messages import START_MS, a_message, bodies, expire_oldest
from tests.support.waiting import WAIT_S_MAX

SLAVE = {"role": BrokerRole.SLAVE, "broker_id": 1}


async def until(is_so) -> None:
    async with asyncio.timeout(WAIT_S_MAX):
        while not is_so():  # noqa: ASYNC110 no event tells it
            await asyncio.sleep(0.01)


def is_equal(master: RunningBroker, slave: RunningBroker) -> bool:
    ours, theirs = slave.broker.store.log, master.broker.store.log
    return (ours.start, ours.end) == (theirs.start, theirs.end) and log_bytes(slave.broker.store) == log_bytes(
        master.broker.store
    )


@asynccontextmanager
async def slave_of(master: RunningBroker, path: Path, **changes):
    """A slave that was told its master as a nameserver tells it."""
    async with running(path, **SLAVE | changes) as slave:
        follow(slave, master)
        yield slave


def follow(slave: RunningBroker, master: RunningBroker) -> None:
    slave.broker.replication.set_master(master.broker.replication.announced_address(), master.address)


async def send_many(master: RunningBroker, count: int, size: int = 100, start: int = 0) -> list[int]:
    codes = []
    for number in range(start, start + count):
        answer = await master.send("orders", f"{number}/".encode().ljust(size, b"."), queue_id=number % 4)
        codes.append(answer.code)
    return codes


async def test_a_slave_gets_what_was_there_and_what_comes(tmp_path):
    async with running(tmp_path / "master") as master:
        await send_many(master, 20)
        async with slave_of(master, tmp_path / "slave") as slave:
            await until(lambda: is_equal(master, slave))
            await send_many(master, 20, 60_000)
            await until(lambda: is_equal(master, slave))
            assert [body[:3] for body in bodies(slave.broker.store)][:2] == [b"0/.", b"4/."], "its queues have them, too"
            await until(lambda: master.broker.replication.server.acknowledged() == [master.broker.store.log.end])


async def test_a_slave_that_was_away_goes_on_where_it_stopped(tmp_path):
    async with running(tmp_path / "master") as master:
        await send_many(master, 20)
        async with slave_of(master, tmp_path / "slave") as slave:
            await until(lambda: is_equal(master, slave))
        await send_many(master, 100, 60_000, start=20)
        async with slave_of(master, tmp_path / "slave") as slave:
            await until(lambda: is_equal(master, slave))
    assert not (tmp_path / "slave" / "store" / "diverged").exists()


async def test_a_master_that_was_restarted_reads_its_old_log_for_a_new_slave(tmp_path):
    async with running(tmp_path / "master") as master:
        await send_many(master, 150, 60_000)  # several files
        assert len(master.broker.store.log.segments.starts) > 2
    async with running(tmp_path / "master") as master, slave_of(master, tmp_path / "slave") as slave:
        await until(lambda: is_equal(master, slave))


async def test_a_new_slave_starts_at_the_first_file_that_the_master_still_has(tmp_path):
    async with running(tmp_path / "master") as master:
        await send_many(master, 150, 60_000)
        expire_oldest(master.broker.store)
        assert master.broker.store.log.start > 0
        async with slave_of(master, tmp_path / "slave") as slave:
            await until(lambda: is_equal(master, slave))


async def test_a_slave_whose_place_was_deleted_starts_at_the_master_s_first_file(tmp_path):
    async with running(tmp_path / "master") as master:
        await send_many(master, 20)
        async with slave_of(master, tmp_path / "slave") as slave:
            await until(lambda: is_equal(master, slave))
        await send_many(master, 150, 60_000)
        expire_oldest(master.broker.store)
        async with slave_of(master, tmp_path / "slave") as slave:
            await until(lambda: is_equal(master, slave))
            assert [p.name for p in (tmp_path / "slave" / "store" / "diverged").iterdir()] == ["1-00000000000000000000"]


async def test_a_slave_that_has_what_its_master_has_not_cuts_it_off_and_keeps_it(tmp_path, caplog):
    async with running(tmp_path / "master") as master:
        await send_many(master, 120, 60_000)
        async with slave_of(master, tmp_path / "slave") as slave:
            await until(lambda: is_equal(master, slave))
            common = master.broker.store.log.end
    async with running(tmp_path / "slave") as other:  # it was made a master, and took messages
        await send_many(other, 200, 50_000, start=900)
        cut = log_bytes(other.broker.store)[common:]
    async with running(tmp_path / "master") as master:
        await send_many(master, 30, 40_000, start=500)
        async with slave_of(master, tmp_path / "slave") as slave:
            await until(lambda: is_equal(master, slave))
            for queue_id in range(4):
                ours, theirs = (b.broker.store.queues.get("orders", queue_id) for b in (slave, master))
                assert ours.max_offset == theirs.max_offset
    kept = sorted((tmp_path / "slave" / "store" / "diverged").rglob("*"))
    assert b"".join(path.read_bytes() for path in kept if path.is_file()).rstrip(b"\0") == cut.rstrip(b"\0")
    assert f"differs from that of its master {master.address} from {common} on" in caplog.text


async def test_a_slave_whose_log_ends_with_a_blank_goes_on_without_a_cut(tmp_path):
    async with running(tmp_path / "master") as master:
        await send_many(master, 80, 60_000)  # into the second file
        border = master.broker.store.log.segments.segment_bytes
        async with running(tmp_path / "slave", **SLAVE) as slave:
            copy_log(master.broker.store, slave.broker.store, Random(1), until=border)
            assert slave.broker.store.log.end == border
            follow(slave, master)
            await until(lambda: is_equal(master, slave))
    assert not (tmp_path / "slave" / "store" / "diverged").exists()


async def test_an_empty_master_does_not_empty_its_slave(tmp_path, caplog):
    async with running(tmp_path / "one") as one:
        await send_many(one, 10)
    async with running(tmp_path / "empty") as master, slave_of(master, tmp_path / "one") as slave:
        await until(lambda: "Make this broker the master, or empty its store" in caplog.text)
        assert len(log_bytes(slave.broker.store)) > 0


async def test_several_slaves_copy_at_once(tmp_path):
    async with (
        running(tmp_path / "master") as master,
        slave_of(master, tmp_path / "a") as a,
        slave_of(master, tmp_path / "b", broker_id=2) as b,
        slave_of(master, tmp_path / "c", broker_id=3) as c,
    ):
        await send_many(master, 30, 20_000)
        for slave in (a, b, c):
            await until(lambda slave=slave: is_equal(master, slave))


async def test_a_slave_that_catches_up_appends_a_little_in_each_turn_of_its_event_loop(tmp_path):
    async with running(tmp_path / "master") as master:
        messages = [a_message("orders", number % 4, bytes(10_000), unique=f"U{number}") for number in range(100)]
        for _ in range(8):
            master.broker.store.append(messages, START_MS)
    async with running(tmp_path / "master") as master, running(tmp_path / "slave", **SLAVE) as slave:
        log, most, before = slave.broker.store.log, 0, 0
        follow(slave, master)
        while log.end < master.broker.store.log.end:
            await asyncio.sleep(0)
            most, before = max(most, log.end - before), log.end
        assert 0 < most < 2 * ha_client.READ_BYTES, "consumers have their turn"


async def test_a_slave_that_cannot_ask_its_master_copies_all_the_same_and_says_so(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(ha_client, "RETRY_S", 0.01)
    async with running(tmp_path / "master") as master:
        await send_many(master, 5)
        async with running(tmp_path / "slave", **SLAVE) as slave:
            nobody = f"127.0.0.1:{free_port()}"
            slave.broker.replication.set_master("nonsense")
            slave.broker.replication.set_master(master.broker.replication.announced_address(), nobody)
            await until(lambda: is_equal(master, slave))
    assert f"Master {nobody} does not answer" in caplog.text
    assert "does not know where the master's log starts" in caplog.text
    assert "HA address nonsense has no port" in caplog.text


# --- SYNC_MASTER


async def test_a_sync_master_answers_when_a_slave_has_the_message(tmp_path):
    async with running(tmp_path / "master", role=BrokerRole.SYNC_MASTER, slave_timeout_ms=60_000) as master:
        sending = asyncio.create_task(send_many(master, 1))
        await until(lambda: master.broker.store.log.end > 0)
        assert (await master.pull("orders", 0)).code != ResponseCode.SUCCESS, "no slave has it: no consumer sees it"
        async with slave_of(master, tmp_path / "slave") as slave:
            assert await sending == [ResponseCode.SUCCESS]
            assert slave.broker.store.log.end == master.broker.store.log.end
            assert set(await send_many(master, 30, 20_000)) == {ResponseCode.SUCCESS}
            assert slave.broker.store.log.end == master.broker.store.log.end
            assert len(records(await master.pull("orders", 0))) > 0


async def test_a_sync_master_waits_for_slaves_from_the_first_message_on(tmp_path, monkeypatch):
    """It takes messages before it listens for slaves."""
    listening = asyncio.Event()

    async def listen(server: HaServer, *given) -> int:
        await listening.wait()
        return await usual(server, *given)

    usual = HaServer.listen
    monkeypatch.setattr(HaServer, "listen", listen)
    settings = replace(SMALL, store_path=str(tmp_path), role=BrokerRole.SYNC_MASTER, slave_timeout_ms=100)
    broker = Broker(settings)
    starting = asyncio.create_task(broker.start())
    await until(lambda: broker.settings().port)
    client = RunningBroker(broker)
    sending = asyncio.create_task(client.send("orders", b"early"))
    await until(lambda: broker.store.log.end > 0)
    assert broker.store.horizon.confirmed == 0
    listening.set()
    await starting
    assert (await sending).code == ResponseCode.FLUSH_SLAVE_TIMEOUT
    await client.dialer.close()
    await broker.close()


async def test_a_sync_master_without_slaves_answers_flush_slave_timeout_with_the_message_id(tmp_path):
    async with running(tmp_path / "master", role=BrokerRole.SYNC_MASTER, slave_timeout_ms=300) as master:
        answer = await master.send("orders", b"alone")
        assert answer.code == ResponseCode.FLUSH_SLAVE_TIMEOUT
        assert answer.fields["msgId"]
        assert (await master.pull("orders", 0)).code != ResponseCode.SUCCESS
        async with slave_of(master, tmp_path / "slave") as slave:
            await until(lambda: is_equal(master, slave))
            await until(lambda: master.broker.store.horizon.confirmed == master.broker.store.log.end)
            assert [r.body for r in records(await master.pull("orders", 0))] == [b"alone"]


async def test_in_sync_replicas_says_how_many_copies_a_send_waits_for(tmp_path):
    changes = {"role": BrokerRole.SYNC_MASTER, "in_sync_replicas": 3, "slave_timeout_ms": 300}
    async with running(tmp_path / "master", **changes) as master, slave_of(master, tmp_path / "a") as a:
        assert await send_many(master, 1) == [ResponseCode.FLUSH_SLAVE_TIMEOUT]
        await until(lambda: is_equal(master, a))
        async with slave_of(master, tmp_path / "b", broker_id=2) as b:
            await until(lambda: is_equal(master, b))
            assert await send_many(master, 1, start=1) == [ResponseCode.SUCCESS]


async def test_in_sync_replicas_of_one_waits_for_nobody(tmp_path):
    async with running(tmp_path / "master", role=BrokerRole.SYNC_MASTER, in_sync_replicas=1) as master:
        assert await send_many(master, 1) == [ResponseCode.SUCCESS]


async def test_with_sync_flush_a_slave_acknowledges_what_is_on_its_disk(tmp_path):
    async with (
        running(tmp_path / "master", role=BrokerRole.SYNC_MASTER) as master,
        slave_of(master, tmp_path / "slave", sync_flush=True) as slave,
    ):
        assert set(await send_many(master, 20)) == {ResponseCode.SUCCESS}
        assert slave.broker.store.horizon.flushed == master.broker.store.log.end


# --- strangers


async def until_closed(reader: asyncio.StreamReader) -> None:
    async with asyncio.timeout(WAIT_S_MAX):
        with suppress(ConnectionError):
            while await reader.read(100_000):
                pass


async def dial(master: RunningBroker):
    host, _, port = master.broker.replication.announced_address().rpartition(":")
    return await asyncio.open_connection(host, int(port))


@pytest.mark.parametrize(
    ("reports", "why"),
    [
        ([-5], "reported -5, which is no position"),
        ([10**12], "it has the log up to 1000000000000, but this master only up to"),
        ([0, 10**9], "acknowledged the log up to 1000000000, but only"),
        ([0, 200, 100], "acknowledged the log up to 100, after 200"),
    ],
)
async def test_a_slave_that_lies_is_disconnected_with_one_sentence(tmp_path, caplog, reports, why):
    async with running(tmp_path / "master") as master:
        await send_many(master, 5)
        reader, writer = await dial(master)
        for report in reports:
            writer.write(struct.pack(">q", report))
            await asyncio.sleep(0.05)
        await until_closed(reader)
        assert why in caplog.text
        writer.close()


async def test_a_slave_that_does_not_read_holds_nothing_up(tmp_path):
    async with running(tmp_path / "master") as master:
        await send_many(master, 100, 60_000)
        _, writer = await dial(master)
        writer.write(struct.pack(">q", 0))
        await until(lambda: master.broker.replication.server.acknowledged() == [0])
        async with slave_of(master, tmp_path / "slave") as slave:
            await send_many(master, 100, 60_000)
            await until(lambda: is_equal(master, slave))
        (stuck,) = master.broker.replication.server.progress()
        assert stuck.next_offset < master.broker.store.log.end, "it is not read from the disk for a socket that is full"
        writer.close()


# --- between ours


async def test_master_and_slave_with_the_same_secret_trust_each_other(tmp_path, caplog):
    (tmp_path / "secret").write_text("s3cret\n")
    (tmp_path / "other").write_text("another")
    async with running(tmp_path / "master", ha_secret_path=str(tmp_path / "secret")) as master:
        await send_many(master, 5)
        async with slave_of(master, tmp_path / "slave", ha_secret_path=str(tmp_path / "secret")) as slave:
            await until(lambda: is_equal(master, slave))
        async with slave_of(master, tmp_path / "stranger", ha_secret_path=str(tmp_path / "other")) as slave:
            await until(lambda: "The master is not trusted" in caplog.text)
            assert slave.broker.store.log.end == 0
        reader, writer = await dial(master)
        writer.write(struct.pack(">q", 0))  # as Apache's slave does
        await until_closed(reader)
        assert "does not know the secret of haSecretPath" in caplog.text
        writer.close()


async def test_slaves_that_the_ha_port_refuses_are_in_the_audit_log(tmp_path):
    (tmp_path / "secret").write_text("s3cret\n")
    audit = tmp_path / "audit.log"
    async with running(tmp_path / "master", ha_secret_path=str(tmp_path / "secret"), audit_log_path=str(audit)) as master:
        reader, writer = await dial(master)
        writer.write(struct.pack(">q", 0))
        await until_closed(reader)
        host, port = writer.get_extra_info("sockname")
        writer.close()
    (line,) = [json.loads(text) for text in audit.read_text().splitlines()]
    assert (line["decision"], line["peer"], line["code"], line["request"]) == ("refused", f"{host}:{port}", None, "HA")
    assert "does not know the secret" in line["remark"]


async def test_a_slave_of_another_broker_is_refused(tmp_path, caplog):
    async with running(tmp_path / "master") as master:
        await send_many(master, 5)
        async with slave_of(master, tmp_path / "slave", broker_name="broker-b") as slave:
            await until(lambda: "it is a slave of broker-b in DefaultCluster, but this is broker-a" in caplog.text)
            assert slave.broker.store.log.end == 0


async def test_a_slave_with_other_segments_is_refused(tmp_path, caplog):
    async with running(tmp_path / "master") as master:
        await send_many(master, 5)
        async with slave_of(master, tmp_path / "slave", segment_bytes=1024 * 1024):
            await until(lambda: "its mappedFileSizeCommitLog is 1048576, but this master's is 4194304" in caplog.text)


async def test_master_and_slave_speak_tls(tmp_path):
    authority = Authority.make(tmp_path)
    own = authority.certificate("broker")
    master_tls = {"ha_tls": True, "tls_certificate": str(own.path), "tls_key": str(own.key), "tls_mode": "permissive"}
    assert BrokerSettings(tls_certificate=str(own.path), tls_key=str(own.key)).uses_ha_tls, "the default of a broker with TLS"
    async with running(tmp_path / "master", **master_tls) as master:
        await send_many(master, 5)
        async with slave_of(master, tmp_path / "slave", ha_tls=True, tls_client_trusted=str(authority.path)) as slave:
            await until(lambda: is_equal(master, slave))


async def test_a_slave_that_reconnects_keeps_what_its_sync_master_has_not_confirmed(tmp_path):
    """The slave has messages for which another slave is still missing: they are equal, and nothing is cut."""
    changes = {"role": BrokerRole.SYNC_MASTER, "in_sync_replicas": 3, "slave_timeout_ms": 100}
    async with running(tmp_path / "master", **changes) as master:
        async with slave_of(master, tmp_path / "slave") as slave:
            await send_many(master, 3)
            await until(lambda: is_equal(master, slave))
        assert master.broker.store.horizon.confirmed < master.broker.store.log.end
        async with slave_of(master, tmp_path / "slave") as slave:
            await send_many(master, 3)
            await until(lambda: is_equal(master, slave))
    assert not (tmp_path / "slave" / "store" / "diverged").exists()
