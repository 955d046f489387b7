"""Consume queues: entries by number, loaded after a clean stop and after a crash."""

from __future__ import annotations

import errno

import pytest

from skyrocket.store.errors import DiskFullError, QueueNameError, StoreIOError
from skyrocket.store.files import OpenFiles
from skyrocket.store.message import DispatchRequest
from skyrocket.store.queues.consume_queue import ENTRY, PRE_BLANK, ConsumeQueue, QueueEntry
from skyrocket.store.queues.consume_queues import (
    NEW_FILES_AT_ONCE,
    QUEUE_LATE_BYTES_MAX,
    ConsumeQueues,
    QueueKey,
    is_directory_name,
)
from tests.support.stores.simulated_disk import SimulatedDisk

PER_FILE = 5


def a_queue(disk: SimulatedDisk) -> ConsumeQueue:
    return ConsumeQueue(disk, OpenFiles(disk, 10), "cq/t/0", PER_FILE)


def entry(number: int) -> bytes:
    return ENTRY.pack(1000 + number * 100, 100, number)


def filled(disk: SimulatedDisk, count: int, first: int = 0) -> ConsumeQueue:
    queue = a_queue(disk)
    queue.append(first, b"".join(entry(number) for number in range(first, first + count)))
    queue.write_late()
    return queue


def offsets(queue: ConsumeQueue) -> list[int]:
    found = [queue.entry(number) for number in range(queue.min_offset, queue.max_offset)]
    return [e.physical_offset for e in found if e is not None]


def believed(end: int):
    return lambda _offset, e: e.physical_offset < end


def test_entries_come_back_by_number_across_files():
    queue = filled(SimulatedDisk(), 12)
    assert queue.entry(7) == QueueEntry(1700, 100, 7)
    assert (queue.min_offset, queue.max_offset) == (0, 12)


