"""Checksums over whole records, found by the end of the record."""

from __future__ import annotations

import errno
from itertools import accumulate
from random import Random

import pytest

from skyrocket.store.errors import DiskFullError
from skyrocket.store.files import OpenFiles
from skyrocket.store.log.checksum_blocks import ENTRY
from skyrocket.store.log.checksums import Checksums, pack_checksums
from tests.support.stores.simulated_disk import SimulatedDisk

SEGMENT = 4096
SIZES = [100, 250, 92, 400, 1000]
DATA = Random(1).randbytes(sum(SIZES))
ENDS = [sum(SIZES[: n + 1]) for n in range(len(SIZES))]


def put(checksums: Checksums, at: int, data: bytes, sizes: list[int]) -> None:
    """Add checksums for consecutive records of these sizes."""
    checksums.append(at, data, list(accumulate(sizes, initial=at)))


def checksums_on(disk: SimulatedDisk) -> Checksums:
    return Checksums(disk, OpenFiles(disk, 10), "checksums", SEGMENT)


def filled(disk: SimulatedDisk, segment: int = 0) -> Checksums:
    checksums = checksums_on(disk)
    put(checksums, segment, DATA, SIZES)
    checksums.write_late()
    return checksums


def record(number: int) -> memoryview:
    return memoryview(DATA)[ENDS[number] - SIZES[number] : ENDS[number]]


def fit(checksums: Checksums, segment: int = 0) -> list[bool | None]:
    return [checksums.matches(segment + ENDS[n] - SIZES[n], record(n)) for n in range(len(SIZES))]


def test_every_record_matches_its_checksum():
    assert fit(filled(SimulatedDisk())) == [True] * 5
    assert fit(filled(SimulatedDisk(), SEGMENT), SEGMENT) == [True] * 5


def test_record_with_a_flipped_bit_does_not_match():
    checksums = filled(SimulatedDisk())
    for at in range(SIZES[0]):
        for bit in range(8):
            flipped = bytearray(record(0))
            flipped[at] ^= 1 << bit
            assert checksums.matches(0, memoryview(flipped)) is False, f"bit {bit} of byte {at}"


def test_flipped_bit_in_a_checksum_still_matches_its_record():
    for at in range(5 * ENTRY.size):
        for bit in range(8):
            disk = SimulatedDisk()
            checksums = filled(disk)
            disk.nodes["checksums/00000000000000000000"].content[at] ^= 1 << bit
            assert False not in fit(checksums), f"bit {bit} of byte {at}"


def test_record_without_a_checksum_gives_none():
    checksums = filled(SimulatedDisk())
    assert checksums.matches(ENDS[-1], memoryview(b"x" * 100)) is None
    assert checksums.matches(5 * SEGMENT, memoryview(b"x" * 100)) is None
    assert checksums.matches(0, record(0)[:-1]) is None


def test_records_can_be_checked_in_any_order():
    checksums = filled(SimulatedDisk())
    for number in (4, 0, 3, 1, 2, 2, 4, 0):
        assert checksums.matches(ENDS[number] - SIZES[number], record(number))


def test_entries_behind_the_trusted_end_are_dropped():
    disk = SimulatedDisk()
    filled(disk)
    again = checksums_on(disk)
    again.load(ENDS[2])
    assert fit(again) == [True, True, True, None, None]
    put(again, ENDS[2], DATA[ENDS[2] :], SIZES[3:])
    assert fit(again) == [True] * 5


def test_untrusted_entries_are_compared_until_recovery_finds_the_end():
    disk = SimulatedDisk()
    filled(disk)
    again = checksums_on(disk)
    again.load(ENDS[2], remember_beyond=True)
    assert fit(again) == [True] * 5
    again.cut(ENDS[2])
    assert fit(again) == [True, True, True, None, None]


def test_hole_in_the_file_hides_no_entry_before_the_trusted_end():
    disk = SimulatedDisk()
    filled(disk)
    disk.nodes["checksums/00000000000000000000"].content[3 * 8 : 4 * 8] = bytes(8)
    again = checksums_on(disk)
    again.load(ENDS[2], remember_beyond=True)
    assert fit(again) == [True, True, True, None, True]


def test_no_entry_is_trusted_when_another_broker_wrote_the_log():
    disk = SimulatedDisk()
    filled(disk)
    again = checksums_on(disk)
    again.load(0)
    assert fit(again) == [None] * 5
    assert disk.names("checksums") == []


