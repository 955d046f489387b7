"""Timer log, timer wheel and timer checkpoint, as bytes and as files."""

from __future__ import annotations

import pytest

from skyrocket.store.timers.timer_checkpoint import PAGE_BYTES, TimerCheckpoint, decode_timer_checkpoint, encode_timer_checkpoint
from skyrocket.store.timers.timer_log import BLANK, BLANK_MAGIC, NO_POSITION, UNIT, TimerLog
from skyrocket.store.timers.timer_wheel import EMPTY_SLOT, SLOT, TimerWheel, WheelSlot
from tests.support.stores.simulated_disk import SimulatedDisk

SEGMENT_BYTES = 4096
PER_SEGMENT = (SEGMENT_BYTES - 16) // 52


def a_log(disk: SimulatedDisk) -> TimerLog:
    log = TimerLog(disk, "/store/timerlog", SEGMENT_BYTES)
    log.load()
    return log


def units(log: TimerLog, count: int, first: int = 0) -> list[int]:
    """Append units whose messages lie at 1000 times their number."""
    places = log.places(count)
    log.append(places, [UNIT.pack(52, NO_POSITION, 1, 7_000, 50, (first + i) * 1000, 99, 5, 0) for i in range(count)])
    return places


def test_sizes_are_apaches():
    assert (UNIT.size, BLANK.size, SLOT.size) == (52, 16, 32)
    assert BLANK_MAGIC == -875_286_124


def test_units_never_cross_the_end_of_a_file_and_a_blank_fills_it():
    disk = SimulatedDisk()
    log = a_log(disk)
    places = units(log, PER_SEGMENT + 2)
    assert places[PER_SEGMENT - 1] == (PER_SEGMENT - 1) * 52
    assert places[PER_SEGMENT:] == [SEGMENT_BYTES, SEGMENT_BYTES + 52]
    first_file = disk.nodes["/store/timerlog/" + "0" * 20].content
    assert BLANK.unpack_from(first_file, PER_SEGMENT * 52) == (SEGMENT_BYTES - PER_SEGMENT * 52, 0, BLANK_MAGIC)
    assert [unit.physical_offset for _, unit in log.units(0)] == [i * 1000 for i in range(PER_SEGMENT + 2)]
    assert [position for position, _ in log.units(0)] == places


@pytest.mark.parametrize("steps", [1, 7, PER_SEGMENT, PER_SEGMENT - 1, 200])
def test_positions_do_not_depend_on_the_number_of_units_at_once(steps: int):
    log = a_log(SimulatedDisk())
    for first in range(0, 400, steps):
        units(log, min(steps, 400 - first), first)
    assert [unit.physical_offset for _, unit in log.units(0)] == [i * 1000 for i in range(400)]
    assert log.unit(log.end) is None
    assert log.unit(-1) is None


def test_units_at_equals_unit_for_each():
    log = a_log(SimulatedDisk())
    places = units(log, 2 * PER_SEGMENT + 5)
    wanted = [places[-1], places[0], places[PER_SEGMENT], -1, 7, log.end, places[3], SEGMENT_BYTES - 20]
    assert log.units_at(wanted) == [log.unit(position) for position in wanted]
    assert log.units_at([]) == []


def chained(log: TimerLog, count: int) -> list[int]:
    """Append units that are chained to each other."""
    places = log.places(count)
    befores = [NO_POSITION, *places]
    log.append(places, [UNIT.pack(52, befores[i], 1, 7_000, 50, i * 1000, 99, 5, 0) for i in range(count)])
    return places


def test_a_chain_is_followed_to_its_first_unit_through_all_files():
    log = a_log(SimulatedDisk())
    places = chained(log, 2 * PER_SEGMENT + 5)
    assert [position for position, _ in log.chain(places[-1], 1000)] == places[::-1]
    assert [position for position, _ in log.chain(places[-1], 3)] == places[:-4:-1]
    assert log.chain(NO_POSITION, 10) == []


def test_chain_ends_at_a_damaged_unit():
    disk = SimulatedDisk()
    log = a_log(disk)
    places = chained(log, 10)
    disk.nodes["/store/timerlog/" + "0" * 20].content[places[4] : places[4] + 4] = bytes(4)
    assert [position for position, _ in log.chain(places[-1], 100)] == places[:4:-1]


def test_truncated_units_are_not_found():
    disk = SimulatedDisk()
    log = a_log(disk)
    places = units(log, 3 * PER_SEGMENT)
    end = places[PER_SEGMENT + 3]
    log.truncate(end)
    again = a_log(disk)
    assert [position for position, _ in again.units(0)] == places[: PER_SEGMENT + 3]
    again.truncate(end)
    assert units(again, 1, first=9_999) == [end]
    assert [unit.physical_offset for _, unit in again.units(0)][-1] == 9_999_000


def test_files_expire_with_their_messages():
    log = a_log(disk := SimulatedDisk())
    units(log, 3 * PER_SEGMENT)
    removed = disk.counts["remove"]
    assert [file.path for file in log.expire(PER_SEGMENT * 1000 - 1)] == [log.segments.path(0)]
    assert disk.counts["remove"] == removed, "the loop does not wait for it: the next round of retention deletes the file"
    assert log.start == SEGMENT_BYTES
    log.expire(10**12)
    assert log.start == 2 * SEGMENT_BYTES, "the last one is in use"


def test_slot_of_an_earlier_round_is_empty():
    wheel = TimerWheel(SimulatedDisk(), "/store/timerwheel", 10, 1_000)
    wheel.create()
    wheel.link(5_400, 52, 104, 2)
    wheel.link(5_999, 156, 156, 1)
    assert wheel.slot(5_000) == WheelSlot(52, 156, 3)
    assert wheel.slot(5_000 + 20_000) == EMPTY_SLOT
    wheel.link(25_000, 208, 208, 1)
    assert wheel.slot(25_500) == WheelSlot(208, 208, 1)
    assert wheel.slot(5_000) == EMPTY_SLOT


def test_wheel_has_apaches_layout():
    disk = SimulatedDisk()
    wheel = TimerWheel(disk, "/store/timerwheel", 7 * 24 * 3600, 1_000)
    wheel.create()
    wheel.link(3_500, 52, 104, 2)
    content = disk.nodes["/store/timerwheel"].content
    assert len(content) == 38_707_200
    assert SLOT.unpack_from(content, 3 * 32) == (3, 52, 104, 2, 0)


OURS = TimerCheckpoint(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 1, 11, 12)


def test_timer_checkpoint_survives_encoding():
    page = encode_timer_checkpoint(OURS)
    assert len(page) == PAGE_BYTES
    assert page[:56] == b"".join(number.to_bytes(8) for number in range(1, 8))
    assert decode_timer_checkpoint(page) == OURS


def test_timer_checkpoint_of_another_broker_has_only_apaches_fields():
    page = bytearray(encode_timer_checkpoint(OURS))
    page[7] = 99
    assert decode_timer_checkpoint(bytes(page)) == TimerCheckpoint(99, 2, 3, 4, 5, 6, 7)
    assert not decode_timer_checkpoint(b"").is_ours
