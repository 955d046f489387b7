"""A store directory is read as it was written, also while a broker has it open, and is never changed."""

from __future__ import annotations

import shutil
import struct
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from skyrocket.protocol.message.record import Record, encode_record
from skyrocket.store.config import StoreConfig
from skyrocket.store.errors import StoreFormatError
from skyrocket.store.log.scan import DamagedRange, FoundRecord, LogEnd
from skyrocket.store.message import append_request_of
from skyrocket.store.message_store import MessageStore
from skyrocket.store.offline.offline_index import IndexSizes
from skyrocket.store.offline.offline_store import OfflineStore, properties_of
from tests.support.stores.sample_stores import (
    NOW_MS,
    SMALL,
    fingerprint,
    flip,
    overwrite,
    sample_record,
    sample_store,
    write_store,
)
from tests.support.stores.store_messages import expire_oldest

COUNT = 150


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sample_store(tmp_path_factory.mktemp("store"), COUNT)


@pytest.fixture
def store(untouched: Path) -> Iterator[OfflineStore]:
    with OfflineStore(untouched) as opened:
        yield opened


@pytest.fixture
def copy(untouched: Path, tmp_path: Path) -> Path:
    return shutil.copytree(untouched, tmp_path / "copy")


def segment(directory: Path, offset: int) -> tuple[Path, int]:
    start = offset - offset % SMALL.segment_bytes
    return directory / "commitlog" / f"{start:020d}", offset - start


def like(found: FoundRecord) -> tuple[str, bytes, bytes, int]:
    record = found.record
    return record.topic, record.body, record.properties, record.flag


# --- what is there


def test_all_messages_come_in_order_across_segments(store: OfflineStore):
    found = list(store.records())
    assert len(store.log.starts) > 3
    assert [each.record.flag for each in found] == list(range(COUNT))
    for each, sent in zip(found, map(sample_record, range(COUNT)), strict=True):
        assert like(each) == (sent.topic, sent.body, sent.properties, sent.flag)
        assert (each.record.born_host, each.record.store_host, each.record.magic) == (sent.born_host, sent.store_host, sent.magic)


def test_the_last_item_is_the_end_of_the_log(store: OfflineStore):
    *_, last, end = store.items()
    assert isinstance(last, FoundRecord)
    assert end == LogEnd(last.offset + last.size)


def test_offset_between_records_starts_at_the_next_record(store: OfflineStore):
    found = list(store.records())
    for earlier, later in pairwise(found[:40]):
        assert next(store.records(earlier.offset)) == earlier
        assert next(store.records(earlier.offset + 1)) == later
        assert next(store.records(later.offset - 1)) == later
    assert list(store.records(found[-1].offset + 1)) == []
    assert list(store.records(10**12)) == []


def test_records_since_begins_with_the_first_message_at_that_time(store: OfflineStore):
    found = list(store.records())
    for timestamp in (
        0,
        NOW_MS,
        NOW_MS + 1,
        NOW_MS + 7000,
        found[-1].record.store_timestamp,
        found[-1].record.store_timestamp + 1,
    ):
        expected = [each for each in found if each.record.store_timestamp >= timestamp]
        assert list(store.records_since(timestamp)) == expected


def test_queues_have_their_ranges_and_messages(store: OfflineStore):
    found = [each for each in store.records() if each.record.sys_flag & 0xC == 0]
    assert sorted({queue.topic for queue in store.queues()}) == ["topic-0", "topic-1", "topic-2"]
    for topic, queue, low, high in store.queues():
        expected = [each for each in found if (each.record.topic, each.record.queue_id) == (topic, queue)]
        assert (low, high) == (0, len(expected))
        assert list(store.queue_records(topic, queue)) == expected
        assert list(store.queue_records(topic, queue, 7)) == expected[7:]
    assert list(store.queue_records("topic-0", 9)) == []
    assert list(store.queue_records("../commitlog", 0)) == []


