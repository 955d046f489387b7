"""`OpenFiles`: a bounded number of open files, of which those that must be synced stay open."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from skyrocket.store.files import Disk, File, NotOpenedError, OpenFiles


class CountingDisk(Disk):
    """Counts what is opened, and refuses to open when told so."""

    def __init__(self) -> None:
        super().__init__()
        self.opened = 0
        self.refuses = False

    def open(self, path: str, *, writable: bool) -> File:
        self.opened += 1
        if self.refuses:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), path)
        return super().open(path, writable=writable)


def open_descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def create_files(opened: OpenFiles, directory: Path, count: int) -> list[str]:
    paths = [f"{directory}/{number}" for number in range(count)]
    for path in paths:
        opened.create(path, 10, 0)
    return paths


def test_written_file_stays_open_until_it_is_synced(tmp_path: Path):
    disk = CountingDisk()
    opened = OpenFiles(disk, 4)
    paths = create_files(opened, tmp_path, 10)
    written = opened.get_to_write(paths[3])
    for path in paths:
        opened.get(path)
    assert opened.get(paths[3]) is written
    taken, disk.opened = opened.take_unsynced(), 0
    taken.sync()
    assert disk.opened == 0, "a sync needs no new descriptor"
    assert not opened.take_unsynced().held
    for path in paths:
        opened.get(path)
    assert opened.get(paths[3]) is not written


def test_the_bound_holds_when_every_file_is_unsynced(tmp_path: Path):
    opened = OpenFiles(CountingDisk(), 8)
    paths = create_files(opened, tmp_path, 40)
    before = open_descriptors() - 8
    for path in paths:
        opened.get_to_write(path).write(0, b"x")
        assert open_descriptors() <= before + 8
    taken = opened.take_unsynced()
    assert sorted([*taken.held, *taken.closed]) == sorted(paths)
    taken.sync()


def test_file_that_cannot_be_opened_is_no_failed_sync(tmp_path: Path):
    disk = CountingDisk()
    opened = OpenFiles(disk, 2)
    paths = create_files(opened, tmp_path, 5)
    for path in paths:
        opened.get_to_write(path)
    taken, disk.refuses = opened.take_unsynced(), True
    with pytest.raises(NotOpenedError):
        taken.sync()
    opened.put_back(taken)
    disk.refuses = False
    again = opened.take_unsynced()
    assert sorted([*again.held, *again.closed]) == sorted(paths)
    again.sync()


def test_file_that_is_removed_while_a_job_has_it_is_no_failed_sync(tmp_path: Path):
    disk = CountingDisk()
    opened = OpenFiles(disk, 2)
    before = open_descriptors()
    paths = create_files(opened, tmp_path, 4)
    for path in paths:
        opened.get_to_write(path)
    taken = opened.take_unsynced()
    for path in paths:
        opened.forget(path)
        disk.remove(path)
    taken.sync()
    del taken
    assert open_descriptors() == before
