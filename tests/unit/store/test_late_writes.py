"""Late writes: an append writes the log only. What queues, index and checksums get later is never lost or claimed too early."""

from __future__ import annotations

import errno
from random import Random

import pytest

from skyrocket.store import late_writes
from skyrocket.store.errors import DiskFullError
from tests.support.stores.simulated_disk import SimulatedDisk
from tests.support.stores.store_messages import FOREVER_MS, START_MS, a_message, an_open_store, bodies, numbered, read_queue


@pytest.mark.parametrize(("kind", "nth"), [("write", 1), ("write", 2), ("write", 3), ("create", 1), ("create", 2), ("create", 3)])
def test_what_cannot_be_written_late_blocks_appends_and_loses_nothing(kind: str, nth: int):
    """Checksums, index and queues are written in this order, each with its file."""
    disk = SimulatedDisk()
    store = an_open_store(disk)
    store.append([a_message(body=b"stored", keys="k")], START_MS)
    disk.fail(kind, nth, errno.ENOSPC, lasting=True)
    with pytest.raises(DiskFullError):
        store.checkpoint()
    assert bodies(store) == [b"stored"], "it is acknowledged and visible"
    assert len(store.reading.query("orders", "k", 0, FOREVER_MS, 10)) == 1
    with pytest.raises(DiskFullError):
        store.append([a_message(body=b"refused")], START_MS)
    killed = an_open_store(disk.copy().kill())
    assert bodies(killed) == [b"stored"]
    assert len(killed.reading.query("orders", "k", 0, FOREVER_MS, 10)) == 1
    disk.heal()
    store.append([a_message(body=b"next")], START_MS)
    assert bodies(store) == [b"stored", b"next"]
    store.close()
    assert bodies(an_open_store(disk)) == [b"stored", b"next"]


def test_an_append_is_one_write():
    store = an_open_store(disk := SimulatedDisk())
    store.append(numbered(3), START_MS)
    before = disk.counts.copy()
    for number in range(50):
        store.append([a_message(body=b"x", queue_id=number % 8, keys="k")], START_MS)
    assert disk.counts["write"] - before["write"] == 50
    assert disk.counts["create"] == before["create"]
    assert disk.counts["read"] == before["read"]


def test_memory_for_late_writes_is_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(late_writes, "QUEUES_LATE_BYTES_MAX", 400)
    monkeypatch.setattr(late_writes, "INDEX_LATE_BYTES_MAX", 300)
    monkeypatch.setattr(late_writes, "CHECKSUMS_LATE_BYTES_MAX", 100)
    monkeypatch.setattr(late_writes, "QUEUES_AT_ONCE", 4)
    store = an_open_store(SimulatedDisk())
    assert store.index is not None
    for number in range(100):
        store.append([a_message(body=b"%d" % number, queue_id=number % 40, keys="k")], START_MS)
        assert store.queues.late_bytes < 400
        assert len(store.index.late) < 300
        assert store._checksums.late_bytes < 100
    assert len(store.reading.query("orders", "k", 0, FOREVER_MS, 1000)) == 100
    assert sum(len(read_queue(store, queue_id=queue_id)) for queue_id in range(40)) == 100


def test_a_checkpoint_claims_what_was_written_when_its_round_began(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(late_writes, "QUEUES_AT_ONCE", 4)
    store = an_open_store(disk := SimulatedDisk())
    store.append([a_message(body=b"%d" % n, queue_id=n) for n in range(10)], START_MS)
    store.flush()
    mark, steps = store.log.end, 0
    while not store.write_late():
        steps += 1
        store.append([a_message(body=b"later", queue_id=9 + steps)], START_MS)
        store.flush()
    assert steps == 2
    job = store.begin_checkpoint()
    job.run()
    store.finish_checkpoint(job)
    assert (job.checkpoint.dispatch_end, job.checkpoint.queue_count, job.checkpoint.entry_count) == (mark, 10, 10)
    assert job.checkpoint.safe_end == store.log.end
    lost = an_open_store(disk.crash(Random(1)))
    assert sum(len(read_queue(lost, queue_id=queue_id)) for queue_id in range(12)) == 12


def test_a_checkpoint_counts_no_queue_of_a_topic_deleted_during_its_round(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(late_writes, "QUEUES_AT_ONCE", 1)
    store = an_open_store(disk := SimulatedDisk())
    store.append([a_message(topic=topic, body=b"1") for topic in ("kept", "gone", "also")], START_MS)
    store.flush()
    assert not store.write_late()
    store.delete_topic("gone")()
    while not store.write_late():
        pass
    job = store.begin_checkpoint()
    job.run()
    store.finish_checkpoint(job)
    store.expired_files.remove_all()
    assert (job.checkpoint.queue_count, job.checkpoint.entry_count) == (2, 2)
    again = an_open_store(disk.kill())
    assert sorted(key.topic for key, _ in again.queues) == ["also", "kept"]