def test_file_of_another_size_is_deleted():
    disk = SimulatedDisk()
    disk.write_file("checksums/00000000000000000000", b"\1" * 99)
    checksums_on(disk).load(SEGMENT)
    assert disk.names("checksums") == []


def test_entries_wait_in_memory_until_many_are_written_or_a_reader_needs_one():
    disk = SimulatedDisk()
    checksums = filled(disk)
    put(checksums, ENDS[4], b"x" * 95, [95])
    put(checksums, ENDS[4] + 95, b"y" * 97, [97])
    writes = disk.counts["write"]
    assert fit(checksums) == [True] * 5
    assert (checksums.late_bytes, disk.counts["write"]) == (2 * ENTRY.size, writes), "readers of older records write nothing"
    assert checksums.matches(ENDS[4] + 95, memoryview(b"y" * 97))
    assert (checksums.late_bytes, disk.counts["write"]) == (0, writes + 1)
    assert checksums.entries(0) == checksums.entries_between(0, 1, ENDS[4] + 192, 100)


def test_a_full_disk_leaves_entries_in_memory_and_readers_do_without_them():
    disk = SimulatedDisk()
    checksums = checksums_on(disk)
    put(checksums, 0, DATA, SIZES)
    for kind in ("create", "write"):
        disk.fail(kind, 1, errno.ENOSPC, short=True)
        with pytest.raises(DiskFullError):
            checksums.write_late()
        disk.fail("write", 1, errno.ENOSPC, short=True)
        assert checksums.matches(0, record(0)) is None
    assert checksums.late_bytes == 5 * ENTRY.size
    checksums.write_late()
    assert fit(checksums) == [True] * 5


def test_what_a_failed_late_write_left_rejects_no_record_after_a_kill():
    for written in range(5 * ENTRY.size):
        disk = SimulatedDisk()
        filled(disk)
        disk.nodes["checksums/00000000000000000000"].content[written:] = bytes(
            disk.size("checksums/00000000000000000000") - written
        )
        again = checksums_on(disk.kill())
        again.load(0, remember_beyond=True)
        assert False not in fit(again), f"{written} bytes were written"


def test_complete_adds_missing_entries():
    disk = SimulatedDisk()
    checksums = checksums_on(disk)
    put(checksums, 0, DATA[: ENDS[1]], SIZES[:2])
    checksums.write_late()
    checksums.complete(0, pack_checksums(DATA, 0, [0, *ENDS], 0))
    assert fit(checksums) == [True] * 5


def test_entries_are_equal_up_to_the_first_that_differs_and_missing_ones_do_not():
    checksums = checksums_on(SimulatedDisk())
    put(checksums, 0, DATA[: ENDS[2]], SIZES[:3])
    checksums.write_late()
    packed = pack_checksums(DATA, 0, [0, *ENDS], 0)
    assert checksums.count_equal(0, packed) == 5
    changed = bytearray(DATA)
    changed[ENDS[0] + 7] ^= 1
    assert checksums.count_equal(0, pack_checksums(changed, 0, [0, *ENDS], 0)) == 1


def test_entries_behind_the_trusted_end_are_remembered_for_comparison():
    disk = SimulatedDisk()
    filled(disk)
    again = checksums_on(disk)
    again.load(ENDS[1], remember_beyond=True)
    changed = bytearray(DATA)
    changed[ENDS[3] + 7] ^= 1
    assert again.count_equal(0, pack_checksums(changed, 0, [0, *ENDS], 0)) == 4


def test_files_expire_with_their_segments():
    disk = SimulatedDisk()
    checksums = filled(disk)
    put(checksums, 0, DATA, SIZES)
    put(checksums, SEGMENT, DATA, SIZES)
    assert [file.path for file in checksums.expire(SEGMENT)] == ["checksums/00000000000000000000"]
    assert checksums.late_bytes == 5 * ENTRY.size
    checksums.write_late()
    assert disk.counts["create"] == 2


@pytest.mark.parametrize("written", [4, 5, 6, 7])
def test_torn_entry_does_not_reject_its_record(written: int):
    disk = SimulatedDisk()
    filled(disk)
    disk.nodes["checksums/00000000000000000000"].content[4 * 8 + written : 5 * 8] = bytes(8 - written)
    again = checksums_on(disk)
    again.load(ENDS[2], remember_beyond=True)
    assert fit(again) == [True, True, True, True, None]
