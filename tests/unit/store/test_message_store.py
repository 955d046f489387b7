"""The message store: appended messages become readable when they are confirmed, and not before."""

from __future__ import annotations

import errno
from dataclasses import replace
from pathlib import Path

import pytest

from skyrocket.protocol.message.record import decode_record
from skyrocket.protocol.sysflag import TRANSACTION_COMMIT, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK
from skyrocket.protocol.system_names import SCHEDULE_TOPIC
from skyrocket.store.config import StoreConfig
from skyrocket.store.errors import (
    DiskFullError,
    QueueNameError,
    StoreClosedError,
    StoreIOError,
    StoreLockedError,
    TooLargeError,
    WritesStoppedError,
)
from skyrocket.store.message_store import MessageStore
from skyrocket.store.queues.consume_queue import QueueEntry
from skyrocket.store.queues.consume_queues import ConsumeQueues, QueueKey
from tests.support.stores.simulated_disk import SimulatedDisk
from tests.support.stores.store_messages import (
    FOREVER_MS,
    ROOT,
    SMALL,
    START_MS,
    a_message,
    an_open_store,
    bodies,
    expire_oldest,
    numbered,
    numbers,
    read_queue,
)

SYNC = replace(SMALL, sync_flush=True)


def a_store(config: StoreConfig = SMALL) -> MessageStore:
    return an_open_store(SimulatedDisk(), config)


# --- appending


def test_append_assigns_queue_offsets_and_physical_offsets():
    store = a_store()
    placed = store.append([a_message("a"), a_message("b"), a_message("a"), a_message("a", 1)], START_MS)
    assert [place.queue_offset for place in placed] == [0, 0, 1, 0]
    assert [place.physical_offset for place in placed[1:]] == [p.physical_offset + p.size for p in placed[:-1]]


def test_empty_append_does_nothing():
    store = a_store()
    assert store.append([], START_MS) == []
    assert store.log.end == 0


def test_too_large_message_refuses_the_whole_append():
    store = a_store()
    with pytest.raises(TooLargeError, match="8192"):
        store.append([a_message(), a_message(body=bytes(9000))], START_MS)
    assert store.append([a_message()], START_MS)[0] == (0, 0, len(a_message().record))


def test_topic_that_cannot_be_a_directory_is_refused():
    store = a_store()
    with pytest.raises(QueueNameError):
        store.append([a_message(), a_message("../../etc")], START_MS)
    assert store.log.end == 0


def test_store_times_never_go_back():
    store = a_store()
    for now_ms in (START_MS, START_MS - 5000, START_MS + 1):
        store.append([a_message()], now_ms)
    assert [record.store_timestamp for record in read_queue(store)] == [START_MS, START_MS, START_MS + 1]
    store.close()


def test_store_times_do_not_go_back_after_a_restart():
    disk = SimulatedDisk()
    store = an_open_store(disk)
    store.append([a_message()], START_MS)
    store.close()
    again = an_open_store(disk)
    again.append([a_message()], START_MS - 60_000)
    assert [record.store_timestamp for record in read_queue(again)] == [START_MS, START_MS]


def test_time_of_the_oldest_message_is_read_once(monkeypatch: pytest.MonkeyPatch):
    store = a_store()
    assert store.reading.earliest_timestamp() == -1
    store.append([a_message()], START_MS + 5)
    assert store.reading.earliest_timestamp() == START_MS + 5
    monkeypatch.setattr(store.reading, "record_at", lambda _: pytest.fail("the disk is read again"))
    assert store.reading.earliest_timestamp() == START_MS + 5


def test_prepared_and_rolled_back_messages_are_in_no_queue():
    store = a_store()
    kinds = [TRANSACTION_PREPARED, 0, TRANSACTION_ROLLBACK, TRANSACTION_COMMIT]
    placed = store.append([a_message(body=b"%d" % kind, sys_flag=kind) for kind in kinds], START_MS)
    assert bodies(store) == [b"0", b"8"]
    assert [place.queue_offset for place in placed] == [0, 0, 0, 1]
    record = store.reading.record_at(placed[0].physical_offset)
    assert record is not None
    assert record.body == b"4"


def test_entry_of_a_delayed_message_has_its_delivery_time():
    store = a_store()
    store.append([a_message(SCHEDULE_TOPIC, 2, DELAY="3", tags="red")], START_MS)
    queue = store.queues.get(SCHEDULE_TOPIC, 2)
    assert queue is not None
    entry = queue.entry(0)
    assert isinstance(entry, QueueEntry)
    assert entry.tags_code == START_MS + 10_000


def test_take_grown_returns_each_queue_once():
    store = a_store()
    store.append([a_message("a"), a_message("b", 1), a_message("a")], START_MS)
    assert store.take_grown() == [QueueKey("a", 0), QueueKey("b", 1)]
    assert store.take_grown() == []


# --- the horizon


