"""Segments are contiguous, and files that do not fit are refused."""

from __future__ import annotations

import pytest

from skyrocket.store.errors import StoreFormatError, StoreIOError
from skyrocket.store.files import OpenFiles
from skyrocket.store.log.segments import Segments, segment_name
from tests.support.stores.simulated_disk import SimulatedDisk


def segments_of(disk: SimulatedDisk, size: int = 100) -> Segments:
    return Segments(disk, OpenFiles(disk, 10), "log", size, allocate=True)


def loaded(disk: SimulatedDisk) -> Segments:
    segments = segments_of(disk)
    segments.load()
    return segments


def a_disk_with(*starts: int, size: int = 100) -> SimulatedDisk:
    disk = SimulatedDisk()
    for start in starts:
        disk.write_file(f"log/{segment_name(start)}", bytes(size))
    return disk


def test_a_name_has_twenty_digits():
    assert segment_name(1_073_741_824) == "00000000001073741824"


def test_an_empty_directory_is_an_empty_log():
    segments = loaded(SimulatedDisk())
    assert (segments.starts, segments.start, segments.stop) == ([], 0, 0)


def test_segments_are_found_in_order_and_may_begin_anywhere():
    segments = loaded(a_disk_with(400, 300, 200))
    assert (segments.starts, segments.start, segments.stop) == ([200, 300, 400], 200, 500)


def test_an_offset_is_in_the_segment_that_starts_at_or_before_it():
    segments = loaded(a_disk_with(200, 300))
    found = {offset: segments.start_of(offset) for offset in (0, 199, 200, 299, 300, 399, 400)}
    assert found == {0: None, 199: None, 200: 200, 299: 200, 300: 300, 399: 300, 400: None}


def test_a_gap_is_refused():
    with pytest.raises(StoreFormatError, match="missing between 0 and 200"):
        loaded(a_disk_with(0, 200))


def test_a_file_of_another_size_is_refused():
    with pytest.raises(StoreFormatError, match="has 99 bytes"):
        loaded(a_disk_with(0, size=99))


def test_files_with_other_names_are_ignored():
    disk = a_disk_with(0)
    disk.write_file("log/readme.txt", b"hello")
    disk.write_file("log/100", b"hello")
    assert loaded(disk).starts == [0]


def test_empty_file_left_by_a_crash_is_created_again():
    disk = a_disk_with(0)
    disk.write_file(f"log/{segment_name(100)}", b"")
    segments = loaded(disk)
    assert segments.starts == [0]
    segments.add(100)
    assert segments.starts == [0, 100]


def test_adding_a_segment_with_a_gap_fails_an_assertion():
    segments = loaded(a_disk_with(0))
    with pytest.raises(AssertionError):
        segments.add(300)


def test_dropping_removes_the_file():
    disk = a_disk_with(0, 100, 200)
    segments = loaded(disk)
    for file in segments.take_first(1):
        disk.remove(file.path)
    segments.drop_last()
    assert (segments.starts, disk.names("log")) == ([100], [segment_name(100)])


def test_a_file_that_cannot_be_opened_is_a_typed_error():
    disk = a_disk_with(0)
    segments = loaded(disk)
    disk.fail("open")
    with pytest.raises(StoreIOError):
        segments.file(0)
