"""Which segments are deleted, by age and by disk space, and when writes are refused."""

from __future__ import annotations

import os
import struct
from itertools import pairwise
from pathlib import Path

import pytest

from skyrocket.protocol.hosts import pack_host
from skyrocket.protocol.message.record import Record
from skyrocket.protocol.sysflag import TRANSACTION_ROLLBACK
from skyrocket.store.config import StoreConfig
from skyrocket.store.errors import DiskFullError, StoreIOError
from skyrocket.store.files import Disk
from skyrocket.store.log.damage import make_fillers
from skyrocket.store.message import append_request_of
from skyrocket.store.message_store import MessageStore
from skyrocket.store.retention.retention_plan import SEGMENTS_AT_ONCE, plan_retention
from tests.support.stores.simulated_disk import SimulatedDisk

CONFIG = StoreConfig(reserved_hours=72, delete_at_hour=4, segment_bytes=4096, queue_entries_per_file=10)
HOUR_MS = 3_600_000
NOW_MS = 1_000 * HOUR_MS
OLD, YOUNG = NOW_MS - 72 * HOUR_MS, NOW_MS - 72 * HOUR_MS + 1


def removed(*stored: int, hour: int = 4, used: float = 50.0) -> int:
    return plan_retention(CONFIG, stored, NOW_MS, hour, used).remove


def test_expired_segments_are_deleted_at_the_configured_hour_only():
    assert removed(OLD, OLD, YOUNG) == 2
    assert removed(OLD, OLD, YOUNG, hour=3) == 0


def test_segments_behind_an_unexpired_one_are_kept():
    assert removed(YOUNG, OLD) == 0


def test_expired_segments_are_deleted_at_any_hour_above_the_first_level():
    assert removed(OLD, YOUNG, hour=12, used=75) == 1
    assert removed(OLD, YOUNG, hour=12, used=74.9) == 0


def test_oldest_segments_are_deleted_above_the_second_level():
    assert removed(YOUNG, YOUNG, hour=12, used=85) == 2


def test_one_round_deletes_a_limited_number_of_segments():
    assert removed(*[OLD] * 50) == removed(*[YOUNG] * 50, used=86) == SEGMENTS_AT_ONCE


@pytest.mark.parametrize(("used", "refused"), [(89.9, False), (90, True)])
def test_above_the_warning_level_writes_are_refused(used: float, refused: bool):
    assert plan_retention(CONFIG, [], NOW_MS, 0, used).refuse_writes is refused


def test_levels_outside_10_to_95_are_refused():
    with pytest.raises(ValueError, match="96 % is outside 10 to 95"):
        StoreConfig(disk_warning_percent=96)
    with pytest.raises(ValueError, match="9 % is outside 10 to 95"):
        StoreConfig(disk_max_used_percent=9)


class FillableDisk(Disk):
    used = 50.0

    def used_percent(self, path: str) -> float:
        return self.used


def message(number: int):
    return append_request_of(Record("orders", b"x" * 300, properties=f"KEYS\x01k{number}\x02".encode()))


@pytest.fixture
def store(tmp_path):
    store = MessageStore(tmp_path / "store", CONFIG, files=FillableDisk())
    store.open()
    for number in range(40):
        store.append([message(number)], now_ms=number * HOUR_MS)
    store.flush()
    store.checkpoint()
    yield store
    store.close()


def test_log_queues_and_index_lose_the_same_messages(store: MessageStore, tmp_path):
    assert store.retention.run(EXPIRED_MS, hour=4).remove > 0
    queue = store.queues.get("orders", 0)
    assert queue is not None
    first = store.reading.messages("orders", 0, 0, 1)
    assert 0 < queue.min_offset <= 24
    assert first.next_offset == queue.min_offset + 1
    assert len(first.records) == 1
    assert store.reading.query("orders", "k0", 0, 2**62, 10) == []
    assert len(store.reading.query("orders", f"k{queue.min_offset}", 0, 2**62, 10)) == 1
    assert min(int(path.name) for path in (tmp_path / "store/commitlog").iterdir()) == store.log.start
    assert min(int(path.name) for path in (tmp_path / "store/consumequeue/orders/0").iterdir()) > 0


def test_messages_expire_before_their_queue_entries_are_written(tmp_path):
    store = MessageStore(tmp_path / "store", CONFIG, files=FillableDisk())
    store.open()
    for number in range(40):
        store.append([message(number)], now_ms=number * HOUR_MS)
    store.flush()
    assert store.retention.run(EXPIRED_MS, hour=4).remove > 0
    queue = store.queues.get("orders", 0)
    assert queue is not None
    first, second = queue.min_offset, store.reading.messages("orders", 0, 0, 1)
    assert 0 < first <= 24
    assert (len(second.records), second.next_offset) == (1, first + 1)
    assert not Path(store.paths.consume_queues).exists()
    store.close()
    again = MessageStore(tmp_path / "store", CONFIG, files=FillableDisk())
    assert not again.open().after_crash
    reopened = again.queues.get("orders", 0)
    assert reopened is not None
    assert (reopened.min_offset, reopened.max_offset) == (first, 40)
    again.close()


EXPIRED_MS = 39 * HOUR_MS + 72 * HOUR_MS - 15 * HOUR_MS  # the first 24 messages are 72 hours old, or nearly


def overwrite(store: MessageStore, offset: int, data: bytes) -> None:
    start = store.log.segments.start_of(offset)
    assert start is not None
    store.log.segments.file(start).write(offset - start, data)


def heads(store: MessageStore) -> list[tuple[int, int]]:
    """Return the offset and size of the first record of each segment but the first."""
    return [(start, int.from_bytes(store.log.segments.file(start).read(0, 4))) for start in store.log.segments.starts[1:]]


