"""Windows of the log: pulls of several queues share what was read, and no window outlives its bytes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skyrocket.protocol.message.record import decode_record
from skyrocket.store.config import StoreConfig
from skyrocket.store.log.read_windows import AHEAD_BYTES, WINDOWS_MAX, ReadWindows
from skyrocket.store.message_store import MessageStore
from skyrocket.store.read.queue_run import RunQuery
from tests.support.stores.simulated_disk import SimulatedDisk
from tests.support.stores.store_messages import ROOT, START_MS, a_message, an_open_store
from tests.support.twins import KINDS, using

CONFIG = StoreConfig(segment_bytes=64 * 1024, queue_entries_per_file=1000, index_enabled=False)
QUEUES = 4
COUNT = 200  # messages of all queues, in five segments
AT_ONCE = 5  # a pull


class CountingDisk(SimulatedDisk):
    """Counts the reads of files below a directory."""

    def reads(self, directory: str) -> int:
        return sum(count for path, count in self.read_paths.items() if path.startswith(f"{ROOT}/{directory}/"))

    def operation(self, kind: str, path: str, *more: object) -> None:
        if kind == "read":
            self.read_paths[path] = self.read_paths.get(path, 0) + 1
        super().operation(kind, path, *more)

    def __init__(self, seed: int = 0) -> None:
        super().__init__(seed)
        self.read_paths: dict[str, int] = {}


def a_filled_store(disk: SimulatedDisk, count: int = COUNT, config: StoreConfig = CONFIG) -> MessageStore:
    """A store that was opened again, so that every record in it is cold. The queues alternate."""
    store = an_open_store(disk, config)
    store.append([a_message("orders", number % QUEUES, b"%06d" % number + bytes(1000)) for number in range(count)], START_MS)
    store.close()
    return an_open_store(disk, config)


def pull(store: MessageStore, queue_id: int, offset: int) -> list[int]:
    queue = store.queues.get("orders", queue_id)
    assert queue is not None
    run = store.reading.read_pull(queue, RunQuery("orders", queue_id, offset, AT_ONCE, 10**6, None))
    data, found = b"".join(run.pieces), []
    while data:
        size = int.from_bytes(data[:4])
        found.append(int(data[88:94]))
        data = data[size:]
    return found


def pull_all(store: MessageStore, count: int = COUNT) -> list[int]:
    """Pull all queues in turns, as their consumers do."""
    each = count // QUEUES
    return [one for offset in range(0, each, AT_ONCE) for queue_id in range(QUEUES) for one in pull(store, queue_id, offset)]


@pytest.mark.parametrize("kind", KINDS)
def test_pulls_of_queues_that_alternate_share_what_was_read(kind: str):
    disk = CountingDisk()
    store = a_filled_store(disk, config=replace(CONFIG, segment_bytes=512 * 1024))
    disk.read_paths.clear()
    with using(kind):
        assert sorted(pull_all(store)) == list(range(COUNT))
    pulls = COUNT // AT_ONCE
    assert disk.reads("commitlog") < pulls / 2, "each pull has read its range of the log again"
    assert disk.reads("checksums") < pulls / 2, "each pull has read its checksums again"


def test_messages_behind_a_window_at_the_end_of_the_log_are_found():
    store = a_filled_store(SimulatedDisk(), 20)
    assert sorted(pull_all(store, 20)) == list(range(20))
    store.append([a_message("orders", 0, b"%06d" % 99 + bytes(1000))], START_MS)
    store.reading.set_opened_at(store.log.end - 1)  # the new one counts as cold too
    assert pull(store, 0, 5) == [99]


def test_removed_segment_is_not_served():
    store = a_filled_store(SimulatedDisk())
    pull_all(store)
    place = store.log.start
    assert store.log.view(place, 100) is not None
    store.log.take_first(1)
    assert store.log.view(place, 100) is None
    assert not len(store.log.run_view(place, place + 100)[2])


def test_written_and_cut_log_is_read_again():
    disk = SimulatedDisk()
    store = a_filled_store(disk, 20)
    for change in (lambda: store.log.rewrite(0), lambda: store.log.set_end(store.log.end)):
        pull_all(store, 20)
        content = disk.nodes[f"{ROOT}/commitlog/{0:020d}"].content
        content[50] ^= 1
        assert bytes(store.log.run_view(0, 100)[2][:100]) != bytes(content[:100]), "there was no window"
        change()
        assert bytes(store.log.run_view(0, 100)[2][:100]) == bytes(content[:100])


def test_recovery_reads_without_windows():
    """Recovery writes over damage, and compares queue entries with the log before and after."""
    disk = SimulatedDisk()
    a_filled_store(disk, 20).close()
    store = MessageStore(ROOT, CONFIG, files=disk)
    store.log.load()
    store.log.end = store.log.segments.stop
    before = bytes(store.log.run_view(0, 100)[2])
    disk.nodes[f"{ROOT}/commitlog/{0:020d}"].content[50] ^= 1
    assert bytes(store.log.run_view(0, 100)[2]) != before


def test_bad_sector_behind_what_is_asked_for_is_no_error():
    disk = SimulatedDisk()
    store = a_filled_store(disk, 40)
    assert pull(store, 0, 0) == [0, 4, 8, 12, 16]
    disk.spoil_sector(f"{ROOT}/commitlog/{0:020d}", 39 * 1100)
    assert pull(store, 0, 5) == [20, 24, 28, 32, 36], "the read ahead has failed, and so has the pull"


# --- the table itself


def test_whoever_keeps_old_messages_of_a_sparse_queue_keeps_no_windows():
    """Messages that lie far apart are read one by one. 500 of them once kept a gigabyte of windows in memory."""
    config = replace(CONFIG, segment_bytes=8 * 1024 * 1024)
    disk = SimulatedDisk()
    store = an_open_store(disk, config)
    for number in range(60):
        store.append([a_message("sparse", 0, b"%d" % number), a_message("orders", 0, bytes(50_000))], START_MS)
    store.close()
    store = an_open_store(disk, config)
    records = store.reading.messages("sparse", 0, 0, 60).records
    assert [bytes(decode_record(record).body) for record in records] == [b"%d" % number for number in range(60)]
    kept_bytes = sum(len(owner) for owner in {id(record.obj): record.obj for record in records}.values())
    assert kept_bytes < 2 * sum(map(len, records))


def a_window(windows: ReadWindows, first: int, data: bytes) -> memoryview:
    buffer = windows.take_buffer()
    buffer[: len(data)] = data
    return windows.add(first, len(data), buffer).data


def test_window_is_found_by_the_range_it_contains():
    windows = ReadWindows()
    a_window(windows, 1000, b"abcdef")
    found = windows.find(1002, 1006)
    assert found is not None
    assert bytes(found.data[1002 - found.first :]) == b"cdef"
    assert windows.find(999, 1003) is None
    assert windows.find(1002, 1007) is None
    assert windows.continues(1006)
    assert windows.continues(1003)
    assert not windows.continues(999)
    assert not windows.continues(1006 + AHEAD_BYTES)


def test_least_recently_used_window_goes():
    windows = ReadWindows()
    for number in range(WINDOWS_MAX):
        a_window(windows, number * 10, b"0123456789")
    assert windows.find(0, 5) is not None
    a_window(windows, 5000, b"0123456789")
    assert windows.find(0, 5) is not None
    assert windows.find(10, 15) is None


def test_buffer_that_somebody_looks_at_is_not_used_again():
    windows = ReadWindows()
    kept = a_window(windows, 0, b"precious")[2:6]
    for number in range(1, 3 * WINDOWS_MAX):
        a_window(windows, number * 1000, b"\xff" * 8)
    assert bytes(kept) == b"ecio"


def test_buffers_are_used_again():
    windows = ReadWindows()
    used = {id(windows.find(0, 1).buffer) for number in range(50) if a_window(windows, 0, b"x") is not None}  # type: ignore[union-attr]
    assert len(used) <= WINDOWS_MAX + 2


def test_reader_of_single_records_in_order_gets_windows():
    windows = ReadWindows()
    assert not windows.continues(1000)
    windows.pass_by(1000)
    assert windows.continues(1000)
    assert not windows.continues(900)
    windows.drop()
    assert not windows.continues(1000)