def test_a_queue_is_searched_by_time(store: OfflineStore):
    found = list(store.queue_records("topic-1", 0))
    for each in found:
        timestamp = each.record.store_timestamp
        assert store.queue_offset_since("topic-1", 0, timestamp) == min(
            other.record.queue_offset for other in found if other.record.store_timestamp >= timestamp
        )
    assert store.queue_offset_since("topic-1", 0, NOW_MS * 2) == len(found)


def test_query_returns_messages_that_have_the_key(store: OfflineStore):
    found = list(store.records())
    for key in ("key-5", "shared-1", "7F000001" + f"{12:024X}", "key", "shared-9"):
        for topic in ("topic-0", "topic-1", "topic-2"):
            expected = [each for each in found if each.record.topic == topic and carries(each, key)]
            assert list(store.query(topic, key)) == expected[::-1]


def test_query_respects_the_time_range(store: OfflineStore):
    begin, end = NOW_MS + 3_000, NOW_MS + 9_000
    found = [each for each in store.records() if each.record.topic == "topic-1" and carries(each, "shared-1")]
    expected = [each for each in found if begin <= each.record.store_timestamp <= end]
    assert 0 < len(expected) < len(found)
    assert list(store.query("topic-1", "shared-1", begin, end)) == expected[::-1]


def carries(found: FoundRecord, key: str) -> bool:
    properties = properties_of(found.record)
    return key in (properties.get("UNIQ_KEY"), *properties.get("KEYS", "").split())


@pytest.mark.parametrize(("slots", "entries"), [(100, 400), (7, 1000), (1000, 50), (13, 27)])
def test_the_sizes_of_the_index_are_told_from_its_content(tmp_path: Path, slots: int, entries: int):
    config = StoreConfig(segment_bytes=65536, queue_entries_per_file=100, index_slots=slots, index_entries=entries)
    write_store(tmp_path, map(sample_record, range(1, 60)), config)
    with OfflineStore(tmp_path) as store:
        opened = [store.index.open(name) for name in store.index.names()]
        assert [each.sizes for each in opened if each] == [IndexSizes(slots, entries)] * len(opened)
        assert len(list(store.query("topic-1", "key-25"))) == 1


def test_files_that_have_expired_are_no_gap(tmp_path: Path):
    store = write_store(tmp_path, map(sample_record, range(COUNT)), close=False)
    before = list(OfflineStore(tmp_path).records())
    start = expire_oldest(store)
    store.close()
    with OfflineStore(tmp_path) as offline:
        kept = [each for each in before if each.offset >= start]
        assert list(offline.records()) == kept
        queued = [each for each in kept if each.record.sys_flag & 0xC == 0]
        for topic, queue, low, high in offline.queues():
            expected = [e.record.queue_offset for e in queued if (e.record.topic, e.record.queue_id) == (topic, queue)]
            assert list(range(low, high)) == expected
            assert [e.record.queue_offset for e in offline.queue_records(topic, queue)] == expected


# --- nothing is changed


def test_reading_changes_nothing(copy: Path):
    before = fingerprint(copy)
    with OfflineStore(copy) as store:
        list(store.records())
        list(store.query("topic-1", "key-1"))
        for topic, queue, *_ in store.queues():
            list(store.queue_records(topic, queue))
    assert fingerprint(copy) == before


def test_directory_that_is_not_a_store_is_refused(tmp_path: Path):
    with pytest.raises(StoreFormatError, match="is not a store"):
        OfflineStore(tmp_path)
    with pytest.raises(StoreFormatError, match="is not a store"):
        OfflineStore(tmp_path / "nowhere")
    assert list(tmp_path.iterdir()) == []


def test_empty_log_yields_only_its_end(tmp_path: Path):
    (tmp_path / "commitlog").mkdir()
    with OfflineStore(tmp_path) as store:
        assert list(store.items()) == [LogEnd(0)]
        assert store.queues() == []
        assert list(store.query("t", "k")) == []


# --- while a broker writes