def test_a_damaged_record_at_the_start_of_each_segment_does_not_stop_retention(store: MessageStore):
    undamaged = store.retention.begin(EXPIRED_MS, 4)
    undamaged.run()
    for offset, _ in heads(store):
        overwrite(store, offset + 100, b"damaged")
    assert store.retention.run(EXPIRED_MS, hour=4).remove == undamaged.plan.remove > 0


def test_a_filler_at_the_start_of_a_segment_does_not_stop_retention(store: MessageStore):
    for offset, size in heads(store):
        overwrite(store, offset, make_fillers(offset, size, 0))
    assert store.retention.run(EXPIRED_MS, hour=4).remove > 0
    assert store.log.start < 24 * 400, "the time of a filler does not count: it may be 0"


def test_a_message_of_a_stranger_that_resembles_a_filler_does_not_stop_retention(tmp_path):
    store = MessageStore(tmp_path / "store", CONFIG, files=FillableDisk())
    store.open()
    host = pack_host("127.0.0.1", 10911)
    for number in range(40):
        sent = Record("r", b"x" * 300, sys_flag=TRANSACTION_ROLLBACK, store_host=host)
        store.append([append_request_of(sent)], now_ms=number * HOUR_MS)
    store.flush()
    assert store.reading.record_at(store.log.segments.starts[1]) is not None
    assert store.retention.run(EXPIRED_MS, hour=4).remove > 0
    store.close()


def test_where_no_message_can_be_read_the_time_of_the_file_counts(store: MessageStore):
    starts = store.log.segments.starts
    overwrite(store, starts[1], bytes(4096))
    os.utime(store.log.segments.path(0), ns=(0, 1_000 * HOUR_MS * 1_000_000))
    assert store.retention.run(1_000 * HOUR_MS + 71 * HOUR_MS, hour=4).remove == 0
    assert store.retention.run(1_000 * HOUR_MS + 72 * HOUR_MS, hour=4).remove > 0


@pytest.mark.parametrize("stored_ms", [0, 2**62])
def test_one_wrong_store_time_neither_deletes_a_segment_early_nor_keeps_it(store: MessageStore, stored_ms: int):
    undamaged = store.retention.begin(EXPIRED_MS, 4)
    undamaged.run()
    for offset, _ in heads(store):
        overwrite(store, offset + 56, struct.pack(">q", stored_ms))
    damaged = store.retention.begin(EXPIRED_MS + 10 * HOUR_MS, 4)  # the next messages are up to ten hours younger
    damaged.run()
    assert undamaged.plan.remove <= damaged.plan.remove <= undamaged.plan.remove + 1


def test_each_segment_is_examined_once_and_ten_at_most():
    disk = SimulatedDisk()
    store = MessageStore("store", CONFIG, files=disk)
    store.open()
    for number in range(300):
        store.append([message(number)], now_ms=number * HOUR_MS)
    store.flush()
    assert len(store.log.segments.starts) > 20
    before = disk.counts["open"]
    store.retention.run(0, hour=4)
    assert disk.counts["open"] - before <= SEGMENTS_AT_ONCE
    before = disk.counts["open"]
    store.retention.run(0, hour=4)
    assert disk.counts["open"] == before
    store.close()


def test_what_cannot_be_deleted_is_deleted_later_and_leaves_no_gap():
    disk = SimulatedDisk()
    store = MessageStore("store", CONFIG, files=disk)
    store.open()
    for number in range(100):
        store.append([message(number)], now_ms=number * HOUR_MS)
    store.flush()
    disk.used = 95.0
    disk.fail("remove", 3)
    with pytest.raises(StoreIOError, match="removing the expired file"):
        store.retention.run(0, hour=12)
    starts = [int(name) for name in disk.names("store/commitlog")]
    assert [b - a for a, b in pairwise(starts)] == [4096] * (len(starts) - 1)
    store.expired_files.remove_all()
    assert int(disk.names("store/commitlog")[0]) == store.log.start
    store.close()


def test_segment_being_written_is_never_deleted(store: MessageStore):
    store._files.used = 95.0
    for _ in range(20):
        store.retention.run(0, hour=12)
    assert len(store.log.segments.starts) == 1
    assert store.reading.messages("orders", 0, 39, 1).records


def test_writes_are_refused_while_the_disk_is_too_full_and_resume_when_it_is_not(store: MessageStore):
    store._files.used = 91.0
    store.retention.run(0, hour=12)
    with pytest.raises(DiskFullError, match="91 % full"):
        store.append([message(99)], now_ms=0)
    assert store.reading.messages("orders", 0, 39, 1).records
    store._files.used = 50.0
    store.retention.run(0, hour=12)
    assert store.append([message(99)], now_ms=0)[0].queue_offset == 40


def test_view_of_a_deleted_segment_stays_valid(store: MessageStore):
    held = store.reading.messages("orders", 0, 0, 5).records
    before = [bytes(view) for view in held]
    store._files.used = 95.0
    store.retention.run(0, hour=12)
    assert store.log.start > 0
    assert [bytes(view) for view in held] == before


def test_deleted_messages_stay_deleted_after_reopening(store: MessageStore, tmp_path):
    store._files.used = 95.0
    store.retention.run(0, hour=12)
    queue = store.queues.get("orders", 0)
    assert queue is not None
    least = queue.min_offset
    store.close()
    again = MessageStore(tmp_path / "store", CONFIG, files=FillableDisk())
    assert not again.open().after_crash
    reopened = again.queues.get("orders", 0)
    assert reopened is not None
    assert (reopened.min_offset, reopened.max_offset) == (least, 40)
    again.close()
