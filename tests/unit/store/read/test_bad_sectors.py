"""A disk that does not return a sector: reads raise an error or skip what is lost, and nothing is read through a mapping."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from skyrocket.store.config import StoreConfig
from skyrocket.store.errors import StoreIOError, UnreadableError
from skyrocket.store.log.readable import PAGE_BYTES
from skyrocket.store.message_store import MessageStore
from skyrocket.store.read.queue_run import RunQuery
from skyrocket.store.read.reading import READ_ATTEMPTS
from tests.support.stores.simulated_disk import SimulatedDisk
from tests.support.stores.store_messages import (
    FOREVER_MS,
    ROOT,
    START_MS,
    an_open_store,
    bodies,
    number_of,
    numbered,
    numbers,
    read_queue,
)
from tests.support.twins import KINDS, using

CONFIG = StoreConfig(segment_bytes=16 * 1024, queue_entries_per_file=100, index_slots=16, index_entries=400)
COUNT = 60
LOST = 7


def a_filled_disk(config: StoreConfig = CONFIG) -> SimulatedDisk:
    disk = SimulatedDisk()
    store = an_open_store(disk, config)
    store.append(numbered(COUNT, body_bytes=800), START_MS)
    assert len(store.log.segments.starts) > 2
    store.close()
    return disk


def place_of(store: MessageStore, number: int) -> int:
    queue = store.queues.get("orders", 0)
    assert queue is not None
    entry = queue.entry(number)
    assert entry is not None
    return entry.physical_offset


def spoil_record(disk: SimulatedDisk, store: MessageStore, number: int) -> None:
    """Make a sector unreadable that lies in one record alone."""
    at = place_of(store, number) + 512
    start = at - at % CONFIG.segment_bytes
    disk.spoil_sector(f"{ROOT}/commitlog/{start:020d}", at - start)


def pull(store: MessageStore, offset: int) -> tuple[list[int], int]:
    queue = store.queues.get("orders", 0)
    assert queue is not None
    run = store.reading.read_pull(queue, RunQuery("orders", 0, offset, 32, 10**6, None))
    data, found = b"".join(run.pieces), []
    while data:
        size = int.from_bytes(data[:4])
        found.append(number_of(data[88:size]))
        data = data[size:]
    return found, run.next_offset


@pytest.mark.parametrize("kind", KINDS)
def test_pull_ends_before_a_bad_sector_then_fails_and_at_last_skips_it(kind: str, caplog: pytest.LogCaptureFixture):
    disk = a_filled_disk()
    store = an_open_store(disk, CONFIG)
    spoil_record(disk, store, LOST)
    with using(kind):
        assert pull(store, 0) == (list(range(LOST)), LOST)
        for _ in range(READ_ATTEMPTS - 2):  # the pull above has tried once
            with pytest.raises(UnreadableError, match="cannot be read"):
                pull(store, LOST)
        found, next_offset = pull(store, LOST)
        assert found[0] == LOST + 1
        assert store.reading.unreadable == {place_of(store, LOST): place_of(store, LOST + 1) - place_of(store, LOST)}
        assert len([one for one in caplog.records if "DAMAGE" in one.message]) == 1
        assert next_offset > LOST + len(found)
        assert numbers(read_queue(store)) == [number for number in range(COUNT) if number != LOST]


def test_sector_that_is_read_at_the_second_attempt_loses_nothing():
    disk = a_filled_disk()
    store = an_open_store(disk, CONFIG)
    spoil_record(disk, store, 0)
    with pytest.raises(UnreadableError):
        bodies(store)
    disk.nodes[f"{ROOT}/commitlog/{0:020d}"].bad.clear()
    assert len(bodies(store)) == COUNT


def test_other_ways_of_reading_find_nothing_there():
    disk = a_filled_disk()
    store = an_open_store(disk, CONFIG)
    spoil_record(disk, store, LOST)
    assert store.reading.view_at(place_of(store, LOST)) is None
    assert store.reading.views_at([place_of(store, LOST)]) == [None]
    assert store.reading.query("orders", f"key{LOST}", 0, FOREVER_MS, 10) == []
    assert len(store.reading.query("orders", f"key{LOST + 1}", 0, FOREVER_MS, 10)) == 1
    assert store.reading.offset_by_time("orders", 0, START_MS) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_bad_sector_in_a_checksum_file_hides_no_message(kind: str):
    disk = a_filled_disk()
    store = an_open_store(disk, CONFIG)
    disk.spoil_sector(f"{ROOT}/checksums/{0:020d}", 0)
    with using(kind):
        assert numbers(read_queue(store)) == list(range(COUNT))


def test_bad_sector_in_the_index_is_an_error_that_says_what_to_do():
    disk = a_filled_disk()
    [path] = [path for path in disk.nodes if "/index/" in path]
    disk.spoil_sector(path, 40)
    with pytest.raises(StoreIOError, match="remove store/index"):
        an_open_store(disk, CONFIG)
    disk.remove(f"{ROOT}/index")
    again = an_open_store(disk, CONFIG)
    assert len(again.reading.query("orders", "key3", 0, FOREVER_MS, 10)) == 1


@pytest.mark.parametrize("is_crash", [True, False])
def test_store_opens_with_a_bad_sector_where_recovery_reads(is_crash: bool):
    """Recovery sets the page aside as damage, and writes over it: a disk replaces a bad sector that is written."""
    config = replace(CONFIG, segment_bytes=64 * 1024)
    disk = SimulatedDisk()
    store = an_open_store(disk, config)
    store.append(numbered(COUNT, body_bytes=800), START_MS)
    if not is_crash:
        store.close()
        disk.remove(f"{ROOT}/checkpoint")
    untouched = an_open_store(disk.copy(), config)
    places = [place_of(untouched, number) for number in range(COUNT)]
    lost_at = places[LOST] + 512
    page = range(lost_at - lost_at % PAGE_BYTES, lost_at - lost_at % PAGE_BYTES + PAGE_BYTES)
    kept = [number for number, (at, end) in enumerate(pairwise([*places, untouched.log.end])) if end <= page[0] or at > page[-1]]
    assert LOST not in kept
    assert len(kept) > COUNT - 8
    disk.spoil_sector(f"{ROOT}/commitlog/{0:020d}", lost_at)
    again = MessageStore(ROOT, config, files=disk)
    if is_crash:
        disk._locked.clear()
    disk.traps_mappings = is_crash  # after a clean stop, single records before the bad sector are looked at first
    found = again.open()
    assert any(damage.offset <= lost_at < damage.offset + damage.size for damage in found.set_aside)
    assert numbers(read_queue(again)) == kept
    again.close()