def test_with_sync_flush_a_message_is_not_readable_before_the_flush():
    store = a_store(SYNC)
    (placed,) = store.append([a_message(body=b"secret", keys="k")], START_MS)
    assert bodies(store) == []
    assert store.reading.view_at(placed.physical_offset) is None
    assert store.reading.query("orders", "k", 0, FOREVER_MS, 10) == []
    assert store.take_grown() == []
    store.flush()
    assert bodies(store) == [b"secret"]
    assert store.reading.view_at(placed.physical_offset) is not None
    assert len(store.reading.query("orders", "k", 0, FOREVER_MS, 10)) == 1
    assert store.take_grown() == [QueueKey("orders", 0)]


def test_append_during_a_flush_waits_for_the_next_flush():
    store = a_store(SYNC)
    store.append([a_message(body=b"one")], START_MS)
    job = store.begin_flush()
    assert job is not None
    store.append([a_message(body=b"two")], START_MS)
    job.run()
    store.finish_flush(job)
    assert bodies(store) == [b"one"]
    store.flush()
    assert bodies(store) == [b"one", b"two"]
    assert store.begin_flush() is None


@pytest.mark.parametrize("undispatched_max", [1, 2, 3, 7, 50, 1000])
@pytest.mark.parametrize("group", [1, 3, 10])
def test_messages_beyond_the_memory_bound_are_dispatched_from_the_log(undispatched_max: int, group: int):
    store = a_store(replace(SYNC, undispatched_max=undispatched_max))
    for first in range(0, 120, group):
        store.append(numbered(group, first=first), START_MS)
        if first % 7 == 3:
            store.flush()
            store.append(numbered(0), START_MS)
    store.flush()
    assert numbers(read_queue(store)) == list(range(120))
    assert store.reading.damaged_reads == 0


def test_a_replica_holds_messages_back_too():
    store = a_store()
    store.horizon.require("replica", 0)
    placed = store.append(numbered(10), START_MS)
    store.dispatch()
    assert bodies(store) == []
    store.horizon.reach("replica", placed[4].physical_offset + 3)  # in the middle of a record
    store.dispatch()
    assert numbers(read_queue(store)) == [0, 1, 2, 3]
    store.horizon.release("replica")
    store.dispatch()
    assert len(bodies(store)) == 10


# --- failing


def test_a_store_is_locked_while_it_is_open(tmp_path: Path):
    store = MessageStore(tmp_path, SMALL)
    store.open()
    with pytest.raises(StoreLockedError, match="Another process"):
        MessageStore(tmp_path, SMALL).open()
    store.append([a_message()], START_MS)
    store.close()
    again = MessageStore(tmp_path, SMALL)
    again.open()
    assert bodies(again) == [b"hello"]
    again.close()


def test_closed_store_refuses_appends():
    store = a_store()
    store.close()
    store.close()
    with pytest.raises(StoreClosedError):
        store.append([a_message()], START_MS)
    with pytest.raises(StoreClosedError):
        store.begin_flush()


def test_a_failed_flush_stops_writes_and_not_reads():
    disk = SimulatedDisk()
    store = an_open_store(disk)
    store.append([a_message(body=b"one")], START_MS)
    disk.fail("sync")
    with pytest.raises(WritesStoppedError, match="Input/output error"):
        store.flush()
    for attempt in (lambda: store.append([a_message()], START_MS), store.flush, store.checkpoint):
        with pytest.raises(WritesStoppedError):
            attempt()
    assert bodies(store) == [b"one"]
    store.close()
    assert disk.exists(f"{ROOT}/abort"), "the next start recovers as after a crash"


def test_queue_that_cannot_begin_blocks_appends_and_loses_nothing(monkeypatch: pytest.MonkeyPatch):
    """A queue whose first messages are gone writes its beginning at once, and may fail while messages are dispatched."""
    store = an_open_store(SimulatedDisk())
    append = ConsumeQueues._append

    def fail(_queues: ConsumeQueues, _key: tuple[str, int], _offset: int, _entries: bytes) -> None:
        raise DiskFullError("The disk is full.")

    monkeypatch.setattr(ConsumeQueues, "_append", fail)
    store.append([a_message(body=b"stored")], START_MS)
    assert bodies(store) == []
    with pytest.raises(DiskFullError):
        store.append([a_message(body=b"refused")], START_MS)
    monkeypatch.setattr(ConsumeQueues, "_append", append)
    store.append([a_message(body=b"next")], START_MS)
    assert bodies(store) == [b"stored", b"next"]


def test_failed_checkpoint_write_is_repeated_by_the_next_checkpoint():
    disk = SimulatedDisk()
    store = an_open_store(disk)
    store.append(numbered(3), START_MS)
    store.flush()
    disk.fail("replace", 1, errno.ENOSPC)
    with pytest.raises(DiskFullError):
        store.checkpoint()
    store.append(numbered(3, first=3), START_MS)
    store.checkpoint()
    store.close()
    assert numbers(read_queue(an_open_store(disk))) == list(range(6))


