"""The commit log: consecutive records, blanks at the ends of segments, and appends that are all or nothing."""

from __future__ import annotations

import errno
from concurrent.futures import ThreadPoolExecutor

import pytest

from skyrocket.protocol.message.record import BLANK_MAGIC, decode_record
from skyrocket.store.errors import DiskFullError, StoreIOError, TooLargeError, WritesStoppedError
from skyrocket.store.files import OpenFiles
from skyrocket.store.log.commit_log import BLANK, CommitLog
from tests.support.stores.simulated_disk import SimulatedDisk
from tests.support.stores.store_messages import a_message

SEGMENT = 4096


def a_log(disk: SimulatedDisk, background: ThreadPoolExecutor | None = None) -> CommitLog:
    log = CommitLog(disk, OpenFiles(disk, 100), "log", SEGMENT, background)
    log.load()
    return log


def records(count: int, body_bytes: int = 900) -> list[bytes]:
    return [a_message(body=bytes(body_bytes)).record for _ in range(count)]


def put(log: CommitLog, some: list[bytes]) -> list[int]:
    written = log.append(some, list(range(len(some))), 1000)
    return [offset for run in written for offset in run.offsets]


def test_append_fills_in_offsets_and_store_time():
    log = a_log(SimulatedDisk())
    some = [a_message(body=b"one").record, a_message(body=b"two", v6=True).record]
    first, second = put(log, some)
    assert (first, second, log.end) == (0, len(some[0]), len(some[0]) + len(some[1]))
    for number, offset in enumerate((first, second)):
        view = log.view(offset, len(some[number]))
        assert view is not None
        record = decode_record(view)
        assert (record.queue_offset, record.physical_offset, record.store_timestamp) == (number, offset, 1000)


def test_record_that_does_not_fit_goes_to_the_next_segment_behind_a_blank():
    log = a_log(SimulatedDisk())
    some = records(5)
    offsets = put(log, some)
    assert offsets[4] == SEGMENT
    blank_at = offsets[3] + len(some[3])
    assert log.is_blank(blank_at)
    view = log.segments.file(0).view()
    assert BLANK.unpack_from(view, blank_at) == (SEGMENT - blank_at, BLANK_MAGIC)
    assert not log.is_blank(offsets[0])


def test_every_segment_has_room_for_its_blank():
    for body_bytes in range(3970, 4010):
        log = a_log(SimulatedDisk())
        record = a_message(body=bytes(body_bytes)).record
        if len(record) + BLANK.size > SEGMENT:
            with pytest.raises(TooLargeError):
                put(log, [record])
            assert log.end == 0
        else:
            assert put(log, [record, record]) == [0, SEGMENT]


def test_one_append_may_cross_several_segments():
    log = a_log(SimulatedDisk())
    offsets = put(log, records(20))
    assert log.segments.starts == [0, SEGMENT, 2 * SEGMENT, 3 * SEGMENT, 4 * SEGMENT]
    assert offsets == sorted(offsets)
    assert all(offset // SEGMENT == (offset + 900) // SEGMENT for offset in offsets)


def test_bytes_behind_the_end_cannot_be_read():
    log = a_log(SimulatedDisk())
    put(log, records(1))
    assert log.view(log.end, 1) is None
    assert log.view(0, log.end + 1) is None
    assert log.view(0, -1) is None
    assert log.view(-5, 5) is None


@pytest.mark.parametrize(("number", "typed"), [(errno.ENOSPC, DiskFullError), (errno.EIO, StoreIOError)])
@pytest.mark.parametrize("nth", [1, 2, 3])
def test_append_over_several_segments_is_all_or_nothing(nth: int, number: int, typed: type[Exception]):
    disk = SimulatedDisk()
    log = a_log(disk)
    put(log, records(2))
    end = log.end
    disk.fail("write", nth, number, short=True)
    with pytest.raises(typed):
        put(log, records(12))
    assert log.end == end
    (offset,) = put(log, records(1, 10))
    assert offset == end
    behind = [bytes(log.segments.file(start).view()) for start in log.segments.starts]
    assert not any(behind[0][log.end :])
    assert not any(any(content) for content in behind[1:]), "something that nobody stored was left"


def test_append_fails_when_a_segment_cannot_be_created_and_works_later():
    disk = SimulatedDisk()
    log = a_log(disk)
    put(log, records(4))
    disk.fail("create", 1, errno.ENOSPC)
    with pytest.raises(DiskFullError):
        put(log, records(1))
    assert put(log, records(1)) == [SEGMENT]


def test_failed_sync_while_scrubbing_stops_writes():
    disk = SimulatedDisk()
    log = a_log(disk)
    disk.fail("write", 1, short=True)
    with pytest.raises(StoreIOError):
        put(log, records(1))
    disk.fail("sync")
    with pytest.raises(WritesStoppedError):
        put(log, records(1))


def test_next_segment_is_created_ahead_and_used():
    with ThreadPoolExecutor(1) as background:
        disk = SimulatedDisk()
        log = a_log(disk, background)
        put(log, records(3))
        background.submit(lambda: None).result()
        assert len(disk.names("log")) == 2
        creates = disk.counts["create"]
        put(log, records(2))
        assert log.segments.starts == [0, SEGMENT]
        assert disk.counts["create"] == creates
        log.close()


def test_unused_segment_is_deleted_on_close():
    with ThreadPoolExecutor(1) as background:
        disk = SimulatedDisk()
        log = a_log(disk, background)
        put(log, records(3))
        log.close()
        assert len(disk.names("log")) == 1


def test_failed_creation_ahead_is_raised_when_needed_and_retried():
    with ThreadPoolExecutor(1) as background:
        disk = SimulatedDisk()
        log = a_log(disk, background)
        disk.fail("create", 2, errno.ENOSPC)
        put(log, records(4))
        with pytest.raises(DiskFullError):
            put(log, records(1))
        assert put(log, records(1)) == [SEGMENT]
        log.close()


def test_only_the_files_that_were_written_are_flushed():
    log = a_log(disk := SimulatedDisk())
    put(log, records(10))
    for start, stop, synced in ((0, log.end, 3), (SEGMENT, SEGMENT + 1, 1)):
        before = disk.counts["sync"]
        log.sync(start, stop)
        assert disk.counts["sync"] - before == synced


def test_files_behind_the_recovered_end_are_deleted():
    disk = SimulatedDisk()
    log = a_log(disk)
    put(log, records(10))
    log.set_end(SEGMENT)
    assert log.segments.starts == [0]
    assert put(log, records(1)) == [SEGMENT]