def test_a_read_ends_with_the_file_and_with_the_queue():
    queue = filled(SimulatedDisk(), 12)
    assert [len(queue.read(at, 100)) // 20 for at in (0, 3, 5, 11, 12, 99)] == [5, 2, 5, 1, 0, 0]


@pytest.mark.parametrize("count", [0, 1, 4, 5, 6, 10, 11])
def test_a_queue_is_found_again_after_a_clean_stop(count: int):
    disk = SimulatedDisk()
    if count:
        filled(disk, count)
    queue = a_queue(disk)
    queue.load()
    assert offsets(queue) == [1000 + 100 * number for number in range(count)]


@pytest.mark.parametrize("known", range(12))
def test_after_a_crash_only_trusted_entries_count(known: int):
    disk = SimulatedDisk()
    filled(disk, 11)
    content = disk.nodes["cq/t/0/00000000000000000100"].content
    content[20:40] = bytes(20)  # a hole that a power cut left
    queue = a_queue(disk)
    queue.load(believed(1000 + 100 * min(known, 6)))
    assert queue.max_offset == min(known, 6)


def test_a_flipped_bit_in_the_middle_does_not_end_a_queue():
    for at in range(11 * 20):
        for bit in range(8):
            disk = SimulatedDisk()
            filled(disk, 11)
            start, within = at // 100 * 100, at % 100
            disk.nodes[f"cq/t/0/{start:020d}"].content[within] ^= 1 << bit
            clean, crashed = a_queue(disk), a_queue(disk.copy())
            clean.load()
            assert clean.max_offset == 11, f"bit {bit} of byte {at}, clean"
            crashed.load(believed(9000))
            assert crashed.max_offset in ((10, 11) if at >= 200 else (11,)), f"bit {bit} of byte {at}, crashed"


def test_gap_is_filled_with_the_next_entry():
    queue = filled(SimulatedDisk(), 3)
    queue.append(6, entry(6))
    assert offsets(queue) == [1000, 1100, 1200, 1600, 1600, 1600, 1600]


def test_entries_that_the_queue_has_are_not_overwritten():
    queue = filled(SimulatedDisk(), 5)
    queue.append(3, ENTRY.pack(9, 9, 9) * 2 + entry(5))
    assert offsets(queue) == [1000, 1100, 1200, 1300, 1400, 1500]
    queue.append(0, ENTRY.pack(9, 9, 9))
    assert queue.max_offset == 6


def test_queue_without_its_first_messages_starts_later():
    disk = SimulatedDisk()
    queue = filled(disk, 3, first=12)
    assert (queue.min_offset, queue.max_offset) == (12, 15)
    assert disk.names("cq/t/0") == ["00000000000000000200"]
    assert bytes(disk.nodes["cq/t/0/00000000000000000200"].content[:40]) == PRE_BLANK * 2
    again = a_queue(disk)
    again.load()
    assert again.max_offset == 15


def test_queue_that_could_not_start_starts_when_there_is_space():
    disk = SimulatedDisk()
    queue = a_queue(disk)
    disk.fail("write", 1, errno.ENOSPC)
    with pytest.raises(DiskFullError):
        queue.append(12, entry(12))
    queue.append(12, entry(12))
    assert offsets(queue) == [2200]


def test_a_failed_late_write_loses_nothing_and_can_be_repeated():
    disk = SimulatedDisk()
    queue = filled(disk, 3)
    queue.append(3, b"".join(entry(number) for number in range(3, 12)))
    disk.fail("write", 2, short=True)
    with pytest.raises(StoreIOError):
        queue.write_late()
    assert offsets(queue) == [1000 + 100 * number for number in range(12)]
    queue.append(12, entry(12))
    queue.write_late()
    again = a_queue(disk)
    again.load()
    assert offsets(queue) == offsets(again) == [1000 + 100 * number for number in range(13)]


@pytest.mark.parametrize("written", range(12))
def test_a_reader_sees_entries_in_files_and_in_memory_as_one(written: int):
    queue, whole = filled(SimulatedDisk(), written), filled(SimulatedDisk(), 12)
    queue.append(written, b"".join(entry(number) for number in range(written, 12)))
    assert (queue.written_offset, queue.max_offset, len(queue.late)) == (written, 12, (12 - written) * 20)
    for at in range(13):
        assert queue.entry(at) == whole.entry(at)
        for count in range(1, 6):
            packed = queue.read(at, count)
            assert packed.startswith(whole.read(at, count))
            assert len(packed) <= 20 * count
    assert queue.find_minimum(1750, queue.entry) == 8
    assert [queue.place_of(at) is not None for at in range(12)] == [at < written for at in range(12)]


def test_a_late_write_replaces_a_file_that_another_program_has_left():
    """Apache's broker writes queue files before it finds out that somebody else has the store open."""
    disk = SimulatedDisk()
    queue, whole = a_queue(disk), filled(SimulatedDisk(), 4)
    queue.append(0, b"".join(entry(number) for number in range(4)))
    path = f"{queue.directory}/{0:020d}"
    disk.create(path, PER_FILE * ENTRY.size, 0).write(0, b"\xff" * PER_FILE * ENTRY.size)
    queue.write_late()
    again = a_queue(disk)
    again.load()
    assert offsets(again) == offsets(whole)


def test_an_entry_in_memory_is_replaced_there():
    queue = filled(disk := SimulatedDisk(), 2)
    queue.append(2, entry(2) + entry(9))
    queue.replace(3, entry(3))
    queue.write_late()
    again = a_queue(disk)
    again.load()
    assert offsets(again) == [1000, 1100, 1200, 1300]


def test_late_entries_are_counted_written_in_order_and_forgotten_with_their_topic():
    queues = ConsumeQueues(disk := SimulatedDisk(), OpenFiles(disk, 10), "cq", PER_FILE)
    for number in range(4):
        queues.put([DispatchRequest(f"t{number % 2}", number, 0, 1000 + number * 100, 100, 0, 0, (), 0)])
    assert (queues.late_bytes, queues.late_count, disk.names("cq")) == (80, 4, [])
    assert queues.write_late(3) == 3
    assert (queues.late_bytes, queues.late_count, disk.names("cq/t0")) == (20, 1, ["0", "2"])
    assert queues.forget_topic("t1") == (2, 2)
    assert (queues.late_bytes, queues.late_count, queues.write_late(9)) == (0, 0, 0)


def test_few_new_files_are_created_at_once():
    queues = ConsumeQueues(disk := SimulatedDisk(), OpenFiles(disk, 50), "cq", PER_FILE)
    for offset in range(2):
        queues.put([DispatchRequest("t", queue_id, offset, 1000 + queue_id, 100, 0, 0, (), 0) for queue_id in range(20)])
        if not offset:
            assert [queues.write_late(64) for _ in range(4)] == [
                NEW_FILES_AT_ONCE,
                NEW_FILES_AT_ONCE,
                20 - 2 * NEW_FILES_AT_ONCE,
                0,
            ]
    assert queues.write_late(64) == 20, "these files exist"


def test_a_queue_with_many_entries_in_memory_is_crowded_until_they_are_written():
    queues = ConsumeQueues(disk := SimulatedDisk(), OpenFiles(disk, 10), "cq", 10_000)
    most = QUEUE_LATE_BYTES_MAX // 20
    queues.put([DispatchRequest("t", 0, number, number * 100, 100, 0, 0, (), 0) for number in range(most)])
    assert not queues.crowded
    queues.put([DispatchRequest("t", 0, most, most * 100, 100, 0, 0, (), 0)])
    assert len(queues.crowded) == 1
    queues.write_crowded()
    assert (queues.late_bytes, queues.late_count, len(queues.crowded)) == (0, 0, 0)


def test_truncating_leaves_zeros():
    disk = SimulatedDisk()
    queue = filled(disk, 12)
    queue.truncate(6)
    assert queue.max_offset == 6
    assert disk.names("cq/t/0") == ["00000000000000000000", "00000000000000000100"]
    assert not any(disk.nodes["cq/t/0/00000000000000000100"].content[20:])
    queue.append(6, entry(6))
    assert len(offsets(queue)) == 7


def test_truncating_before_the_first_file_begins_the_queue_again():
    queue = filled(disk := SimulatedDisk(), 12)
    for file in queue.expire(1750):
        disk.remove(file.path)
    queue.truncate(2)
    assert (queue.min_offset, queue.max_offset, disk.names("cq/t/0")) == (0, 0, [])
    queue.append(2, entry(2))
    assert (queue.min_offset, queue.max_offset, offsets(queue)) == (2, 3, [1200])


def test_expire_raises_the_minimum_and_gives_up_files():
    queue = filled(SimulatedDisk(), 12)
    assert [file.path for file in queue.expire(1750)] == ["cq/t/0/00000000000000000000"]
    assert (queue.min_offset, queue.max_offset) == (8, 12)
    queue.expire(99_999)
    assert (queue.min_offset, queue.max_offset) == (12, 12)
    queue.append(12, entry(12))
    assert offsets(queue) == [2200]


def test_every_written_file_is_unsynced_once():
    opened = OpenFiles(disk := SimulatedDisk(), 10)
    queue = ConsumeQueue(disk, opened, "cq/t/0", PER_FILE)
    queue.append(0, b"".join(entry(number) for number in range(7)))
    assert not opened.take_unsynced().held
    queue.write_late()
    assert len(opened.take_unsynced().held) == 2
    assert not opened.take_unsynced().held
    queue.append(7, entry(7))
    queue.write_late()
    assert list(opened.take_unsynced().held) == ["cq/t/0/00000000000000000100"]
    queue.replace(0, entry(0))
    queue.truncate(7)
    assert len(opened.take_unsynced().held) == 2


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/etc", "a\0b", "x" * 256])
def test_topic_that_is_a_path_is_no_queue(name: str):
    queues = ConsumeQueues(disk := SimulatedDisk(), OpenFiles(disk, 10), "cq", PER_FILE)
    assert not is_directory_name((name, 0))
    with pytest.raises(QueueNameError):
        queues.next_offset(QueueKey(name, 0))
    with pytest.raises(QueueNameError):
        queues.next_offset(QueueKey("t", -1))


def test_forgetting_a_topic_forgets_its_queues_and_offsets():
    disk = SimulatedDisk()
    queues = ConsumeQueues(disk, OpenFiles(disk, 10), "cq", PER_FILE)
    filled(disk, 3)
    queues.load()
    assert len(queues) == 1
    disk.move("cq/t", "moved/t")
    queues.forget_topic("t")
    assert (len(queues), disk.names("cq")) == (0, [])
    assert queues.next_offset(QueueKey("t", 0)) == 0
    assert queues.count_in(["moved"]) == (1, 3)


def test_half_of_an_entry_behind_an_unwritten_one_does_not_count():
    """A crash may cut off the zeros that a truncation writes: one entry is gone, and half of the next one."""
    disk = SimulatedDisk()
    filled(disk, PER_FILE)
    content = disk.nodes[f"cq/t/0/{0:020d}"].content
    content[3 * ENTRY.size : 4 * ENTRY.size + 8] = bytes(ENTRY.size + 8)
    queue = a_queue(disk)
    queue.load(believed(10**9))
    assert queue.max_offset == 3