def test_a_store_is_read_while_it_is_open_and_grows(tmp_path: Path):
    store = write_store(tmp_path, map(sample_record, range(20)), close=False)
    offline = OfflineStore(tmp_path)
    assert offline.is_open
    assert len(list(offline.records())) == 20
    store.append([append_request_of(sample_record(number)) for number in range(20, 120)], NOW_MS + 100_000)
    assert [each.record.flag for each in offline.records()] == list(range(120))
    assert [each.record.flag for each in offline.query("topic-2", "key-101")] == [101]
    assert [each.record.flag for each in offline.queue_records("topic-1", 1, 3)][-1] == 115
    store.close()


@pytest.mark.parametrize("written", [0, 20, 70])
def test_what_is_not_yet_in_queues_and_index_comes_from_the_log(tmp_path: Path, written: int):
    """A broker runs, or was killed, before it wrote the queue entries and index keys of its last messages."""
    store = write_store(tmp_path, map(sample_record, range(0)), close=False)
    requests = [append_request_of(sample_record(number)) for number in range(120)]
    for number, request in enumerate(requests):
        if number == written:
            store.flush()
            store.checkpoint()
        store.append([request], NOW_MS + number * 1000)
    store.flush()
    with OfflineStore(tmp_path) as late:
        assert not written or late.checkpoint.dispatch_end
        early = _answers(late)
    store.close()
    with OfflineStore(tmp_path) as closed:
        assert not closed.is_open
        assert early == _answers(closed)
        assert len(closed.queues()) > 3


def _answers(store: OfflineStore) -> list[object]:
    """What a store answers to each way of reading it."""
    ranges = store.queues()
    by_queue = [[each.offset for each in store.queue_records(topic, queue_id, 3)] for topic, queue_id, _, _ in ranges]
    since = [
        store.queue_offset_since(topic, queue_id, NOW_MS + at * 1000)
        for topic, queue_id, _, _ in ranges
        for at in (0, 15, 69, 71, 100, 119, 500)
    ]
    by_key = [[each.offset for each in store.query("topic-2", f"key-{number}")] for number in range(120)]
    by_tag = [each.offset for each in store.query("topic-1", "T#tag-1")]
    return [ranges, by_queue, since, by_key, by_tag]


@pytest.mark.parametrize("kept", [0, 1, 4, 8, 30, 87, 100])
def test_record_being_written_is_neither_returned_nor_damage(copy: Path, kept: int):
    with OfflineStore(copy) as store:
        *found, end = store.items()
        path, at = segment(copy, end.offset)
        half = Record(topic="topic-0", body=b"x" * 300, physical_offset=end.offset)
        overwrite(path, at, encode_record(half)[:kept])
        assert list(store.items()) == [*found, end]


def test_unused_segment_is_not_scanned(copy: Path):
    with OfflineStore(copy) as store:
        expected = list(store.items())
        following = store.log.starts[-1] + SMALL.segment_bytes
        with (copy / "commitlog" / f"{following:020d}").open("wb") as file:
            file.truncate(SMALL.segment_bytes)
        (copy / "commitlog" / f"{following + SMALL.segment_bytes:020d}").touch()
        assert list(store.items()) == expected


# --- damage


def test_damaged_message_is_reported_and_not_returned(copy: Path):
    (copy / "checkpoint").unlink()  # so that checksums are not trusted: bodies have their CRC
    with OfflineStore(copy) as store:
        found = list(store.records())
        victim = found[41]
        path, at = segment(copy, victim.offset)
        flip(path, at + victim.size - len(victim.record.properties) - len(victim.record.topic) - 10)
        told: list[DamagedRange] = []
        assert list(store.records(on_damage=told.append)) == found[:41] + found[42:]
        assert told == [DamagedRange(victim.offset, victim.size)]
        key = victim.record.topic, victim.record.queue_id
        assert victim not in list(store.queue_records(*key, on_damage=told.append))
        assert told[1:] == told[:1]


