from __future__ import annotations

from skyrocket.broker.delay.level_progress import UNSAFE_MAX, DelayLevelProgress
from skyrocket.protocol.bodies import DataVersion, DelayOffsetSerializeWrapper


class Disk:
    def __init__(self) -> None:
        self.safe = 0

    def __call__(self) -> int:
        return self.safe


def progress(disk: Disk | None = None, **offsets: int) -> DelayLevelProgress:
    made = DelayLevelProgress(disk or Disk(), lambda: 7_000)
    made.load(DelayOffsetSerializeWrapper({int(level[1:]): offset for level, offset in offsets.items()}, DataVersion(0, 1, 4)))
    return made


def test_the_file_names_only_what_is_safe():
    disk = Disk()
    level_one = progress(disk)
    level_one.advance(1, 10, position=1_000)
    level_one.advance(1, 20, position=2_000)
    assert level_one.next_offset(1, 0, 30) == 20
    disk.safe = 1_999
    assert level_one.snapshot().offset_table == {1: 10}
    disk.safe = 2_000
    assert level_one.snapshot().offset_table == {1: 20}


def test_a_change_is_one_when_it_is_safe():
    disk = Disk()
    table = progress(disk, _1=5)
    before = table.changes
    table.advance(1, 6, position=100)
    assert table.changes == before
    disk.safe = 100
    assert table.changes > before


def test_each_saved_change_has_a_version_of_its_own():
    disk = Disk()
    table = progress(disk, _1=5)
    assert table.snapshot().data_version == DataVersion(0, 1, 4)
    table.advance(1, 6, position=0)
    assert table.snapshot().data_version == DataVersion(0, 7_000, 5)
    assert table.snapshot().data_version == DataVersion(0, 7_000, 5)


def test_progress_before_the_queue_goes_to_its_begin():
    table = progress(_1=5)
    assert table.next_offset(1, least=100, most=200) == 100
    assert table.snapshot().offset_table == {1: 100}


def test_progress_behind_the_queue_goes_to_its_end_and_new_messages_are_delivered():
    table = progress(_3=500)
    assert table.next_offset(3, least=0, most=20) == 20
    assert table.next_offset(3, least=0, most=21) == 20


def test_a_negative_offset_is_the_begin():
    assert progress(_3=-4).next_offset(3, least=0, most=20) == 0


def test_a_level_that_the_file_does_not_have_begins_at_the_begin():
    assert progress().next_offset(2, least=7, most=20) == 7


def test_levels_that_are_no_more_keep_their_place_in_the_file():
    assert progress(_18=44).snapshot().offset_table == {18: 44}


def test_what_waits_to_be_safe_is_bounded_and_nothing_is_called_safe_too_early():
    disk = Disk()
    table = progress(disk)
    for offset in range(3 * UNSAFE_MAX):
        table.advance(1, offset + 1, position=offset + 1)
    disk.safe = UNSAFE_MAX
    assert 0 < table.snapshot().offset_table[1] <= UNSAFE_MAX
    disk.safe = 3 * UNSAFE_MAX
    assert table.snapshot().offset_table == {1: 3 * UNSAFE_MAX}