def test_a_read_that_fails_is_a_typed_error():
    disk = SimulatedDisk()
    store = an_open_store(disk)
    store.append(numbered(3), START_MS)
    store.checkpoint()
    disk.fail("read")
    with pytest.raises(StoreIOError):
        store.reading.messages("orders", 0, 0, 10)
    assert len(bodies(store)) == 3


# --- reading


def test_a_queue_is_read_by_count_by_bytes_and_by_tag():
    store = a_store()
    store.append([a_message(body=bytes(100), tags="red" if n % 3 else "blue") for n in range(9)], START_MS)
    assert len(store.reading.messages("orders", 0, 0, 4).records) == 4
    assert store.reading.messages("orders", 0, 0, 4).next_offset == 4
    few = store.reading.messages("orders", 0, 0, 9, bytes_max=500)
    assert 1 <= len(few.records) < 9
    assert few.next_offset == len(few.records)
    assert len(store.reading.messages("orders", 0, 0, 9, bytes_max=1).records) == 1, "one at least"
    blue = a_message(tags="blue").tags_code
    found = store.reading.messages("orders", 0, 0, 9, wanted=frozenset({blue}))
    assert [decode_record(view).queue_offset for view in found.records] == [0, 3, 6]
    assert found.next_offset == 9


def test_offsets_outside_a_queue_return_no_messages():
    store = a_store()
    store.append(numbered(3), START_MS)
    assert store.reading.messages("orders", 0, 3, 10) == ([], 3, 0, 3)
    assert store.reading.messages("orders", 0, 99, 10).records == []
    assert store.reading.messages("orders", 7, 0, 10) == ([], 0, 0, 0)
    assert store.reading.record_at(-1) is None
    assert store.reading.record_at(5) is None
    assert store.reading.record_at(store.log.end) is None


def test_a_search_by_time_over_many_damaged_messages_reads_few_of_them():
    store = an_open_store(disk := SimulatedDisk())
    for first in range(0, 2_000, 20):
        store.append(numbered(20, first=first, body_bytes=20), START_MS + first)
    for start in store.log.segments.starts[2:-1]:
        store.log.segments.file(start).write(0, bytes(8192))
    before = disk.counts["read"]
    assert 0 < store.reading.offset_by_time("orders", 0, START_MS + 1_000) < 2_000
    assert store.reading.offset_by_time("orders", 0, START_MS + 1_999) > 1_900
    assert disk.counts["read"] - before < 500


def test_the_offset_of_a_time_is_a_lower_or_an_upper_bound():
    store = a_store()
    for at_ms in (10, 20, 20, 30):
        store.append([a_message()], START_MS + at_ms)
    reading = store.reading
    lower = [reading.offset_by_time("orders", 0, START_MS + at) for at in (5, 10, 15, 20, 25, 30, 35)]
    upper = [reading.offset_by_time("orders", 0, START_MS + at, upper=True) for at in (5, 10, 15, 20, 25, 30, 35)]
    assert lower == [0, 0, 1, 1, 3, 3, 4]
    assert upper == [0, 0, 0, 2, 2, 3, 3]
    assert reading.store_timestamp_at("orders", 0, 2) == START_MS + 20
    assert reading.store_timestamp_at("orders", 0, 4) == -1
    assert reading.store_timestamp_at("none", 0, 0) == -1
    assert reading.offset_by_time("none", 0, START_MS) == 0


def test_record_view_stays_valid_after_its_file_expires():
    store = a_store()
    store.append(numbered(60, body_bytes=200), START_MS)
    found = store.reading.messages("orders", 0, 0, 1).records[0]
    start = expire_oldest(store)
    assert start == 8192
    assert decode_record(found).body.startswith(b"000000")
    queue = store.queues.get("orders", 0)
    assert queue is not None
    assert numbers(read_queue(store)) == list(range(queue.min_offset, 60))
    assert store.reading.record_at(0) is None
    store.append(numbered(1, first=60), START_MS)
    assert numbers(read_queue(store))[-1] == 60


def test_the_newest_segment_never_expires():
    store = a_store()
    store.append(numbered(3), START_MS)
    assert expire_oldest(store) == 0
    assert len(bodies(store)) == 3


def test_thousands_of_queues_need_few_open_files():
    disk = SimulatedDisk()
    store = an_open_store(disk, replace(SMALL, segment_bytes=1 << 20, open_files_max=8))
    for round_ in range(2):
        store.append([a_message(f"t{n}", body=b"%d" % round_) for n in range(2000)], START_MS)
    assert bodies(store, "t1234") == [b"0", b"1"]
    store.close()
    again = an_open_store(disk, replace(SMALL, segment_bytes=1 << 20, open_files_max=8))
    assert bodies(again, "t1999") == [b"0", b"1"]
