"""The index finds every message with a key, newest first, and no other message."""

from __future__ import annotations

import errno
from dataclasses import replace

import pytest

from skyrocket.protocol.message.record import decode_record
from skyrocket.store.errors import DiskFullError, StoreFormatError
from skyrocket.store.index.index import Index, hash_key
from skyrocket.store.index.index_file import HEADER, KEY, IndexFile, index_bytes
from skyrocket.store.message import DispatchRequest
from tests.support.stores.simulated_disk import SimulatedDisk
from tests.support.stores.store_messages import FOREVER_MS, SMALL, START_MS, a_message, an_open_store, index_hash


def an_index(disk: SimulatedDisk, slots: int = 7, entries: int = 10) -> Index:
    index = Index(disk, "index", slots, entries)
    index.load()
    return index


def a_dispatch(offset: int, *keys: str, at_ms: int = START_MS, topic: str = "t", sys_flag: int = 0) -> DispatchRequest:
    return DispatchRequest(topic, 0, 0, offset, 100, 0, at_ms, keys, sys_flag)


def put(index: Index, dispatches: list[DispatchRequest]) -> None:
    """Add messages, and write their keys."""
    index.put(dispatches)
    index.write_late()


def find(index: Index, key: str, begin_ms: int = 0, end_ms: int = FOREVER_MS) -> list[int]:
    return list(index.find("t", key, begin_ms, end_ms))


def test_a_key_finds_its_messages_newest_first():
    index = an_index(SimulatedDisk())
    put(index, [a_dispatch(100, "a", "b"), a_dispatch(200, "b"), a_dispatch(300, "a")])
    assert find(index, "a") == [300, 100]
    assert find(index, "b") == [200, 100]
    assert find(index, "c") == []


def test_query_reads_chains_of_several_files():
    index = an_index(disk := SimulatedDisk(), slots=1, entries=4)
    put(index, [a_dispatch(n * 100, "a") for n in range(1, 9)])
    assert find(index, "a") == [n * 100 for n in range(8, 0, -1)]
    assert len(disk.names("index")) == 3


def test_a_search_stops_at_the_beginning_of_its_time_range():
    index = an_index(disk := SimulatedDisk(), entries=3_000)
    put(index, [a_dispatch(n * 100, "a", at_ms=START_MS + n * 1_000) for n in range(2_000)])
    before = disk.counts["read"]
    assert find(index, "a", begin_ms=START_MS + 1_990_000) == [n * 100 for n in range(1_999, 1_989, -1)]
    assert disk.counts["read"] - before < 20


def test_a_search_skips_what_lies_behind_its_time_range():
    index = an_index(disk := SimulatedDisk(), slots=3, entries=30_001)
    put(index, [a_dispatch(n * 100, "a" if n % 5 else "b", at_ms=START_MS + n * 1_000) for n in range(30_000)])
    for key, at in (("a", 11_111), ("b", 10_000), ("c", 10_000)):
        wanted = [n * 100 for n in range(at, at - 10, -1) if key == ("a" if n % 5 else "b")]
        before = disk.counts["read"]
        assert find(index, key, START_MS + (at - 9) * 1_000, START_MS + at * 1_000) == wanted
        assert disk.counts["read"] - before < 1_200, "1,000 one by one, then a search by time"


def test_a_search_goes_on_when_its_file_expires():
    index = an_index(SimulatedDisk(), slots=1, entries=4)
    put(index, [a_dispatch(n * 100, "a") for n in range(1, 9)])
    for job in index.begin_sync():
        job()
    visits = index.visit("t", "a", 0, FOREVER_MS)
    first = [next(visits) for _ in range(4)]
    for expired in index.expire(700):
        if expired.open_file is not None:
            expired.open_file.close()
    assert first == [800, 700, 600, 500]
    assert list(visits) == []


def test_files_of_the_same_millisecond_have_different_names_in_order():
    index = an_index(disk := SimulatedDisk(), entries=2)
    for n in range(1, 5):
        put(index, [a_dispatch(n * 100, "a")])
    names = disk.names("index")
    assert len(names) == 4
    assert all(len(name) == 17 for name in names)
    after = disk.kill()
    headers = [HEADER.unpack_from(after.read(f"index/{name}")) for name in names]
    assert [header[2] for header in headers] == [0, 0, 0, 0], "headers are written when the rest is safe"