def test_flipped_bit_anywhere_in_our_record_is_detected(copy: Path):
    with OfflineStore(copy) as store:
        found = list(store.records())
        victim = found[40]
        path, start = segment(copy, victim.offset)
        for at in range(victim.size):
            flip(path, start + at, at % 8)
            told: list[DamagedRange] = []
            assert list(store.records(victim.offset - found[39].size, on_damage=told.append)) == [found[39], *found[41:]]
            assert told == [DamagedRange(victim.offset, victim.size)]
            flip(path, start + at, at % 8)


def test_range_that_recovery_set_aside_is_reported_and_not_returned(copy: Path):
    with OfflineStore(copy) as store:
        found = list(store.records())
    victim = found[60]
    path, at = segment(copy, victim.offset)
    overwrite(path, at, bytes(victim.size))
    (copy / "checkpoint").unlink()
    (copy / "abort").touch()
    recovered = MessageStore(copy, SMALL)
    assert len(recovered.open().set_aside) == 1
    recovered.close()
    with OfflineStore(copy) as store:
        told: list[DamagedRange] = []
        assert list(store.records(on_damage=told.append)) == found[:60] + found[61:]
        assert told == [DamagedRange(victim.offset, victim.size)]


def test_unreadable_end_of_a_segment_is_damage_only_if_records_follow(copy: Path):
    with OfflineStore(copy) as store:
        found = list(store.records())
        border = store.log.starts[1]
        first_lost = [each for each in found if each.offset < border][-3]
        path, at = segment(copy, first_lost.offset)
        overwrite(path, at, bytes(SMALL.segment_bytes - at))
        told: list[DamagedRange] = []
        kept = [each for each in found if each.offset < first_lost.offset or each.offset >= border]
        assert list(store.records(on_damage=told.append)) == kept
        assert told == [DamagedRange(first_lost.offset, border - first_lost.offset)]


def test_a_missing_segment_is_damage(copy: Path):
    with OfflineStore(copy) as store:
        found = list(store.records())
        gap, after = store.log.starts[1:3]
        (copy / "commitlog" / f"{gap:020d}").unlink()
    with OfflineStore(copy) as store:
        told: list[DamagedRange] = []
        assert list(store.records(on_damage=told.append)) == [e for e in found if not gap <= e.offset < after]
        assert told == [DamagedRange(gap, after - gap)]


def test_wrong_queue_entry_is_reported_and_hides_no_message(copy: Path):
    with OfflineStore(copy) as store:
        expected = list(store.queue_records("topic-0", 0))
        path = copy / "consumequeue" / "topic-0" / "0" / f"{0:020d}"
        overwrite(path, 20 * 3, struct.pack(">qi", expected[4].offset, expected[4].size))
        told: list[DamagedRange] = []
        assert list(store.queue_records("topic-0", 0, on_damage=told.append)) == expected[:3] + expected[4:]
        assert told == [DamagedRange(expected[4].offset, expected[4].size)]


def test_properties_that_are_not_text_do_not_stop_a_reader():
    record = Record("t", b"", b"\xff\x01\xfe\x02TAGS\x01ok\x02")
    assert properties_of(record) == {"\ufffd": "\ufffd", "TAGS": "ok"}


def test_a_store_with_properties_that_are_not_text_opens(copy: Path):
    """Apache's broker stores the properties of a batch unchecked, so such records exist. They must not affect other records."""
    with OfflineStore(copy) as store:
        victim = next(each for each in store.records() if each.record.properties)
    path, at = segment(copy, victim.offset)
    overwrite(path, at + victim.size - 6, b"\xff\xfe")
    (copy / "checkpoint").unlink()
    (copy / "abort").touch()
    opened = MessageStore(copy, SMALL)
    recovered = opened.open()
    assert recovered.set_aside == []
    assert opened.reading.record_at(victim.offset) is not None
    assert opened.reading.query(victim.record.topic, f"key-{victim.record.flag}", 0, 2**62, 10)
    opened.close()
