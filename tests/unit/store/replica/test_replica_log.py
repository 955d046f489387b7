"""The log of a slave: the same files as the master's, and what the master does not have is cut off and kept."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from itertools import count
from random import Random

import pytest

from skyrocket.store.errors import DiskFullError, ReplicaDataError
from skyrocket.store.replica.record_splitter import RecordSplitter
from tests.support.stores.replicas import copy_log, cut_log, log_bytes, reader_of
from tests.support.stores.simulated_disk import PowerCut, SimulatedDisk
from tests.support.stores.store_messages import (
    SMALL,
    START_MS,
    a_message,
    an_open_store,
    bodies,
    expire_oldest,
    random_messages,
    read_queue,
)

SYNC = replace(SMALL, sync_flush=True)


def fill(store, seed=1, appends=30, now_ms=START_MS):
    rng, serial = Random(seed), count(seed * 100_000)
    for number in range(appends):
        store.append(random_messages(rng, serial, rng.randint(1, 4)), now_ms + number)


def queue_files(disk):
    return {path: bytes(node.content) for path, node in disk.nodes.items() if "/consumequeue/" in path}


@pytest.mark.parametrize("seed", range(8))
def test_a_slave_has_the_same_log_queues_and_index(seed):
    disk, copy = SimulatedDisk(), SimulatedDisk()
    master, slave = an_open_store(disk), an_open_store(copy)
    fill(master, seed)
    copy_log(master, slave, Random(seed))
    assert log_bytes(slave) == log_bytes(master)
    assert slave.last_timestamp == master.last_timestamp
    for topic, queue_id in [key for key, _ in master.queues]:
        assert read_queue(slave, topic, queue_id) == read_queue(master, topic, queue_id)
    for store in (master, slave):
        store.close()
    assert queue_files(copy) == queue_files(disk)
    recovered = an_open_store(copy)
    assert recovered.log.end == master.log.end


def test_a_slave_whose_master_has_deleted_files_starts_at_its_first_one():
    master, slave = an_open_store(SimulatedDisk()), an_open_store(SimulatedDisk())
    fill(master, appends=60)
    master.flush()
    expire_oldest(master)
    assert master.log.start == SMALL.segment_bytes
    copy_log(master, slave, Random(1))
    assert slave.log.start == master.log.start
    assert log_bytes(slave) == log_bytes(master)
    assert bodies(slave, "t", 1) == bodies(master, "t", 1)


def test_with_sync_flush_what_was_copied_is_readable_when_it_is_on_disk():
    master, slave = an_open_store(SimulatedDisk()), an_open_store(SimulatedDisk(), SYNC)
    master.append([a_message(body=b"copied")], START_MS)
    copy_log(master, slave, Random(1))
    assert bodies(slave) == []
    assert slave.horizon.confirmed == 0
    slave.flush()
    assert bodies(slave) == [b"copied"]
    assert slave.horizon.confirmed == slave.log.end


def test_bytes_for_another_place_than_the_end_are_refused():
    master, slave = an_open_store(SimulatedDisk()), an_open_store(SimulatedDisk())
    master.append([a_message()], START_MS)
    (run,) = RecordSplitter(SMALL.segment_bytes, 0).feed(log_bytes(master))
    slave.replica.append(run)
    with pytest.raises(ReplicaDataError, match=f"at 0, but the log ends at {slave.log.end}"):
        slave.replica.append(run)


def test_a_full_disk_stores_nothing_and_the_same_bytes_can_come_again():
    disk = SimulatedDisk()
    master, slave = an_open_store(SimulatedDisk()), an_open_store(disk)
    fill(master, appends=3)
    copy_log(master, slave, Random(1))
    fill(master, seed=2, appends=3)
    disk.fail("write", number=28)
    end = slave.log.end
    with pytest.raises(DiskFullError):
        copy_log(master, slave, Random(1))
    assert slave.log.end == end
    copy_log(master, slave, Random(1))
    assert log_bytes(slave) == log_bytes(master)


# --- cutting


def diverge(seed):
    """A master and a slave that shared the first part of their logs, and have then written something else each."""
    disk = SimulatedDisk()
    master, slave = an_open_store(SimulatedDisk()), an_open_store(disk)
    fill(master, seed, appends=20)
    copy_log(master, slave, Random(seed))
    common = slave.log.end
    fill(slave, seed + 50, appends=Random(seed).choice((1, 5, 40)), now_ms=START_MS + 1_000)
    fill(master, seed + 90, appends=20, now_ms=START_MS + 2_000)
    return master, slave, disk, common


@pytest.mark.parametrize("seed", range(8))
def test_a_diverged_tail_is_cut_and_kept_and_the_slave_becomes_equal(seed):
    master, slave, disk, common = diverge(seed)
    before = log_bytes(slave)
    kept_in = cut_log(slave, common)
    kept = b"".join(bytes(disk.nodes[path].content) for path in sorted(disk.nodes) if path.startswith(kept_in))
    assert slave.log.end == slave.horizon.appended == slave.horizon.confirmed == common
    assert kept.rstrip(b"\0") == before[common:].rstrip(b"\0")
    copy_log(master, slave, Random(seed))
    assert log_bytes(slave) == log_bytes(master)
    for topic, queue_id in [key for key, _ in master.queues]:
        assert read_queue(slave, topic, queue_id) == read_queue(master, topic, queue_id)
    slave.close()
    slave = an_open_store(disk)
    assert log_bytes(slave) == log_bytes(master)
    for topic, queue_id in [key for key, _ in master.queues]:
        assert read_queue(slave, topic, queue_id) == read_queue(master, topic, queue_id)


def test_a_log_that_is_cut_off_whole_starts_again_where_the_master_does():
    master, slave = an_open_store(SimulatedDisk()), an_open_store(SimulatedDisk())
    fill(slave, 1, appends=40)
    fill(master, 2, appends=60)
    master.flush()
    expire_oldest(master)
    cut_log(slave, slave.log.start)
    assert (slave.log.start, slave.log.end, slave.log.segments.starts) == (0, 0, [])
    assert [queue.max_offset for _, queue in slave.queues] == []
    copy_log(master, slave, Random(1))
    assert log_bytes(slave) == log_bytes(master)
    assert bodies(slave, "t", 0) == bodies(master, "t", 0)


@pytest.mark.parametrize("seed", range(25))
def test_a_power_failure_during_a_cut_loses_nothing_before_it_and_the_slave_becomes_equal(seed):
    master, slave, disk, common = diverge(seed % 5)
    before = log_bytes(slave)
    slave.flush()
    disk.cut_power_at(Random(seed).randint(1, 60))
    with suppress(PowerCut):
        cut_log(slave, common)
    disk = disk.crash(Random(seed))
    slave = an_open_store(disk)
    assert log_bytes(slave)[:common] == before[:common]
    if slave.log.end > common:
        cut_log(slave, common)
    copy_log(master, slave, Random(seed))
    assert log_bytes(slave) == log_bytes(master)
    for topic, queue_id in [key for key, _ in master.queues]:
        assert read_queue(slave, topic, queue_id) == read_queue(master, topic, queue_id)


# --- reading for slaves


def test_recent_bytes_are_read_at_once_and_older_ones_by_a_job():
    disk = SimulatedDisk()
    store = an_open_store(disk)
    fill(store, appends=10)
    end = store.log.end
    reader = reader_of(store)
    assert reader.read_now(0, 100) == log_bytes(store)[:100]
    store.close()
    store = an_open_store(disk)
    reader = reader_of(store)
    fill(store, 2, appends=1)
    assert reader.read_now(0, 100) is None
    assert reader.read_job(0, 100)() == log_bytes(store)[:100]
    assert reader.read_now(end, 50) == log_bytes(store)[end : end + 50]


def test_records_of_a_segment_are_listed_by_their_places():
    store = an_open_store(SimulatedDisk())
    fill(store, appends=60)
    reader = reader_of(store)
    spans = [span for start in store.log.segments.starts for span in reader.spans_job(start)()]
    assert len(spans) > 20
    assert all(store.reading.view_at(span.offset) is not None for span in spans)
    assert [span.offset for span in reader.first_spans()()] == store.log.segments.starts