def test_synced_entries_are_found_after_a_crash():
    index = an_index(disk := SimulatedDisk(), entries=4)
    put(index, [a_dispatch(n * 100, "a", f"k{n}") for n in range(1, 6)])
    for sync in index.begin_sync():
        sync()
    again = an_index(disk, entries=4)
    assert find(again, "a") == [500, 400, 300, 200, 100]
    assert find(again, "k3") == [300]
    assert again.last_offset == 500


def test_message_is_indexed_only_once():
    index = an_index(SimulatedDisk())
    put(index, [a_dispatch(100, "a"), a_dispatch(200, "a")])
    put(index, [a_dispatch(100, "a"), a_dispatch(200, "a"), a_dispatch(300, "a")])
    assert find(index, "a") == [300, 200, 100]


def test_rolled_back_messages_are_not_indexed():
    index = an_index(SimulatedDisk())
    put(index, [a_dispatch(100, "a", sys_flag=0xC), a_dispatch(200, "a", sys_flag=0x4)])
    assert find(index, "a") == [200]


def test_time_range_is_exact_to_the_second():
    index = an_index(SimulatedDisk(), entries=20)
    put(index, [a_dispatch(n, "a", at_ms=START_MS + n * 1000) for n in range(1, 10)])
    found = find(index, "a", START_MS + 3000, START_MS + 5000)
    assert set(found) >= {3, 4, 5}
    assert set(found) <= {2, 3, 4, 5, 6}
    assert find(index, "a", START_MS + 60_000, FOREVER_MS) == []


@pytest.mark.parametrize(("nth", "kind"), [(1, "write"), (2, "write"), (1, "create"), (2, "create"), (3, "create")])
def test_full_disk_neither_loses_nor_duplicates_a_key(nth: int, kind: str):
    disk = SimulatedDisk()
    index = an_index(disk, slots=2, entries=4)
    put(index, [a_dispatch(50, "a")])
    index.put([a_dispatch(n * 100, "a", "b") for n in range(1, 6)])
    disk.fail(kind, nth, errno.ENOSPC, short=True)
    with pytest.raises(DiskFullError):
        index.write_late()
    assert find(index, "a") == [500, 400, 300, 200, 100, 50], "those that could not be written are found in memory"
    put(index, [a_dispatch(500, "a", "b"), a_dispatch(600, "a")])
    assert not index.late
    assert find(index, "a") == [600, 500, 400, 300, 200, 100, 50]
    assert find(index, "b") == [500, 400, 300, 200, 100]


@pytest.mark.parametrize("written", range(9))
def test_keys_in_memory_and_in_files_are_found_as_one(written: int):
    index = an_index(disk := SimulatedDisk(), slots=2, entries=4)
    dispatches = [a_dispatch(n * 100, "a", f"k{n}", at_ms=START_MS + n * 1000) for n in range(1, 10)]
    if written:
        put(index, dispatches[:written])
    index.put(dispatches[written:])
    files = len(disk.names("index"))
    assert len(index.late) == (9 - written) * 2 * KEY.size
    assert find(index, "a") == [n * 100 for n in range(9, 0, -1)]
    assert [find(index, f"k{n}") for n in range(1, 10)] == [[n * 100] for n in range(1, 10)]
    assert set(find(index, "a", START_MS + 3000, START_MS + 8000)) >= {300, 400, 500, 600, 700, 800}
    assert find(index, "a", START_MS + 60_000) == []
    assert len(disk.names("index")) == files, "a search writes nothing"


def test_a_search_finds_a_key_once_that_is_written_meanwhile():
    index = an_index(SimulatedDisk(), slots=2, entries=4)
    put(index, [a_dispatch(100, "a")])
    index.put([a_dispatch(n * 100, "a") for n in range(2, 9)])
    visits = index.visit("t", "a", 0, FOREVER_MS)
    found = [next(visits)]
    index.write_late()
    put(index, [a_dispatch(900, "a")])
    found += [offset for offset in visits if offset >= 0]
    assert set(found) >= {n * 100 for n in range(1, 9)}
    assert found[:7] == [n * 100 for n in range(8, 1, -1)]


def test_rebuild_drops_later_entries_and_restores_the_slots():
    index = an_index(disk := SimulatedDisk(), slots=3, entries=6)
    put(index, [a_dispatch(n * 100, "a", "b") for n in range(1, 8)])
    for sync in index.begin_sync():
        sync()
    for path in [path for path in disk.nodes if path.startswith("index/")]:
        disk.nodes[path].content[40:52] = bytes(12)  # a power cut lost the slots
    again = an_index(disk, slots=3, entries=6)
    again.rebuild(300)
    assert again.last_offset == 200
    put(again, [a_dispatch(n * 100, "a", "b") for n in range(3, 8)])
    for key in ("a", "b"):
        newest_file = [700, 600, 500, 400, 300]
        assert find(again, key)[: len(newest_file)] == newest_file


def test_file_with_only_expired_messages_is_deleted():
    index = an_index(disk := SimulatedDisk(), entries=3)
    put(index, [a_dispatch(n * 100, "a") for n in range(1, 8)])
    assert index.expire(450) == [], "not before everything is on disk: a sync may be under way"
    for job in index.begin_sync():
        job()
    expired = [file.path for file in index.expire(450)]
    assert find(index, "a") == [700, 600, 500]
    expired += [file.path for file in index.expire(99_999)]
    assert expired == [f"index/{name}" for name in disk.names("index")[:-1]], "the newest stays"


def test_a_file_of_another_size_is_refused():
    disk = SimulatedDisk()
    disk.write_file("index/20230101000000000", bytes(index_bytes(7, 11)))
    with pytest.raises(StoreFormatError, match="7 slots and 10 entries"):
        an_index(disk)


def test_circular_chain_of_damaged_entries_ends():
    disk = SimulatedDisk()
    index = an_index(disk, slots=1, entries=10)
    put(index, [a_dispatch(n * 100, "a") for n in range(1, 5)])
    (path,) = [path for path in disk.nodes if path.startswith("index/")]
    content = disk.nodes[path].content
    content[44 + 2 * 20 + 16 : 44 + 2 * 20 + 20] = (4).to_bytes(4)  # entry 2 names entry 4 as the one before it
    assert find(index, "a") == [400, 300, 200]


def test_hash_equals_javas():
    for topic, key in [
        ("t", "a"),
        ("orders", "x" * 30),
        ("orders", "7F00000100002A9F18B4"),
        ("t", "schlüssel"),
        ("t", "k" * 400),
    ]:
        assert hash_key(topic, key) == index_hash(topic, key)
    assert hash_key("t", "vjnOgNk") == 0  # Java's hash of it is the one int without an absolute value


def test_a_hash_collision_never_returns_the_wrong_message():
    assert hash_key("orders", "Aa") == hash_key("orders", "BB")
    store = an_open_store(SimulatedDisk(), replace(SMALL, index_slots=1))
    store.append([a_message(body=b"one", keys="Aa"), a_message(body=b"two", keys="BB")], START_MS)
    assert [decode_record(view).body for view in store.reading.query("orders", "Aa", 0, FOREVER_MS, 10)] == [b"one"]
    assert [decode_record(view).body for view in store.reading.query("orders", "BB", 0, FOREVER_MS, 10)] == [b"two"]


def test_query_returns_at_most_count_messages():
    store = an_open_store(SimulatedDisk())
    store.append([a_message(body=b"%d" % n, keys="a") for n in range(9)], START_MS)
    assert [decode_record(view).body for view in store.reading.query("orders", "a", 0, FOREVER_MS, 2)] == [b"8", b"7"]
    assert store.reading.query("orders", "a", 0, FOREVER_MS, 0) == []


def test_index_file_reports_its_room():
    file = IndexFile.create(SimulatedDisk(), "index/x", 3, 5)
    assert (file.room, file.is_empty) == (4, True)
    file.put(KEY.pack(1, 100, START_MS) + KEY.pack(2, 200, START_MS))
    assert (file.room, file.is_empty) == (2, False)
    with pytest.raises(AssertionError):
        file.put(KEY.pack(1, 100, START_MS) * 3)
